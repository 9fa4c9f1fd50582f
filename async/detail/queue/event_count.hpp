// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for size_t
#include <cstdint>  // for uint32_t
#include <limits>   // for numeric_limits
#include <utility>  // for exchange

#include "async/detail/base/atomics.hpp"        // for atomic, wait_on_word, wake_one, wake_all, wait_clock
#include "async/detail/base/backoff.hpp"        // for backoff
#include "async/detail/base/min_max.hpp"        // for max_of, min_of
#include "async/detail/base/spin_lock.hpp"      // for spin_lock, spin_guard
#include "async/detail/base/waiter_queue.hpp"   // for waiter_queue
#include "async/detail/queue/queue_waiter.hpp"  // for queue_waiter
#include "async/detail/queue/resume_scope.hpp"  // for resume_scope

namespace async::inline v0_1::detail {

/// An event count: threads sleep until a condition that they test themselves may have changed. A wake-up takes one
/// system call for each sleeper, none without sleepers. Waiters that do not sleep here are notified instead.
///
///   waiter:  event_count::announcement here(events);      publisher:  make the condition true (seq_cst)
///            if (test the condition (seq_cst)) done;              events.wake(1);
///            here.sleep(deadline);
///            test again from the start
///
///   other waiters:  events.add(waiter, false); test the condition (seq_cst); done: if (!events.remove(waiter)) see
///                   queue_waiter; else return: notify() will come, then test again from the start.
///
/// Use it for any number of waiting threads that look at one lock-free structure. Do not use it for one known thread
/// (parker). No wake-up is lost if the publisher's last step and the waiter's test are sequentially consistent
/// operations: either the test sees that step, or wake() sees the announcement.
///
/// Word        listed:1 | waiting:15 | permits:16. Waiting: announced, and not chosen by a waker. A waker turns waiting
///             into permits in one step. A sleeper ends by taking any permit. Listed: other waiters are in the
///             list, or have been.
/// Invariant   waiting + permits = announced waiters that have neither taken a permit nor left. A waiter that leaves
///             (found its condition true, or timed out) takes a place among the waiting, if there is one, else a
///             permit. So each sleeper is either seen by the next waker, or has a permit that its waker's wake_one()
///             follows.
/// Mixed       where threads sleep and other waiters are listed, a wake-up is for as many of both: a sleeper that
///             leaves with an element may take the permit for another one along. Those that find nothing wait again.
/// Order       sleepers are woken in the kernel's order: first come, first served among equal priorities. Listed
///             waiters are notified in the order of the list. A waiter that is listed in front is ahead of those that
///             were listed in front before it.
/// Progress    wake is wait-free without waiters. With sleepers all calls are lock-free for up to 32,767 of them; more
///             spin. The list has a lock, and a thread that stops in wake() delays the listed waiters that it has
///             chosen.
/// Lifetime    must outlive every call of wake(), also the one that woke the last sleeper.
class event_count {
 public:
  static constexpr std::uint32_t everyone = (std::numeric_limits<std::uint32_t>::max)();

  event_count() = default;
  event_count(const event_count&) = delete;
  event_count& operator=(const event_count&) = delete;

  /// Announces a waiter's intent to sleep, until the end of the scope.
  class announcement {
   public:
    explicit announcement(event_count& events) noexcept : events_(events) { events_.enter(); }
    ~announcement() {
      if (!has_permit_) events_.leave();
    }
    announcement(const announcement&) = delete;
    announcement& operator=(const announcement&) = delete;

    /// Sleeps until woken, at most until `deadline` (null: no limit). False: the deadline has passed; it may be
    /// called again.
    bool sleep(const wait_clock::time_point* deadline) noexcept {
      for (;;) {
        std::uint32_t seen = events_.word_.load(std::memory_order_relaxed);
        while (permits(seen) != 0) {
          if (events_.change(seen, seen - 1)) return has_permit_ = true;
        }
        if (!wait_on_word(events_.word_, seen, deadline)) return false;
      }
    }

   private:
    event_count& events_;
    bool has_permit_ = false;
  };

  /// Wakes `count` waiters, or all if there are fewer.
  void wake(std::uint32_t count) noexcept {
    // [B21] seq_cst, pairs with [B20] and [B22]
    const std::uint32_t seen = word_.load(std::memory_order_seq_cst);
    if (seen >= one_waiting) [[unlikely]]
      choose(seen, count);
  }

  /// Lists a waiter, behind the others or in front of them; behind them while everyone is notified. The caller tests
  /// its condition after that.
  void add(queue_waiter& w, bool in_front) noexcept {
    const spin_guard here(lock_);
    if (in_front && calls_of_all_ == 0) {
      list_.push_front(w);
    } else {
      list_.push(w);
    }
    // relaxed: the bit changes under the lock only. Where it is set, the waker that has not seen it was before the
    // waiter that set it, who had the lock before.
    if ((word_.load(std::memory_order_relaxed) & listed) == 0) {
      // [B22] seq_cst, pairs with [B21]: as [B20]
      word_.fetch_or(listed, std::memory_order_seq_cst);
    }
  }
  /// False: the waiter has been chosen.
  bool remove(queue_waiter& w) noexcept {
    const spin_guard here(lock_);
    return list_.remove(w);
  }

