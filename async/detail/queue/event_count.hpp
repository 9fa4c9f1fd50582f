// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint32_t

#include "async/detail/base/atomics.hpp"  // for atomic, wait_on_word, wake_one, wake_all, wait_clock, yield_thread

namespace async::detail {

/// An event count: threads sleep until a condition that they test themselves may have changed. A wake-up takes one
/// system call for each sleeper, none without sleepers.
///
///   waiter:  event_count::announcement here(events);      publisher:  make the condition true (seq_cst)
///            if (test the condition (seq_cst)) done;              events.wake(1);
///            here.sleep(deadline);
///            test again from the start
///
/// Use it for any number of waiting threads that look at one lock-free structure. Do not use it for one known thread
/// (parker). No wake-up is lost if the publisher's last step and the waiter's test are sequentially consistent
/// operations: either the test sees that step, or wake() sees the announcement.
///
/// Word        waiting:16 | permits:16. Waiting: announced, and not chosen by a waker. A waker turns waiting into
///             permits in one step. A sleeper ends by taking any permit.
/// Invariant   waiting + permits = announced waiters that have neither taken a permit nor left. A waiter that leaves
///             (found its condition true, or timed out) takes a place among the waiting, if there is one, else a
///             permit. So each sleeper is either seen by the next waker, or has a permit that its waker's wake_one()
///             follows.
/// Order       sleepers are woken in the kernel's order: first come, first served among equal priorities.
/// Progress    wake is wait-free without waiters. All calls are lock-free for up to 65,535 waiters; more spin.
/// Lifetime    must outlive every call of wake(), also the one that woke the last sleeper.
class event_count {
 public:
  static constexpr std::uint32_t everyone = 0xffffU;

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

    /// Sleeps until woken, at most until `deadline` (null: no limit). False: the deadline has passed. Call it once
    /// only.
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
    // [B21] seq_cst, pairs with [B20]
    const std::uint32_t seen = word_.load(std::memory_order_seq_cst);
    if (waiting(seen) != 0) [[unlikely]]
      choose(seen, count);
  }

 private:
  static constexpr std::uint32_t one_waiting = 0x10000U;
  static std::uint32_t waiting(std::uint32_t word) noexcept { return word / one_waiting; }
  static std::uint32_t permits(std::uint32_t word) noexcept { return word % one_waiting; }

  /// Relaxed: a permit only means that it is time to test again, and the test has its own order.
  bool change(std::uint32_t& seen, std::uint32_t to) noexcept {
    return word_.compare_exchange_strong(seen, to, std::memory_order_relaxed, std::memory_order_relaxed);
  }

  [[gnu::noinline]] void choose(std::uint32_t seen, std::uint32_t count) noexcept {
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

  void enter() noexcept {
    std::uint32_t seen = word_.load(std::memory_order_relaxed);
    for (;;) {
      if (waiting(seen) + permits(seen) == everyone) {
        yield_thread();
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
};

}  // namespace async::detail
