// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint64_t

#include "async/detail/base/atomics.hpp"  // for under_model
#include "async/detail/base/backoff.hpp"  // for pause_for
#include "async/detail/base/min_max.hpp"  // for max_of, min_of

namespace async::inline v0_1::detail {

/// Adaptive back-off of a thread that has lost a race for the counter of a queue's end.
///
/// Each change of hands costs cache misses, so a queue is fastest while one thread has an end to itself for many
/// elements. If others move the counter fast during a wait, the next wait is longer, until waits leave them a hundred
/// elements or so. If they move it slowly, the race was a coincidence, and waits shrink to the few pauses in which the
/// winner finishes. Each thread has one state for each kind; `Tag` and `Side` tell kinds apart.
template <class Tag, int Side>
class race_backoff {
 public:
  /// Waits at least `least` pauses, and returns look(): the counter then. It was `lost` when the thread lost the race.
  /// position(counter) grows by about one with each element.
  template <class Look, class Position>
  static std::uint64_t wait(std::uint64_t lost, unsigned least, Look look, Position position) noexcept {
    if constexpr (under_model) {
      pause_for(1);
      return look();
    } else {
      const unsigned pauses = max_of(length, least);
      pause_for(pauses);
      const std::uint64_t now = look();
      length = next(pauses, position(now) - position(lost));
      return now;
    }
  }

  /// The pauses of the next wait, after one of `pauses` in which others have moved the counter by `gained`.
  static constexpr unsigned next(unsigned pauses, std::uint64_t gained) noexcept {
    const bool is_fast = gained * slow >= pauses;
    if (!is_fast || gained > enough) return pauses / 2;
    return gained < wanted ? max_of(pauses, min_of(2 * pauses, most)) : pauses;
  }

 private:
  static constexpr unsigned slow = 8;  // pauses for each element: as long as a change of hands takes
  static constexpr std::uint64_t wanted = 128;
  static constexpr std::uint64_t enough = 1024;
  static constexpr unsigned most = 256;

  // One per module: only a hint.
  static inline constinit thread_local unsigned length = 0;
};

}  // namespace async::inline v0_1::detail
