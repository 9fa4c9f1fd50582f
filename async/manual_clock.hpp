// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <atomic>  // for atomic

#include "async/detail/base/chrono.hpp"     // for nanoseconds
#include "async/detail/base/durations.hpp"  // for later
#include "async/detail/loop/loop_core.hpp"  // for time_source

namespace async::inline v0_1 {

/// Virtual time for event loops. It stands still until advanced.
///
/// Use it to test timeouts without waiting and without luck: `manual_clock clock; event_loop loop(clock);`. A loop that
/// is driven by iterate() sees the time that advance() has set. run() does not sleep until a timer is due: when there
/// is nothing else to do, it moves the time there at once. The clock must outlive the loops that use it.
///
/// Threads     any. With several loops in run(), the time follows the loop that is ahead.
class manual_clock {
 public:
  using time_point = time_source::time_point;  ///< a time point of the steady clock

  /// Makes a clock that shows `start`.
  explicit manual_clock(time_point start = time_point(std::chrono::hours(1))) noexcept
      : now_(start.time_since_epoch().count()) {}
  manual_clock(const manual_clock&) = delete;
  manual_clock& operator=(const manual_clock&) = delete;

  /// The current virtual time.
  time_point now() const noexcept { return time_point(time_point::duration(now_.load(std::memory_order_relaxed))); }

  /// Moves the time forward by `distance`, which is not negative; at most to the latest time point.
  void advance(std::chrono::nanoseconds distance) noexcept {
    auto seen = now_.load(std::memory_order_relaxed);
    time_point::rep moved;
    do {
      moved = detail::later(time_point(time_point::duration(seen)), distance).time_since_epoch().count();
    } while (!now_.compare_exchange_weak(seen, moved, std::memory_order_relaxed));
  }

  /// Moves the time forward to `until`, unless it is later already.
  void advance_to(time_point until) noexcept {
    const auto wanted = until.time_since_epoch().count();
    auto seen = now_.load(std::memory_order_relaxed);
    while (seen < wanted && !now_.compare_exchange_weak(seen, wanted, std::memory_order_relaxed)) {
    }
  }

  /// The clock as the time source of an event_loop.
  operator time_source() && = delete;  // it would not outlive the loop
  operator time_source() & noexcept {  // NOLINT: stands for it
    return {[](void* self) noexcept { return static_cast<manual_clock*>(self)->now(); },
            [](void* self, time_point until) noexcept { static_cast<manual_clock*>(self)->advance_to(until); }, this};
  }

 private:
  std::atomic<time_point::rep> now_;  // relaxed: a growing number, with which nothing is published
};

}  // namespace async::inline v0_1
