// SPDX-License-Identifier: BSL-1.0
// floor: 0
#pragma once
#include <chrono>  // for duration, nanoseconds, ceil

namespace async::detail {

/// Any duration in nanoseconds, rounded up; what is out of range becomes the longest or the shortest one, and
/// not-a-number 0. No exceptions, any thread.
template <class Rep, class Period>
constexpr std::chrono::nanoseconds to_nanoseconds(std::chrono::duration<Rep, Period> time) {
  const double seconds = std::chrono::duration<double>(time).count();
  if (seconds >= 9.2e9) return (std::chrono::nanoseconds::max)();
  if (seconds <= -9.2e9) return (std::chrono::nanoseconds::min)();
  return seconds == seconds ? std::chrono::ceil<std::chrono::nanoseconds>(time) : std::chrono::nanoseconds::zero();
}

}  // namespace async::detail
