// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>      // for size_t
#include <limits>       // for numeric_limits
#include <mutex>        // for lock_guard
#include <string_view>  // for string_view
#include <utility>      // for exchange

#include "async/detail/base/chrono.hpp"        // for duration, nanoseconds, seconds
#include "async/detail/base/durations.hpp"     // for later
#include "async/detail/base/spin_lock.hpp"     // for spin_lock
#include "async/detail/base/waiter_queue.hpp"  // for waiter_queue
#include "async/detail/loop/loop_core.hpp"     // for current_loop, loop_core
#include "async/event_loop.hpp"                // for event_loop
#include "steps/detail/wait/timeout.hpp"       // for nonnegative_nanoseconds
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
///             limit. If a flow enters or waits in the next one, that follows at once; else it begins with the next
///             entry. So up to 2 * max flows may enter around the change of periods. A timer lets waiting flows in, at
///             ticks of 65.5 us, and the periods that have passed meanwhile are not made up for. So instead of a
///             shorter period choose a larger max over a longer one.
/// Order       first come, first served.
/// Recursion   each entry counts, also of a flow that is inside.
/// Cancel      a flow that ends when it has just been let in has not entered: within the period, the next flow does.
/// Full queue  more than `max_queue` flows waiting: DefenseRejected at the step of sync(). Without `max_queue`, or with
///             `unlimited`, the queue has no limit: FTN12's null.
/// Timers      on the loops of the flows that wait. An event loop has one for waiting flows that have come one after
///             the other. A pool has one for all that wait: a period takes one turn, and one for each flow that is let
///             in. A flow on a pool has its own timer if branches share its loop, or if flows of another pool have
///             waited before it. Its tool() is for short callbacks and flows: one that blocks there may hold up all
///             flows of the pool that wait. An idle Throttle has none.
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
      : max_(max), max_queue_(max_queue), period_(detail::nonnegative_nanoseconds(period)) {}
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
    bool has_timer = false;
    {
      const std::lock_guard lock(lock_);
      const entry result = enter(now);
      if (result != entry::must_queue) return result;
      if (joins_pool(waiter)) {
        join_pool(waiter);
        has_timer = waiter.role == role::keeper;
      } else {
        other = waiting_.latest_of([&waiter](const detail::sync_waiter& its) noexcept {
          return its.core == waiter.core && !its.shares_timer;  // those that do are in the ring of the pool
        });
        has_timer = other == nullptr && max_ != 0;
      }
      waiting_.push(waiter);
      end = end_;
    }
    if (!waiter.shares_timer) join(waiter, other);  // which stays meanwhile, since it is of this loop
    if (has_timer) waiter.core->timers().arm(waiter, end);
    return entry::queued;
  }
  /// The waiter has been let in, or is to keep the time.
  entry go_on(detail::sync_waiter& waiter, bool) noexcept override {
    if (waiter.role == role::none) return entry::entered;  // no other thread writes it: see below
    time_point end;
    if (waiter.role == role::asked && admit_all(waiter, end)) {
      waiter.core->timers().arm(waiter, end);
      return entry::queued;
    }
    detail::sync_waiter* heir = nullptr;
    {
      const std::lock_guard lock(lock_);
      heir = choose_keeper(waiter);
    }
    if (heir != nullptr) heir->grant();
    return entry::entered;
  }
  void leave(bool) noexcept override {}
  bool withdraw(detail::sync_waiter& waiter) noexcept override {
    detail::sync_waiter* heir = nullptr;
    {
      const std::lock_guard lock(lock_);
      if (waiter.role == role::asked || !waiting_.remove(waiter)) return false;
      leave_pool(waiter);
      heir = choose_keeper(waiter);
    }
    if (heir != nullptr) heir->grant();
    return true;
  }
  /// The entry is the next flow's, unless its period is over. The end of a period tells which one it is: each ends
  /// later than the one before, if flows ever wait.
  void give_back(detail::sync_waiter& waiter, bool) noexcept override {
    const auto now = waiter.core->now();
    detail::sync_waiter* next = nullptr;
    detail::sync_waiter* heir = nullptr;
    {
      const std::lock_guard lock(lock_);
      if (waiting_.remove(waiter)) {  // it was to keep the time, and has not been let in
        leave_pool(waiter);
      } else if (waiter.period_end == end_) {
        --count_;
        if (now < end_) next = admit();  // else the timers begin the next period
      }
      heir = choose_keeper(waiter);
    }
    if (next != nullptr) next->grant();
    if (heir != nullptr) heir->grant();
  }
  std::string_view explain(entry) const noexcept override {
    return "Throttle: `max` flows have entered in this period, and `max_queue` flows wait";
  }

  /// One flow of each ring looks at the beginning of each period, and lets in the first flows of the queue, of any
  /// ring.
  void on_timer(detail::sync_waiter& waiter) noexcept override {
    time_point end;
    if (admit_all(waiter, end)) return waiter.core->timers().arm(waiter, end);
    if (!waiter.shares_timer) pass_timer(waiter, end);  // else the flow does when it goes on
  }
  void end_wait(detail::sync_waiter& waiter) noexcept override {
    if (waiter.shares_timer || waiter.ring_next == nullptr) return;
    if (waiter.armed()) {
      time_point end;
      {
        const std::lock_guard lock(lock_);
        end = end_;
      }
      pass_timer(waiter, end);
    }
    part(waiter);
  }

 private:
  using time_point = async::detail::loop_core::time_point;
  using role = detail::sync_waiter::timer_role;

  // Waiters of one loop are in a ring, in the order of their arrival; one of them has an armed timer. Only the loop
  // touches the ring, so the timer can pass to another waiter when its flow goes on. A waiter that is granted stays in
  // the ring until its flow goes on. One loop may have several rings.

  // Waiters of a pool whose flows are alone on their loops are in one ring, under the lock, while they are in the
  // queue. One of them keeps the time for all: the newest, since it waits for longest.
  //
  // | role | the waiter | becomes | by |
  // |---|---|---|---|
  // | none | has no timer | keeper | enqueue(), if nobody keeps the time |
  // | none | | asked | choose_keeper() on the loop of the last keeper, which sends it a message |
  // | asked | the message is on its way, or its flow is about to run | keeper | go_on(), if it is still in the queue |
  // | keeper | has the timer | none | choose_keeper(), on its own loop, when its flow goes on or ends |
  //
  // A waiter that is let in while it is asked gets no second message: go_on() finds that it is not in the queue. Other
  // threads write a role before they send the message, and only while the waiter is in the ring. So a waiter that has
  // been woken reads its role without the lock.
  //
  // A flow that shares its loop with branches does not keep the time for others: a step of theirs may block the loop
  // until one of the others has come in. Nor does one pool keep it for another.

  static void join(detail::sync_waiter& waiter, detail::sync_waiter* behind) noexcept {
    waiter.ring_prev = behind != nullptr ? behind : &waiter;
    waiter.ring_next = behind != nullptr ? behind->ring_next : &waiter;
    waiter.ring_next->ring_prev = waiter.ring_prev->ring_next = &waiter;
  }
  static void part(detail::sync_waiter& waiter) noexcept {
    waiter.ring_prev->ring_next = waiter.ring_next;
    waiter.ring_next->ring_prev = waiter.ring_prev;
    waiter.ring_next = waiter.ring_prev = nullptr;
  }
  /// Passes the timer to the waiter before in the ring. Before the first is the last, which will wait for longest.
  static void pass_timer(detail::sync_waiter& from, time_point end) noexcept {
    detail::sync_waiter& to = *from.ring_prev;
    if (&to != &from && !to.armed()) to.core->timers().arm(to, end);
  }

  bool joins_pool(const detail::sync_waiter& waiter) const noexcept {
    return max_ != 0 && (pool_ == nullptr || pool_ == waiter.waiting.pool) && waiter.is_alone_on_loop();
  }
  void join_pool(detail::sync_waiter& waiter) noexcept {
    join(waiter, newest_);
    newest_ = &waiter;
    waiter.shares_timer = true;
    if (std::exchange(pool_, waiter.waiting.pool) == nullptr) waiter.role = role::keeper;
  }
  /// As it leaves the queue.
  void leave_pool(detail::sync_waiter& waiter) noexcept {
    if (!waiter.shares_timer) return;
    if (newest_ == &waiter) newest_ = waiter.ring_prev != &waiter ? waiter.ring_prev : nullptr;
    part(waiter);
  }
  /// If the waiter keeps the time, or was to, asks another one: to be granted. Null: there is none.
  detail::sync_waiter* choose_keeper(detail::sync_waiter& last) noexcept {
    if (std::exchange(last.role, role::none) == role::none) return nullptr;
    if (newest_ == nullptr) {
      pool_ = nullptr;
    } else {
      newest_->role = role::asked;
      newest_->reserve();
    }
    return newest_;
  }

  /// Lets in the flows that this period has places for. True: the waiter still waits, until `end`.
  bool admit_all(detail::sync_waiter& waiter, time_point& end) noexcept {
    const auto now = waiter.core->now();
    for (;;) {
      detail::sync_waiter* next = nullptr;
      {
        const std::lock_guard lock(lock_);
        if (waiting_.size() != 0) renew(now);
        next = admit();
        if (next == nullptr) {
          end = end_;
          if (!waiting_.is_in(waiter)) return false;
          if (waiter.role == role::asked) waiter.role = role::keeper;
          return true;
        }
      }
      next->grant();
    }
  }

  /// Begins a period when the last one is over: at its end while flows enter or wait, else now. One of no length begins
  /// with each entry, also if another flow has entered since `now` was read.
  void renew(time_point now) noexcept {
    if (now < end_ && period_.count() != 0) return;
    count_ = 0;
    const bool is_next = now < async::detail::later(end_, period_);
    end_ = async::detail::later(is_next ? end_ : now, period_);
  }
  /// Unlinks the first flow that waits, to be granted; null: there is none, or no entry is left. Flows that have a
  /// message on its way are let in by that one.
  detail::sync_waiter* admit() noexcept {
    while (count_ < max_ && waiting_.size() != 0) {
      detail::sync_waiter& next = *waiting_.first();
      waiting_.remove(next);
      leave_pool(next);
      ++count_;
      next.period_end = end_;
      if (next.role == role::asked) continue;
      next.reserve();
      return &next;
    }
    return nullptr;
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
  detail::sync_waiter* newest_ = nullptr;           // of the ring of a pool; null: the ring is empty
  const async::detail::pool_core* pool_ = nullptr;  // whose flows share a timer; null: nobody keeps the time
};

}  // namespace steps::inline v0_1
