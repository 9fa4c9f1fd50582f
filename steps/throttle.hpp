// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <chrono>       // for duration, nanoseconds, seconds
#include <cstddef>      // for size_t
#include <limits>       // for numeric_limits
#include <mutex>        // for lock_guard
#include <string_view>  // for string_view

#include "async/detail/base/durations.hpp"     // for later
#include "async/detail/base/spin_lock.hpp"     // for spin_lock
#include "async/detail/base/waiter_queue.hpp"  // for waiter_queue
#include "async/detail/loop/loop_core.hpp"     // for current_loop, loop_core
#include "async/event_loop.hpp"                // for event_loop
#include "steps/detail/wait/timeout.hpp"       // for to_nanoseconds
#include "steps/isync.hpp"                     // for ISync

namespace steps::inline v0_1 {

/// Lets at most `max` entries per period into the steps that it guards (FTN12 1.11.2).
///
///   steps::Throttle throttle{100, 1s, 1'000};   asi.sync(throttle, [](steps::IAsyncSteps& asi) { … });
///
/// Use it to limit a rate, as for calls of a service that has a limit. Do not use it to limit how many flows are inside
/// at the same time (Mutex; for both: Limiter).
///
/// Period      begins with the first entry, and lasts `period`: any duration, rounded up to nanoseconds; zero means no
///             limit. The next period follows at once if a flow enters or waits in it, else it begins with an entry.
///             A timer lets waiting flows in, at ticks of 65.5 us, and the periods that have passed meanwhile are not
///             made up for. So instead of a shorter period choose a larger max over a longer one.
/// Order       first come, first served.
/// Recursion   each entry counts, also of a flow that is inside.
/// Cancel      a flow that ends when it has just been let in has not entered: within the period, the next flow does.
/// Full queue  more than `max_queue` flows waiting: DefenseRejected at the step of sync(). Without `max_queue`, or with
///             `unlimited`, the queue has no limit: FTN12's null.
/// Timers      on the loops of the flows that wait: one for waiting flows that have come one after the other from one
///             loop. On a pool each waiting flow has its own. An idle Throttle has none.
/// Threads     flows of any loops, whose clocks should agree. A waiting flow is woken on its own loop; no thread ever
///             blocks.
/// Memory      a flow that has to wait takes a recycled block.
/// Lifetime    outlives the flows that use it.
class Throttle final : public ISync {
 public:
  /// max_queue for a queue of any length; max for any number of entries.
  static constexpr std::size_t unlimited = (std::numeric_limits<std::size_t>::max)();

  Throttle() noexcept : Throttle(1) {}
  /// `max` 0 lets no flow in, whatever the period.
  explicit Throttle(std::size_t max) noexcept : Throttle(max, std::chrono::seconds(1)) {}
  template <class Rep, class Period>
  Throttle(std::size_t max, std::chrono::duration<Rep, Period> period, std::size_t max_queue = unlimited) noexcept
      : max_(max), max_queue_(max_queue), period_(detail::to_nanoseconds(period)) {}
  /// Ignores the loop: for code written for implementations that need one.
  explicit Throttle(async::event_loop&, std::size_t max = 1) noexcept : Throttle(max) {}
  template <class Rep, class Period>
  Throttle(async::event_loop&, std::size_t max, std::chrono::duration<Rep, Period> period,
           std::size_t max_queue = unlimited) noexcept
      : Throttle(max, period, max_queue) {}

  entry try_enter(bool /*nested*/) noexcept override {
    const auto now = async::detail::current_loop->now();
    const std::lock_guard lock(lock_);
    return enter(now);
  }
  entry enqueue(detail::sync_waiter& waiter, bool /*nested*/) noexcept override {
    const auto now = waiter.core->now();
    time_point end;
    detail::sync_waiter* other = nullptr;
    {
      const std::lock_guard lock(lock_);
      const entry result = enter(now);
      if (result != entry::must_queue) return result;
      other = waiting_.latest_of(waiter.core);
      waiting_.push(waiter);
      end = end_;
    }
    join(waiter, other);  // which stays meanwhile, since it is of this loop
    if (other == nullptr && max_ != 0) waiter.core->timers().arm(waiter, end);
    return entry::queued;
  }
  void leave(bool) noexcept override {}
  bool withdraw(detail::sync_waiter& waiter) noexcept override {
    const std::lock_guard lock(lock_);
    return waiting_.remove(waiter);
  }
  /// The entry is the next flow's, unless its period is over. The end of a period tells which one it is: each ends
  /// later than the one before, if flows ever wait.
  void give_back(detail::sync_waiter& waiter, bool) noexcept override {
    const auto now = waiter.core->now();
    detail::sync_waiter* next = nullptr;
    {
      const std::lock_guard lock(lock_);
      if (waiter.period_end != end_) return;
      --count_;
      if (now < end_) next = admit();  // else the timers begin the next period
    }
    if (next != nullptr) next->grant();
  }
  std::string_view explain(entry) const noexcept override {
    return "Throttle: `max` flows have entered in this period, and `max_queue` flows wait";
  }

