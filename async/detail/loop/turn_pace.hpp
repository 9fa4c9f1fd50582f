// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <chrono>   // for microseconds
#include <cstdint>  // for uint8_t

#include "async/detail/base/atomics.hpp"  // for wait_clock
#include "async/detail/base/min_max.hpp"  // for min_of

namespace async::inline v0_1::detail {

/// Tells a turn of a flow when to look at the clock, and whether it has taken so long that it ends with its current
/// step: timers, messages and other flows of the loop are waiting. One loop's, on its thread.
///
/// Quick steps must not pay for a look each. So a turn looks after 4, 5, 10, 20, 40 and 72 steps. Once a turn has taken
/// long, the next ones look at their begin and after 1, 2, 4, 8 and so on, until one finds its steps quick.
template <class Clock>
class basic_turn_pace {
 public:
  static constexpr std::chrono::microseconds longest{1000};
  /// From look(): the turn has taken long.
  static constexpr unsigned is_up = ~0U;

  /// A turn of at most `steps` begins. Returns how many are left when it is to look.
  unsigned begin(unsigned steps) noexcept {
    if (steps <= first_look_ || first_look_ == never) return 0;
    if (first_look_ == slow) [[unlikely]]
      since_ = Clock::now();
    return steps - first_look_;
  }
  /// After `ran` steps, with `left` steps that the turn may still run. Returns how many are left at the next look; or
  /// is_up.
  unsigned look(unsigned ran, unsigned left) noexcept {
    const typename Clock::time_point now = Clock::now();
    unsigned gap = min_of(ran, longest_gap);
    if (ran == quick && first_look_ == quick) {
      since_ = now;
      gap = 1;
    } else if (now - since_ >= longest) {
      first_look_ = slow;
      return is_up;
    } else if (ran >= many) {
      first_look_ = quick;
    }
    return left > gap ? left - gap : 0;
  }

  /// For a loop with a clock of its own: its order depends on nothing else.
  void never_look() noexcept { first_look_ = never; }

 private:
  static constexpr std::uint8_t never = 0, slow = 1, quick = 4;
  static constexpr unsigned longest_gap = 32;
  static constexpr unsigned many = 8;  // in a shorter time than a turn may take: steps are quick again

  // The first look of the turn that this thread is in, or its begin. One per module: only a hint. A turn of another
  // loop within a step sets it anew.
  static inline constinit thread_local typename Clock::time_point since_{};

  std::uint8_t first_look_ = quick;  // steps from the begin of a turn
};

using turn_pace = basic_turn_pace<wait_clock>;

}  // namespace async::inline v0_1::detail
