// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for size_t
#include <cstdint>  // for uint32_t, uint64_t

#include "async/detail/base/atomics.hpp"  // for atomic, under_model
#include "async/detail/base/backoff.hpp"  // for pause_for
#include "async/detail/base/config.hpp"   // for no_sharing, ASYNCSTEPS_ASSERT

namespace async::inline v0_1::detail {

/// Bounded FIFO of pointers with one owner: the loops that a worker is to turn. The owner pushes; any thread takes the
/// oldest, and another queue's owner takes half of them at once.
///
/// After the run queues of Go's scheduler and of tokio.
///
/// Words       head_, tail_: the positions of the oldest element and of the next push. Position p uses slot
///             p % capacity. Positions never wrap. tail_ is stored by the owner only. head_ moves by compare-exchange
///             only, of the owner, too: the elements that it passes belong to the thread that moves it.
/// Invariants  I1 head_ <= tail_ <= head_ + capacity. I2 both only grow. I3 a slot is stored by the owner only, for a
///             position p in tail_ .. head_ + capacity: head_ has passed p - capacity.
/// Why each element is taken once, and is the one pushed. Let a taker have read head_ = h, tail_ = t > h and the slots
/// of h .. h + n, n <= t - h, in this order, and then have moved head_ from h to h + n.
/// 1. Its move is the only one that passes these positions, by I2: one compare-exchange replaces h in head_.
/// 2. What it read is not too old: the load of t acquires the owner's store of tail_, which follows the stores of all
///    slots below t.
/// 3. What it read is not too new. By I3, the owner stores the slot of p + capacity after it has found head_ beyond p.
///    With h <= p < h + n it has found what this taker's move has stored, or a later move. The reads of the slots
///    precede that move, which is a release, as are all moves; the owner's load acquires it. So the reads precede the
///    store. A taker that does read an overwritten slot therefore finds head_ moved, fails, and drops what it read.
/// A thief copies into its own slots beyond its own tail_ before it moves the victim's head_. By I3 nobody relies on
/// these slots, so a failed move leaves nothing to undo.
///
/// Threads     push, steal_half into this queue, and spill by the owner only; take, size and empty by any thread.
/// Progress    push is wait-free; a take or steal that has to try again means that another one succeeded.
/// Sleep       Between the two halves of a steal, and between spill() and the push to a backlog, the elements are in no
///             queue that other threads see. So a caller that has pushed, spilled, or stolen more than one notifies
///             sleepers.hpp, or ends its search there, afterwards.
template <class T, std::uint32_t Capacity = 256>
class run_queue {
  static_assert(Capacity >= 2 && (Capacity & (Capacity - 1)) == 0, "the capacity is a power of two");

 public:
  static constexpr std::uint32_t capacity = Capacity;

  run_queue() = default;
  run_queue(const run_queue&) = delete;
  run_queue& operator=(const run_queue&) = delete;

  /// Owner: adds `item` as the newest. False: the queue is full.
  bool push(T& item) noexcept {
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);  // relaxed: only the owner writes it
    if (room_at(tail, 1) == 0) [[unlikely]]
      return false;
    slot(tail).store(&item, std::memory_order_relaxed);  // relaxed: published by tail_
    publish(tail + 1);
    return true;
  }

  /// Any thread: takes the oldest element. Null: the queue is empty, as far as this thread and earlier takers know.
  T* take() noexcept {
    T* oldest = nullptr;
    const std::uint64_t taken = take_some(
        [](std::uint64_t) noexcept { return std::uint64_t{1}; },
        // relaxed: [RQ2] made the slot visible; what is read counts only if head_ is moved
        [&](std::uint64_t from, std::uint64_t) noexcept { oldest = slot(from).load(std::memory_order_relaxed); });
    return taken == 0 ? nullptr : oldest;
  }