 private:
  static constexpr std::uint32_t one_waiting = 0x10000U;
  static constexpr std::uint32_t most_waiting = 0x7fffU;
  static constexpr std::uint32_t listed = 0x80000000U;
  static std::uint32_t waiting(std::uint32_t word) noexcept { return (word & ~listed) / one_waiting; }
  static std::uint32_t permits(std::uint32_t word) noexcept { return word % one_waiting; }

  bool change(std::uint32_t& seen, std::uint32_t to) noexcept {
    // [B23] acq_rel, pairs with itself: a waiter that has a permit sees what its waker has made true, also in a last
    // test after its deadline; not modelled: the model's seq_cst tests see it anyway. Failure is relaxed: a guess
    return word_.compare_exchange_strong(seen, to, std::memory_order_acq_rel, std::memory_order_relaxed);
  }

  [[gnu::noinline]] void choose(std::uint32_t seen, std::uint32_t count) noexcept {
    const bool is_listed = (seen & listed) != 0;
    if (waiting(seen) != 0) choose_sleepers(seen, count);
    if (is_listed) count == 1 ? notify_one() : notify(count);  // last: coroutines may run
  }
  [[gnu::noinline]] void choose_sleepers(std::uint32_t seen, std::uint32_t count) noexcept {
    std::uint32_t chosen = 0;
    do {
      if (waiting(seen) == 0) return;
      chosen = count < waiting(seen) ? count : waiting(seen);
    } while (!change(seen, seen - chosen * one_waiting + chosen));
    if (count == everyone) {
      wake_all(word_);
    } else {
      for (; chosen != 0; --chosen) wake_one(word_);
    }
  }

  void notify_one() noexcept {
    const resume_scope all_at_the_end;
    if (queue_waiter* const only = unlist_one()) only->notify();
  }
  [[gnu::noinline]] void notify(std::uint32_t count) noexcept {
    const resume_scope all_at_the_end;
    if (count != everyone) return notify_first(count);
    notify_first(begin_call_of_all());
    const spin_guard here(lock_);
    --calls_of_all_;
  }
  /// Returns the number of those that are listed now, at least 1. Until the call ends, no waiter comes in front of
  /// them: those that come again meanwhile, even faster than they are notified, do not keep the caller.
  std::uint32_t begin_call_of_all() noexcept {
    const spin_guard here(lock_);
    ++calls_of_all_;
    return static_cast<std::uint32_t>(min_of(max_of(list_.size(), std::size_t{1}), std::size_t{everyone - 1}));
  }
  /// Up to 32 waiters at a time, so that the lock is held for a short while only.
  void notify_first(std::uint32_t count) noexcept {
    while (count != 0) {
      queue_waiter* first = unlist(min_of(count, 32U));
      if (first == nullptr) return;
      for (; first != nullptr; --count) {
        queue_waiter& chosen = *first;
        first = std::exchange(chosen.behind, nullptr);
        chosen.notify();
      }
    }
  }
  /// Unlinks the first waiter; null: there is none.
  queue_waiter* unlist_one() noexcept {
    const spin_guard here(lock_);
    return pop();
  }
  /// The same for up to `most` waiters, chained by `behind`.
  queue_waiter* unlist(std::uint32_t most) noexcept {
    queue_waiter* first = nullptr;
    queue_waiter** end = &first;
    const spin_guard here(lock_);
    for (; most != 0; --most) {
      queue_waiter* const w = first == nullptr ? pop() : list_.pop();
      if (w == nullptr) break;
      *end = w;
      end = &w->behind;
    }
    return first;
  }

  /// Under the lock.
  queue_waiter* pop() noexcept {
    queue_waiter* const w = list_.pop();
    // The bit stays when the last waiter goes, since another one often follows soon. The next waker clears it.
    // relaxed: under the lock, under which the bit is also set
    if (w == nullptr) word_.fetch_and(~listed, std::memory_order_relaxed);
    return w;
  }

  void enter() noexcept {
    std::uint32_t seen = word_.load(std::memory_order_relaxed);
    for (backoff pause;;) {
      if (waiting(seen) + permits(seen) >= most_waiting) {
        pause.wait();
        seen = word_.load(std::memory_order_relaxed);
        // [B20] seq_cst, pairs with [B21]: one of them sees the other's announcement, or the other's condition
      } else if (word_.compare_exchange_strong(seen, seen + one_waiting, std::memory_order_seq_cst,
                                               std::memory_order_relaxed)) {
        return;
      }
    }
  }

  void leave() noexcept {
    std::uint32_t seen = word_.load(std::memory_order_relaxed);
    while (!change(seen, waiting(seen) != 0 ? seen - one_waiting : seen - 1)) {
    }
  }

  atomic<std::uint32_t> word_{0};
  spin_lock lock_;
  std::uint32_t calls_of_all_ = 0;  // wake(everyone) that are under way; guarded by lock_, as is the next
  waiter_queue<queue_waiter> list_;
};

}  // namespace async::inline v0_1::detail
