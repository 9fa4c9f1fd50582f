// SPDX-License-Identifier: BSL-1.0
#pragma once

namespace async::inline v0_1::detail {

/// A waiter for a queue that does not sleep in it: a flow, a coroutine, a thread that waits for several queues.
///
/// Owners derive from it. The event_count has it from add() until remove() returns true, or until notify() has been
/// called. After a remove() that returns false, notify() is still to come, or has come: the owner keeps the waiter, and
/// passes the wake-up on by wake(1), unless it looks at the queue once more after notify(). It does so even if it has
/// taken an element meanwhile: that may be one for which no waiter has been chosen.
///
/// Threads     reserve() and notify() are called by the thread that changes the queue, which may be in the middle of a
///             bulk: they must not use the queue. notify() may call add() and wake(), reserve() neither.
struct queue_waiter {
  struct operations {
    void (*reserve)(queue_waiter&) noexcept;  // it has been chosen; under the event_count's lock
    void (*notify)(queue_waiter&) noexcept;   // looks at the queue again, soon; may destroy the waiter
  };
  explicit queue_waiter(const operations& o) noexcept : how(&o) {}
  void reserve() noexcept { how->reserve(*this); }
  void notify() noexcept { how->notify(*this); }

  queue_waiter* behind = nullptr;  // the event_count's
  queue_waiter* before = nullptr;

 protected:
  ~queue_waiter() = default;

 private:
  const operations* const how;
};

}  // namespace async::inline v0_1::detail