  /// One flow of each ring looks at the beginning of each period, and lets in the first flows of the queue, of any
  /// ring.
  void on_timer(detail::sync_waiter& waiter) noexcept override {
    const auto now = waiter.core->now();
    for (;;) {
      detail::sync_waiter* next = nullptr;
      time_point end;
      bool waits = false;
      {
        const std::lock_guard lock(lock_);
        renew(now);
        next = admit();
        waits = waiting_.is_in(waiter);
        end = end_;
      }
      if (next == nullptr) return waits ? waiter.core->timers().arm(waiter, end) : pass_timer(waiter, end);
      next->grant();
    }
  }
  void end_wait(detail::sync_waiter& waiter) noexcept override {
    if (waiter.ring_next == nullptr) return;
    if (waiter.armed()) {
      time_point end;
      {
        const std::lock_guard lock(lock_);
        end = end_;
      }
      pass_timer(waiter, end);
    }
    waiter.ring_prev->ring_next = waiter.ring_next;
    waiter.ring_next->ring_prev = waiter.ring_prev;
    waiter.ring_next = waiter.ring_prev = nullptr;
  }

 private:
  using time_point = async::detail::loop_core::time_point;

  // Waiters of one loop are in a ring, in the order of their arrival; one of them has an armed timer. Only the loop
  // touches the ring, so the timer can pass to another waiter when its flow goes on. A waiter that is granted stays in
  // the ring until its flow goes on. One loop may have several rings.

  static void join(detail::sync_waiter& waiter, detail::sync_waiter* behind) noexcept {
    waiter.ring_prev = behind != nullptr ? behind : &waiter;
    waiter.ring_next = behind != nullptr ? behind->ring_next : &waiter;
    waiter.ring_next->ring_prev = waiter.ring_prev->ring_next = &waiter;
  }
  /// Passes the timer to the waiter before in the ring. Before the first is the last, which will wait for longest.
  static void pass_timer(detail::sync_waiter& from, time_point end) noexcept {
    detail::sync_waiter& to = *from.ring_prev;
    if (&to != &from && !to.armed()) to.core->timers().arm(to, end);
  }

  /// Begins a period when the last one is over: at its end while flows enter or wait, else now.
  void renew(time_point now) noexcept {
    if (now < end_) return;
    count_ = 0;
    const bool is_next = now < async::detail::later(end_, period_);
    end_ = async::detail::later(is_next ? end_ : now, period_);
  }
  /// Unlinks the first flow that waits, to be granted; null: there is none, or no entry is left.
  detail::sync_waiter* admit() noexcept {
    detail::sync_waiter* const next = count_ < max_ ? waiting_.pop() : nullptr;
    if (next != nullptr) {
      ++count_;
      next->period_end = end_;
    }
    return next;
  }
  /// Flows that wait go first.
  entry enter(time_point now) noexcept {
    renew(now);
    if (count_ < max_ && waiting_.size() == 0) {
      ++count_;
      return entry::entered;
    }
    return waiting_.size() >= max_queue_ ? entry::rejected : entry::must_queue;
  }

  const std::size_t max_;
  const std::size_t max_queue_;
  const std::chrono::nanoseconds period_;
  async::detail::spin_lock lock_;
  std::size_t count_ = 0;                 // entries of this period; guarded by lock_, as all that follows
  time_point end_ = (time_point::min)();  // of this period
  async::detail::waiter_queue<detail::sync_waiter> waiting_;
};

}  // namespace steps::inline v0_1
