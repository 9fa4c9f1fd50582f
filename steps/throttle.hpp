// SPDX-License-Identifier: BSL-1.0
// floor: 11
#pragma once
#include <chrono>   // for duration, nanoseconds, seconds
#include <cstddef>  // for size_t
#include <mutex>    // for lock_guard

#include "async/detail/loop_core.hpp"  // for current_loop, loop_core
#include "async/detail/spin_lock.hpp"  // for spin_lock
#include "async/event_loop.hpp"        // for event_loop
#include "steps/detail/ticket.hpp"     // for ticket_queue
#include "steps/detail/timeout.hpp"    // for to_nanoseconds
#include "steps/isync.hpp"             // for ISync

namespace steps {

/// Lets at most `max` entries per period into the steps that it guards (FTN12 1.11.2).
///
/// Use it where the rate counts, as for calls of a service that has a limit. Do not use it to limit how many are inside
/// at the same time (Mutex; for both: Limiter).
///
/// Period      begins with the first entry, and lasts `period` (any duration, rounded up to nanoseconds; none: no
///             limit). The next one follows at once if somebody enters or waits in it, else it begins with an entry.
/// Order       first come, first served.
/// Recursion   each entry counts, also of a flow that is inside.
/// Full queue  more than `max_queue` flows waiting: DefenseRejected at the step of sync().
/// Timers      of the loops of the flows that wait, while they wait; an idle Throttle has none.
/// Threads     flows of any loops, whose clocks should agree. A waiting flow is woken on its own loop; no thread ever
///             blocks.
/// Memory      a flow that has to wait takes a recycled block.
/// Lifetime    outlives the flows that use it.
class Throttle final : public ISync {
 public:
  Throttle() noexcept : Throttle(1) {}
  /// `max` 0: nobody is ever let in.
  explicit Throttle(std::size_t max) noexcept : Throttle(max, std::chrono::seconds(1)) {}
  template <class Rep, class Period>
  Throttle(std::size_t max, std::chrono::duration<Rep, Period> period, std::size_t max_queue = 0) noexcept
      : max_(max), max_queue_(max_queue), period_(detail::to_nanoseconds(period)) {}
  /// The loop is not needed: code written for implementations that take one compiles.
  explicit Throttle(async::event_loop&, std::size_t max = 1) noexcept : Throttle(max) {}
  template <class Rep, class Period>
  Throttle(async::event_loop&, std::size_t max, std::chrono::duration<Rep, Period> period,
           std::size_t max_queue = 0) noexcept
      : Throttle(max, period, max_queue) {}

  entry try_enter(bool /*nested*/) noexcept override {
    const auto now = async::detail::current_loop->now();
    const std::lock_guard lock(lock_);
    return enter(now);
  }
  entry enqueue(detail::sync_ticket& ticket, bool /*nested*/) noexcept override {
    const auto now = ticket.core->now();
    time_point end;
    {
      const std::lock_guard lock(lock_);
      const entry result = enter(now);
      if (result != entry::must_queue) return result;
      waiting_.push(ticket);
      end = end_;
    }
    ticket.core->timers().arm(ticket, end);
    return entry::queued;
  }
  void leave(bool) noexcept override {}
  bool withdraw(detail::sync_ticket& ticket) noexcept override {
    const std::lock_guard lock(lock_);
    return waiting_.remove(ticket);
  }

  /// Each flow that waits looks at the beginning of each period, and lets in whoever is first.
  void on_timer(detail::sync_ticket& ticket) noexcept override {
    const auto now = ticket.core->now();
    for (;;) {
      detail::sync_ticket* next = nullptr;
      time_point end;
      bool waits = false;
      {
        const std::lock_guard lock(lock_);
        renew(now);
        if (count_ < max_) next = waiting_.pop();
        if (next != nullptr) ++count_;
        waits = waiting_.is_in(ticket);
        end = end_;
      }
      if (next == nullptr) {
        if (waits) ticket.core->timers().arm(ticket, end);
        return;
      }
      next->grant();
    }
  }

 private:
  using time_point = async::detail::loop_core::time_point;

  /// A period follows the last one while flows enter or wait, else it begins when the next one enters.
  void renew(time_point now) noexcept {
    if (now < end_) return;
    count_ = 0;
    const bool is_next = now - period_ < end_;
    const time_point start = is_next ? end_ : now;
    end_ = period_ > (time_point::max)() - start ? (time_point::max)() : start + period_;
  }
  /// Whoever waits goes first.
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
  detail::ticket_queue<detail::sync_ticket> waiting_;
};

}  // namespace steps
