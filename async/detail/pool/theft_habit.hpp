// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for int64_t
#include <utility>  // for exchange

#include "async/detail/base/atomics.hpp"  // for wait_clock
#include "async/detail/base/backoff.hpp"  // for pause_for
#include "async/detail/base/chrono.hpp"   // for nanoseconds
#include "async/detail/base/min_max.hpp"  // for max_of, min_of

namespace async::inline v0_1::detail {

/// Whether a worker steals tasks at once. A theft takes the deque's cache lines, and those of the task, from the thread
/// that uses them. Both lose more time by that than a short task takes. While stolen tasks are short, the worker lets
/// the other thread run its tasks for a moment, and steals only what is left then.
///
/// Short is what takes less than two and a half times as long as a theft that does not follow another one at once: how
/// long that takes depends on how far the two processors are from each other. Not thread-safe: one object belongs to
/// one worker. `Pause` waits so many pauses of the processor.
template <class Clock, void (*Pause)(unsigned) = &pause_for>
class basic_theft_habit {
 public:
  using duration = typename Clock::duration;

  /// Before a look at the deques of others.
  void begin_look() noexcept {
    may_wait_ = !pays_;
    is_cold_ = !pays_ || !std::exchange(stole_, false);
  }
  /// Whether something is left in the deque. Waits at most once in a look, for some microseconds, and the next time for
  /// longer if the deque's thread has used it meanwhile. Does not wait for a deque at whose bottom nothing happens: its
  /// thread does something else, and loses nothing.
  template <class Deque>
  bool is_left(const Deque& deque) noexcept {
    if (deque.empty()) return false;
    if (!may_wait_) return true;
    if (unattended_ == &deque && deque.position() == bottom_) {
      is_cold_ = false;
      return true;
    }
    const auto top = deque.top();
    bottom_ = deque.position();
    Pause(pauses_);  // without another look, which would take the line
    may_wait_ = false;
    const bool is_unattended = deque.position() == bottom_;
    unattended_ = is_unattended ? &deque : nullptr;
    pauses_ = is_unattended ? fewest : min_of(2 * pauses_, most);
    return deque.top() == top && !deque.empty();
  }
  /// Around each theft that succeeds. Reads the clock for cold ones, and for one in eight others.
  void begin_theft() noexcept { began_at_ = is_cold_ || ++thefts_ % 8 == 0 ? Clock::now() : none; }
  void end_theft() noexcept {
    stole_ = true;
    if (began_at_ == none) return;
    stole_at_ = Clock::now();
    const duration cost = stole_at_ - began_at_;
    if (is_cold_ && cost < interrupted) cost_ = max_of(cost, cost_ - cost_ / 16);
  }

  /// After tasks: the first may have been stolen, the others are those that it has made.
  void end_task() noexcept {
    if (stole_at_ == none) [[likely]]
      return;
    pays_ = Clock::now() - stole_at_ >= 5 * cost_ / 2;
    if (pays_) pauses_ = fewest;
    stole_at_ = none;
  }

 private:
  using time_point = typename Clock::time_point;
  static constexpr time_point none{};
  static constexpr unsigned fewest = 96, most = 384;
  static constexpr std::chrono::nanoseconds interrupted{800};  // a theft that takes longer counts for nothing

  duration cost_ = std::chrono::nanoseconds(100);  // of a cold theft: falls slowly
  time_point began_at_ = none;
  time_point stole_at_ = none;        // when that was measured
  const void* unattended_ = nullptr;  // the deque whose bottom has stayed at bottom_
  std::int64_t bottom_ = 0;
  unsigned thefts_ = 0;
  unsigned pauses_ = fewest;  // of the next wait
  bool pays_ = true;
  bool may_wait_ = false;  // in this look
  bool stole_ = false;     // since the last look began
  bool is_cold_ = true;    // a theft in this look does not follow another one at once
};

using theft_habit = basic_theft_habit<wait_clock>;

}  // namespace async::inline v0_1::detail
