// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>      // for uint64_t
#include <type_traits>  // for is_same_v

#include "async/detail/base/atomics.hpp"   // for under_model, wait_clock
#include "async/detail/base/backoff.hpp"   // for pause_for
#include "async/detail/base/chrono.hpp"    // for nanoseconds
#include "async/detail/base/min_max.hpp"   // for max_of, min_of
#include "async/detail/base/platform.hpp"  // for pause_between_looks

namespace async::inline v0_1::detail {

/// Adaptive back-off of a consumer that has caught up with its producer, or of a producer with its consumer. Such a
/// consumer takes away the cache lines that the producer is writing.
///
/// Blind waits  If this thread's last stop was short, it waits a little without touching memory, so that several
///              elements are ready when it looks again. The wait grows until it gains a hundred elements, or a tenth of
///              the queue's room, and shrinks where it gains most of what the queue has room for: the other side would
///              soon wait for this one. When it gains nothing, waiting stops for some positions; when there was nothing
///              at all twice in a row, for many.
/// Watches      If the last stop was long, two threads may be answering each other. The consumer watches the next
///              element for a while, and leaves the producer's counter alone, which the producer changes first: that
///              halves a round trip. Only if the thread does nothing else between two looks, which the time of a look
///              tells. A probe, a blind wait now and then, tells whether there are several elements after all.
///
/// A thread that polls several queues never waits. Each thread has one state for each kind; `Tag` and `Side` tell kinds
/// apart.
template <class Tag, int Side, class Clock = wait_clock>
class consumer_backoff {
 public:
  static constexpr std::uint64_t unbounded = ~std::uint64_t{0};

  /// Call when position `at` of `queue`, which has room for `capacity` elements, is not ready. True: the thread has
  /// waited and looks once more.
  static bool wait(const void* queue, std::uint64_t at, std::uint64_t capacity = unbounded) noexcept {
    return wait_or_watch(queue, at, capacity, nothing{});
  }
  /// The same for a consumer, which may watch the element by is_ready(). True: it may also have seen it.
  template <class Ready>
  static bool wait_or_watch(const void* queue, std::uint64_t at, std::uint64_t capacity, Ready is_ready) noexcept {
    if constexpr (under_model) {
      return false;
    } else {
      constexpr bool may_watch = !std::is_same_v<Ready, nothing>;
      const stay now = state.stop(queue, at, capacity, may_watch);
      if (now == stay::blind || now == stay::probe) {
        pause_for(state.length);
        return true;
      }
      if constexpr (may_watch) {
        if (now == stay::watch) return state.has_found = is_ready_soon(is_ready);
      }
      return false;
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
  struct nothing {};
  enum class stay : unsigned char {
    none,
    timed,  // none, but the time between looks is measured
    blind,
    probe,  // a blind one, to learn whether there are several elements after it
    watch,
  };
  struct record {
    const void* queue;
    std::uint64_t position;            // of the last stop
    unsigned polls;                    // looks at that position
    stay last;                         // the wait there
    bool has_found;                    // the watch there
    bool does_nothing_else;            // the thread, between two looks
    unsigned length;                   // of the next blind wait, in pauses
    unsigned penalty;                  // positions to pass before the next wait
    unsigned vain;                     // blind waits in a row that found nothing
    unsigned watches;                  // between two probes
    unsigned left;                     // of them
    typename Clock::time_point begin;  // of a stop that is timed

    static constexpr record at_first(const void* asked, std::uint64_t at) noexcept {
      return {asked, at, 1, stay::none, false, false, start, 0, 0, fewest_watches, 0, {}};
    }
    stay stop(const void* asked, std::uint64_t at, std::uint64_t capacity, bool may_watch) noexcept {
      if (queue != asked) {
        *this = at_first(asked, at);
        return stay::none;
      }
      if (at == position) {
        ++polls;
        if (last == stay::timed) time_looks();
        return stay::none;
      }
      const std::uint64_t gained = at - position;
      const bool was_short = note_stop(gained, capacity);
      last = next_stay(was_short, may_watch);
      penalty -= static_cast<unsigned>(min_of(std::uint64_t{penalty}, gained));
      position = at;
      polls = 1;
      has_found = false;
      return last;
    }
    /// Whether the stop was so short that a blind wait may pay.
    bool note_stop(std::uint64_t gained, std::uint64_t capacity) noexcept {
      switch (last) {
        case stay::blind:
          vain = polls == 1 ? 0 : min_of(vain + 1, most_vain);
          if (gained > few && gained * slowest >= length && vain != most_vain) {
            length = next(length, gained, capacity);
          } else {
            penalty = vain == most_vain ? long_penalty : short_penalty;
            length = least;
          }
          break;
        case stay::probe:
          watches = gained > few ? fewest_watches : min_of(2 * watches, most_watches);
          left = watches;
          return gained > few;
        case stay::watch:
          if (has_found) return gained > few;
          break;
        default:
          break;
      }
      return polls < long_stop;
    }
    stay next_stay(bool was_short, bool may_watch) noexcept {
      if (penalty != 0) return stay::none;
      if (was_short) return stay::blind;
      if (!may_watch) return stay::none;
      if (left != 0) {
        --left;
        return does_nothing_else ? stay::watch : stay::none;
      }
      if (last == stay::timed && does_nothing_else) {
        length = least;
        return stay::probe;
      }
      does_nothing_else = false;
      return stay::timed;
    }
    /// From the second look to the third: the first one may fetch the producer's counter.
    void time_looks() noexcept {
      if (polls == 2) begin = Clock::now();
      if (polls != 3) return;
      does_nothing_else = Clock::now() - begin < quick_look;
      if (!does_nothing_else) left = fewest_watches;
    }
  };

  /// Some 2 us: the other thread may run on a distant core.
  template <class Ready>
  static bool is_ready_soon(Ready is_ready) noexcept {
    for (unsigned left = quick_looks + paused_looks; left != 0; --left) {
      left <= paused_looks ? pause_for(1) : pause_between_looks();
      if (is_ready()) return true;
    }
    return false;
  }

  static constexpr unsigned long_stop = 3;
  static constexpr std::uint64_t few = 2;
  static constexpr std::uint64_t slowest = 16;  // pauses an element: else each may as well be fetched alone
  static constexpr unsigned fewest_watches = 16;
  static constexpr unsigned most_watches = 1024;
  static constexpr unsigned most_vain = 2;
  static constexpr unsigned short_penalty = 64;
  static constexpr unsigned long_penalty = 1024;  // no thread fills the queue meanwhile; perhaps this one does
  static constexpr std::uint64_t most_gain = 600;
  static constexpr unsigned start = 64;
  static constexpr unsigned shortest = 4;
  static constexpr unsigned least = 16;
  static constexpr unsigned most = 128;
  static constexpr unsigned quick_looks = 64;
  static constexpr unsigned paused_looks = 48;
  static constexpr std::chrono::nanoseconds quick_look{60};  // and reading the clock

  // One per module: only a hint.
  static inline constinit thread_local record state = record::at_first(nullptr, 0);
};

}  // namespace async::inline v0_1::detail
