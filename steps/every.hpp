// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for size_t
#include <cstdint>  // for uint64_t

#include "async/detail/base/chrono.hpp"  // for nanoseconds, seconds

namespace steps::inline v0_1 {

/// The policy of asi.every() for ticks that have passed while a round took longer than the period. With a period of 1 s
/// and a round that begins at 0 s and ends at 2.5 s, the next rounds begin at:
enum class MissedTicks {
  skip,   ///< 2.5 s (the tick of 1 s; that of 2 s is dropped), 3 s, 4 s: the schedule stays
  delay,  ///< 2.5 s, 3.5 s, 4.5 s: the schedule begins anew
  burst   ///< 2.5 s (the tick of 1 s), then at once (that of 2 s), 3 s: no tick is dropped
};

/// The schedule of asi.every().
///
///   asi.every({.period = 1min, .first = 10s, .missed = steps::MissedTicks::delay}, f);
///
/// Threads     as a plain object.            Exceptions  none.
struct Every {
  std::chrono::nanoseconds period = std::chrono::seconds(1);  ///< from tick to tick; 0 or less: rounds without pauses
  std::chrono::nanoseconds first = std::chrono::nanoseconds(0);  ///< until the first tick; 0 or less: at once
  MissedTicks missed = MissedTicks::skip;                        ///< what becomes of ticks that have passed
};

/// The facts about a round that the body of asi.every() gets.
///
///   asi.every(1s, [](steps::IAsyncSteps& asi, const steps::Tick& tick) { if (tick.missed != 0) … });
///
/// Threads     as a plain object.            Exceptions  none.
struct Tick {
  std::size_t number = 0;  ///< of the round, from 0
  /// The ticks between that of the round before and this one that have been dropped; with MissedTicks::burst always 0.
  std::uint64_t missed = 0;
  std::chrono::nanoseconds late{0};      ///< from the tick to the beginning of the round
  std::chrono::nanoseconds previous{0};  ///< the time that the round before has taken; 0 in the first round
};

}  // namespace steps::inline v0_1