  /// Owner of this queue: takes half of the victim's elements, rounded up, or as many as fit here. Returns the oldest;
  /// the others come to the end of this queue, in their order. Null: as in take(). `victim` is another queue.
  T* steal_half(run_queue& victim) noexcept {
    ASYNCSTEPS_ASSERT(&victim != this);
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);  // relaxed: only the owner writes it
    const std::uint64_t most = room_at(tail, capacity / 2) + 1;
    T* oldest = nullptr;
    const std::uint64_t taken = victim.take_some(
        [most](std::uint64_t there) noexcept {
          const std::uint64_t half = there - there / 2;
          return half < most ? half : most;
        },
        [&](std::uint64_t from, std::uint64_t count) noexcept {
          oldest = victim.slot(from).load(std::memory_order_relaxed);  // relaxed: as in take()
          for (std::uint64_t i = 1; i != count; ++i) {
            // relaxed, both: as in take(), and published by tail_
            slot(tail + i - 1).store(victim.slot(from + i).load(std::memory_order_relaxed), std::memory_order_relaxed);
          }
        });
    if (taken > 1) publish(tail + taken - 1);
    return taken == 0 ? nullptr : oldest;
  }

  /// Owner, when push() has failed: takes the oldest half out and calls f(T&) for each, in order. f() does not push
  /// here. If a thread has taken some meanwhile, there is room, and nothing is done.
  template <class F>
  void spill(F f) noexcept {
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);  // relaxed: only the owner writes it
    std::uint64_t head = head_.load(std::memory_order_relaxed);        // relaxed: only compared
    if (tail - head != capacity) return;
    // [RQ5] release, pairs with [RQ1] and [RQ4]: as in take_some(); this thread stored the slots
    if (!head_.compare_exchange_strong(head, head + capacity / 2, std::memory_order_release, std::memory_order_relaxed))
      return;
    // relaxed: own stores, and only the owner can overwrite them
    for (std::uint64_t i = 0; i != capacity / 2; ++i) f(*slot(head + i).load(std::memory_order_relaxed));
  }

  /// Owner: the element with `ahead` others ahead of it, as a guess; null: there is none.
  T* look(std::uint32_t ahead) noexcept {
    const std::uint64_t at = head_.load(std::memory_order_relaxed) + ahead;  // relaxed, all: a guess
    return at < tail_.load(std::memory_order_relaxed) ? slot(at).load(std::memory_order_relaxed) : nullptr;
  }
  /// Any thread: a guess; exact for the owner while no other thread takes.
  std::uint32_t size() const noexcept {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);  // relaxed, both: a guess
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    const std::uint64_t there = tail <= head ? 0 : tail - head;
    return there < capacity ? static_cast<std::uint32_t>(there) : capacity;
  }

  /// Owner: the position behind the newest element, for count_before().
  std::uint64_t end() const noexcept { return tail_.load(std::memory_order_relaxed); }  // relaxed: the owner's own
  /// Owner: how many elements are left that were there when end() was `position`.
  std::uint64_t count_before(std::uint64_t position) const noexcept {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);  // relaxed: a guess
    return position <= head ? 0 : position - head;
  }

  /// Any thread: a hint. A caller that must not miss an element issues a fence before this call. Then it is false while
  /// there is an element that was pushed before the pusher's fence: head_ is never read beyond it.
  bool empty() const noexcept {
    // relaxed, both: ordered by the fence
    return tail_.load(std::memory_order_relaxed) <= head_.load(std::memory_order_relaxed);
  }

 private:
  atomic<T*>& slot(std::uint64_t position) noexcept {
    return slots_[static_cast<std::size_t>(position & (capacity - 1))];
  }

  /// Owner: how many slots are free at `tail`, at most `wanted` if that many are known to be.
  std::uint64_t room_at(std::uint64_t tail, std::uint64_t wanted) noexcept {
    if (limit_ - tail < wanted) {
      // [RQ4] acquire, pairs with [RQ3] and [RQ5]: a slot is stored again only after those who took its element have
      // read it; not modelled: no load of the model reads what is stored later
      limit_ = head_.load(std::memory_order_acquire) + capacity;
    }
    const std::uint64_t free = limit_ - tail;
    return free < wanted ? free : wanted;
  }

  /// Owner: makes the slots below `tail` elements.
  void publish(std::uint64_t tail) noexcept {
    // [RQ6] release, pairs with [RQ2]: publishes the slots and what they point to
    tail_.store(tail, std::memory_order_release);
  }

  /// Any thread: read(position, count) reads the oldest elements, count = how_many(size). They are taken, and `count`
  /// is returned, unless another thread takes one of them meanwhile; then it tries again. 0: there is none.
  template <class HowMany, class Read>
  std::uint64_t take_some(HowMany how_many, Read read) noexcept {
    for (;;) {
      // [RQ1] acquire, pairs with [RQ3] and [RQ5]: tail_ is at least as new as the takers of earlier elements saw it
      std::uint64_t head = head_.load(std::memory_order_acquire);
      // [RQ2] acquire, pairs with [RQ6]: the slots below it, and what they point to
      const std::uint64_t tail = tail_.load(std::memory_order_acquire);
      if (tail <= head) return 0;
      // The size may exceed the capacity if head_ has moved meanwhile; then the move below fails.
      const std::uint64_t count = how_many(tail - head);
      read(head, count);
      // [RQ3] release, pairs with [RQ1] and [RQ4]: the slots have been read and may be stored again
      if (head_.compare_exchange_strong(head, head + count, std::memory_order_release, std::memory_order_relaxed))
        return count;
    }
  }

  alignas(no_sharing) atomic<std::uint64_t> head_{0};  // written by all that take
  alignas(no_sharing) atomic<std::uint64_t> tail_{0};  // written by the owner
  std::uint64_t limit_ = capacity;                     // owner only: there is room below this position
  alignas(no_sharing) atomic<T*> slots_[capacity];     // written by the owner
};

/// How a worker with nothing to do looks at the queues of others. Two loops that wake each other are in a queue one at
/// a time, and only until their worker turns them. A thief would part them: each message would then cross from one
/// processor to another, at twice the cost. So the look lasts up to a microsecond or two, to see whether a single
/// element goes. One object is for one round of looks.
class brief_look {
 public:
  /// Whether something is left in the queue: more than one element, or one that has not gone meanwhile.
  template <class T, std::uint32_t Capacity>
  bool is_left(const run_queue<T, Capacity>& queue) noexcept {
    for (; queue.size() == 1 && pauses_ != 0; --pauses_) pause_for(1);
    return !queue.empty();
  }

 private:
  unsigned pauses_ = under_model ? 1 : 48;
};

}  // namespace async::inline v0_1::detail
