// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint64_t

#include "async/detail/base/atomics.hpp"  // for under_model
#include "async/detail/base/backoff.hpp"  // for pause_for
#include "async/detail/base/min_max.hpp"  // for max_of, min_of

namespace async::inline v0_1::detail {

/// Adaptive back-off of a consumer that has caught up with its producer, or of a producer with its consumer.
///
/// Such a consumer takes away the cache line that the producer is writing, element by element. If this thread's last
/// stop was short, it therefore waits a little without touching memory, so that several elements are ready when it
/// looks again. The wait grows until it gains a hundred elements, or a tenth of the queue's room, and shrinks where it
/// gains most of what the queue has room for: the other side would soon wait for this one. When it gains nothing,
/// waiting stops for some positions; when there was nothing at all twice in a row, for many. A thread that polls for
/// long, or polls several queues, never waits, so latency does not suffer. Each thread has one state for each kind;
/// `Tag` and `Side` tell kinds apart.
template <class Tag, int Side>
class consumer_backoff {
 public:
  static constexpr std::uint64_t unbounded = ~std::uint64_t{0};

  /// Call when position `at` of `queue`, which has room for `capacity` elements, is not ready. True: the thread has
  /// waited and looks once more.
  static bool wait(const void* queue, std::uint64_t at, std::uint64_t capacity = unbounded) noexcept {
    if constexpr (under_model) {
      return false;
    } else {
      const unsigned pauses = state.stop(queue, at, capacity);
      if (pauses == 0) return false;
      pause_for(pauses);
      return true;
    }
  }

  /// The pauses of the next wait, after one of `pauses` that has gained `gained` elements.
  static constexpr unsigned next(unsigned pauses, std::uint64_t gained, std::uint64_t capacity) noexcept {
    const std::uint64_t enough = min_of(capacity / 2 + capacity / 8, most_gain);
    if (gained > enough) return max_of(pauses / 2, shortest);
    return gained < enough / 6 ? min_of(2 * pauses, most) : pauses;
  }

  /// Whether the thread has polled at its last stop for so long that it will not wait at the next one.
  static bool is_long() noexcept {
    if constexpr (under_model) {
      return true;
    } else {
      return state.polls >= long_stop;
    }
  }

 private:
  struct record {
    const void* queue;
    std::uint64_t position;  // of the last stop
    unsigned polls;          // looks at that position
    unsigned length;         // of the next wait, in pauses
    unsigned penalty;        // positions to pass before the next wait
    bool waited;             // at the last stop
    unsigned vain;           // waits in a row that found nothing

    unsigned stop(const void* asked, std::uint64_t at, std::uint64_t capacity) noexcept {
      if (queue != asked) {
        *this = {asked, at, 1, start, 0, false, 0};
        return 0;
      }
      if (at == position) {
        ++polls;
        return 0;
      }
      const std::uint64_t gained = at - position;
      if (waited) {
        vain = polls == 1 ? 0 : min_of(vain + 1, most_vain);
        if (gained <= 2 || vain == most_vain) {
          penalty = vain == most_vain ? long_penalty : short_penalty;
          length = least;
        } else {
          length = next(length, gained, capacity);
        }
      }
      const bool was_short = polls < long_stop;
      waited = was_short && penalty == 0;
      penalty -= static_cast<unsigned>(min_of(std::uint64_t{penalty}, gained));
      position = at;
      polls = 1;
      return waited ? length : 0;
    }
  };
  static constexpr unsigned long_stop = 3;
  static constexpr unsigned most_vain = 2;
  static constexpr unsigned short_penalty = 64;
  static constexpr unsigned long_penalty = 1024;  // no thread fills the queue meanwhile; perhaps this one does
  static constexpr std::uint64_t most_gain = 600;
  static constexpr unsigned start = 64;
  static constexpr unsigned shortest = 4;
  static constexpr unsigned least = 16;
  static constexpr unsigned most = 128;

  // One per module: only a hint.
  static inline constinit thread_local record state{nullptr, 0, 0, start, 0, false, 0};
};

}  // namespace async::inline v0_1::detail
