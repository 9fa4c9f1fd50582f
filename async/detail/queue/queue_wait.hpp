// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "async/detail/base/atomics.hpp"        // for wait_clock, under_model
#include "async/detail/base/backoff.hpp"        // for spin_before_sleep
#include "async/detail/base/chrono.hpp"         // for duration, nanoseconds, time_point
#include "async/detail/base/config.hpp"         // for ASYNCSTEPS_SHARED
#include "async/detail/base/durations.hpp"      // for to_nanoseconds, later, practically_never
#include "async/detail/base/min_max.hpp"        // for min_of
#include "async/detail/base/naps.hpp"           // for sleep_in_naps, tell_of_poll
#include "async/detail/queue/event_count.hpp"   // for event_count
#include "async/detail/queue/queue_result.hpp"  // for queue_result

/// The blocking and timed calls of the queues.
namespace async::inline v0_1::detail {

/// The end of a timed call, on the steady clock; never, for limits of decades.
class queue_deadline {
 public:
  template <class Rep, class Period>
  explicit queue_deadline(std::chrono::duration<Rep, Period> limit) {
    const std::chrono::nanoseconds time = to_nanoseconds(limit);
    if (time >= practically_never) {
      is_never_ = true;
    } else if (time > time.zero()) {
      at_ = later(wait_clock::now(), time);
    } else {
      has_passed_ = true;  // also not-a-number
    }
  }
  const wait_clock::time_point* time() const noexcept { return is_never_ ? nullptr : &at_; }
  bool has_passed() const noexcept { return has_passed_ || (!is_never_ && wait_clock::now() >= at_); }

 private:
  wait_clock::time_point at_{};
  bool is_never_ = false;
  bool has_passed_ = false;
};

/// Decides whether a thread yields before it sleeps in a queue or a select. Where many threads wait for few elements or
/// little room, the one that gets the next is seldom the one that yields. After some yields in vain there are none
/// before the next sleeps: before one, three, seven, and so on, up to 15. Not thread-safe.
class fruitless_yields {
 public:
  /// Call before each sleep.
  bool pay() noexcept {
    if (skipped_ == pause_) {
      skipped_ = 0;
      return true;
    }
    ++skipped_;
    return false;
  }
  /// Call after the yields.
  void add(bool have_found) noexcept {
    if (have_found) {
      in_vain_ = pause_ = 0;
    } else if (++in_vain_ >= enough) {
      pause_ = min_of(2 * pause_ + 1, longest);
    }
  }

 private:
  static constexpr unsigned enough = 8;
  static constexpr unsigned longest = 15;
  unsigned skipped_ = 0;
  unsigned pause_ = 0;    // sleeps without yields before the next one with some
  unsigned in_vain_ = 0;  // in a row
};
ASYNCSTEPS_SHARED inline constinit thread_local fruitless_yields yields_at_queues{};

/// Spins for a few microseconds. False: it is time to sleep.
template <class Hint>
[[gnu::noinline, gnu::cold]] bool is_worth_another_try(const queue_deadline* until, Hint hint) {
  if constexpr (!under_model) {
    const bool yields = yields_at_queues.pay();
    const bool has_found = spin_before_sleep(
        yields ? 16 : 0, [&]() noexcept { return hint() || (until != nullptr && until->has_passed()); });
    if (yields) yields_at_queues.add(has_found);
    return has_found;
  }
  return false;
}

/// Tries, spins for a while, then announces the sleep, tries again and sleeps, until there is something to return.
/// False: closed, or `until` (null: no limit) has passed.
///
/// No wake-up is lost if `attempt` reports "blocked" by a seq_cst load of the word that the other side changes with a
/// seq_cst operation before it calls `events.wake()`.
template <class Attempt, class Hint>
bool wait_in_queue(event_count& events, const queue_deadline* until, Attempt attempt, Hint hint) {
  bool has_slept = false;
  try {
    for (;;) {
      if (const queue_result r = attempt(); r != queue_result::blocked) return r == queue_result::done;
      if (until != nullptr && until->has_passed()) {
        if (!has_slept) tell_of_poll();
        return false;
      }
      if (is_worth_another_try(until, hint)) continue;
      event_count::announcement here(events);
      if (const queue_result r = attempt(); r != queue_result::blocked) return r == queue_result::done;
      const auto sleep = [&here](const wait_clock::time_point* deadline) noexcept { return here.sleep(deadline); };
      static_cast<void>(sleep_in_naps(until != nullptr ? until->time() : nullptr, sleep));
      has_slept = true;
    }
  } catch (...) {  // of an element's copy: what this thread was woken for is left to the next
    events.wake(1);
    throw;
  }
}

}  // namespace async::inline v0_1::detail
