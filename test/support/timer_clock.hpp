// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <chrono>  // for nanoseconds, seconds, time_point

namespace testing {

/// A clock that is not read: tests of a timer_queue pass it every time.
struct timer_clock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<timer_clock>;
  static constexpr time_point start{std::chrono::seconds(5)};  // when the queues of the tests are made
};

}  // namespace testing
