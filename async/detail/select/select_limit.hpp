// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "async/detail/base/atomics.hpp"      // for wait_clock
#include "async/detail/base/chrono.hpp"       // for duration, nanoseconds
#include "async/detail/base/durations.hpp"    // for to_nanoseconds, practically_never
#include "async/detail/queue/queue_wait.hpp"  // for queue_deadline

namespace async::inline v0_1::detail {

/// The limit of a case in the call that it is made in: from that moment on, on the steady clock.
class clock_limit {
 public:
  template <class Rep, class Period>
  explicit clock_limit(std::chrono::duration<Rep, Period> limit) : length_(to_nanoseconds(limit)), until_(limit) {}
  bool has_passed() const noexcept { return until_.has_passed(); }
  const wait_clock::time_point* time() const noexcept { return until_.time(); }
  std::chrono::nanoseconds length() const noexcept { return length_; }

 private:
  std::chrono::nanoseconds length_;
  queue_deadline until_;
};
/// The limit of a case that is kept. The waiter has a timer, and says when it is up.
class timer_limit {
 public:
  explicit timer_limit(const clock_limit& limit) noexcept : length_(limit.length()) {}
  bool has_passed() const noexcept { return has_passed_ || length_ <= length_.zero(); }
  bool is_never() const noexcept { return length_ >= practically_never; }
  std::chrono::nanoseconds length() const noexcept { return length_; }
  void pass() noexcept { has_passed_ = true; }

 private:
  std::chrono::nanoseconds length_;
  bool has_passed_ = false;
};

}  // namespace async::inline v0_1::detail
