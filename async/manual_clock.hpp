// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <atomic>  // for atomic
#include <chrono>  // for nanoseconds

#include "async/detail/base/durations.hpp"  // for later
#include "async/detail/loop/loop_core.hpp"  // for time_source

namespace async {

/// Virtual time for event loops: stands still until it is told to advance.
///
/// Use it to test timeouts without waiting and without luck: `manual_clock clock; event_loop loop(clock);`. A loop that
/// is driven by iterate() sees the time that advance() has set; run() does not sleep until a timer is due, but moves
/// the time there at once, as soon as there is nothing else to do. It must outlive the loops that use it.
///
/// Threads     any; with several loops in run() the time moves with the one that is ahead.
class manual_clock {
 public:
  using time_point = time_source::time_point;  ///< a moment of the steady clock

  /// A clock that shows `start`.
  explicit manual_clock(time_point start = time_point(std::chrono::hours(1))) noexcept
      : now_(start.time_since_epoch().count()) {}
  manual_clock(const manual_clock&) = delete;
  manual_clock& operator=(const manual_clock&) = delete;

  /// The time that it shows.
  time_point now() const noexcept { return time_point(time_point::duration(now_.load(std::memory_order_relaxed))); }

  /// Moves the time by `distance`, which is not negative, at most to its end.
  void advance(std::chrono::nanoseconds distance) noexcept {
    auto seen = now_.load(std::memory_order_relaxed);
    time_point::rep moved;
    do {
      moved = detail::later(time_point(time_point::duration(seen)), distance).time_since_epoch().count();
    } while (!now_.compare_exchange_weak(seen, moved, std::memory_order_relaxed));
  }

  /// Moves the time to `until`, unless it is later already.
  void advance_to(time_point until) noexcept {
    const auto wanted = until.time_since_epoch().count();
    auto seen = now_.load(std::memory_order_relaxed);
    while (seen < wanted && !now_.compare_exchange_weak(seen, wanted, std::memory_order_relaxed)) {
    }
  }

  /// What an event_loop is made with.
  operator time_source() noexcept {  // NOLINT: stands for it
    return {[](void* self) noexcept { return static_cast<manual_clock*>(self)->now(); },
            [](void* self, time_point until) noexcept { static_cast<manual_clock*>(self)->advance_to(until); }, this};
  }

 private:
  std::atomic<time_point::rep> now_;  // relaxed: a number that grows, nothing is published with it
};

}  // namespace async
