// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint8_t

#include "async/detail/base/atomics.hpp"  // for wait_clock
#include "async/detail/base/chrono.hpp"   // for microseconds

namespace async::inline v0_1::detail {

/// Tells a turn when to look at the clock, and whether it has taken so long that it ends with its current step: timers,
/// messages and others are waiting. A turn is that of a flow, whose steps it counts, or that of a loop, which counts
/// messages and runnables. One loop's, on its thread.
///
/// A look takes as long as ten quick steps. So a turn looks after 16, 17 and 65 steps, and so on. Once steps have taken
/// long, the next 16 turns look at their begin and after 1, 2, 4, 8 and so on.
template <class Clock>
class basic_turn_pace {
 public:
  using time_point = typename Clock::time_point;
  static constexpr std::chrono::microseconds longest{1000};
  /// Steps that a turn has before its first look.
  static constexpr unsigned few = 16;
  /// From look(): the turn has taken long.
  static constexpr unsigned is_up = ~0U;

  /// A turn of at most `steps` begins, whose `since` is time_point(). Returns how many are left when it is to look.
  unsigned begin(unsigned steps, time_point& since) noexcept {
    if (state_ == quick) [[likely]]
      return steps > few ? steps - few : 0;
    return state_ != never && steps != 1 ? begin_slowly(steps, since) : 0;
  }
  /// Where begin() has told to: after `ran` steps, with `left` steps that the turn may still run. Returns how many are
  /// left at the next look; or is_up.
  [[gnu::noinline]] unsigned look(unsigned ran, unsigned left, time_point& since) noexcept {
    const time_point now = Clock::now();
    unsigned gap = ran < few ? ran : longest_gap;
    if (since == time_point()) {
      since = now;
      gap = 1;
    } else if (now - since >= longest) {
      if (now - since >= ran * slow_step) state_ = slow_turns;
      return is_up;
    }
    return left > gap ? left - gap : 0;
  }

  /// For a loop with a clock of its own: its order depends on nothing else.
  void never_look() noexcept { state_ = never; }

 private:
  static constexpr unsigned longest_gap = 48;
  static constexpr std::chrono::microseconds slow_step{50};
  static constexpr std::uint8_t quick = 0, slow_turns = 16, never = 0xff;

  [[gnu::noinline]] unsigned begin_slowly(unsigned steps, time_point& since) noexcept {
    --state_;
    since = Clock::now();
    return steps - 1;
  }

  std::uint8_t state_ = quick;  // or the number of turns that still begin slowly; or never
};

using turn_pace = basic_turn_pace<wait_clock>;

}  // namespace async::inline v0_1::detail
