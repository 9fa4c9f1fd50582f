// SPDX-License-Identifier: BSL-1.0
// floor: 3
#pragma once
#include <cstddef>  // for size_t
#include <cstdint>  // for int64_t

#include "async/detail/atomics.hpp"  // for atomic
#include "async/detail/config.hpp"   // for no_sharing

namespace async::detail {

/// Double-ended queue of pointers with one owner: the owner pushes and pops at one end, newest first, and any thread
/// steals at the other, oldest first.
///
/// Chase and Lev, "Dynamic Circular Work-Stealing Deque" (SPAA 2005), with sequentially consistent operations where
/// that paper's weak-memory version (Lê et al., PPoPP 2013) has fences.
///
/// Threads     push and pop by the owner only; steal and empty by any thread.
/// Progress    push and pop are wait-free except for growth; a failing steal means that another one succeeded.
/// Exceptions  push throws std::bad_alloc when it must grow and cannot: nothing is pushed.
/// Memory      grows by doubling; outgrown rings are kept until destruction, since a thief may still read one: together
///             less than the ring in use.
/// Invariants  I1 top_ only grows. I2 the elements are ring[top_ .. bottom_). I3 an element belongs to whoever moves
/// top_
///             over it; the owner alone takes one from the bottom, without a CAS unless it is the last.
template <class T, std::size_t FirstCapacity = 256>
class stealing_deque {
 public:
  stealing_deque() : ring_(new ring(FirstCapacity, nullptr)) {}
  ~stealing_deque() {
    ring* r = ring_.load(std::memory_order_relaxed);  // relaxed: nobody else is left
    while (r != nullptr) {
      ring* const outgrown = r->outgrown;
      delete r;
      r = outgrown;
    }
  }
  stealing_deque(const stealing_deque&) = delete;
  stealing_deque& operator=(const stealing_deque&) = delete;

  /// Owner: adds `item` at the bottom.
  void push(T* item) {
    const std::int64_t bottom = bottom_.load(std::memory_order_relaxed);  // relaxed: only the owner writes it
    // [D1] acquire, pairs with [D5]: a slot is written again only after the steal that emptied it has read it;
    // not modelled: no load of the model reads what is stored later
    const std::int64_t top = top_.load(std::memory_order_acquire);
    ring* r = ring_.load(std::memory_order_relaxed);  // relaxed: only the owner writes it
    if (bottom - top > static_cast<std::int64_t>(r->mask)) r = grow(r, top, bottom);
    r->slot(bottom).store(item, std::memory_order_relaxed);  // relaxed: published by [D2]
    // [D2] release, pairs with [D4]: publishes the slot, what it points to and a new ring
    bottom_.store(bottom + 1, std::memory_order_release);
  }

  /// Owner: takes the newest element; null when there is none.
  T* pop() noexcept {
    const std::int64_t bottom = bottom_.load(std::memory_order_relaxed) - 1;  // relaxed: only the owner writes it
    if (top_.load(std::memory_order_relaxed) > bottom) return nullptr;        // relaxed: true for good by I1
    ring* const r = ring_.load(std::memory_order_relaxed);                    // relaxed: only the owner writes it
    // [D3] seq_cst, pairs with [D4]: of this store and [D6] against the thief's [D4] and [D5], one side sees the other,
    // so that the owner takes an element without a CAS only if no thief can be after it
    bottom_.store(bottom, std::memory_order_seq_cst);
    std::int64_t top = top_.load(std::memory_order_seq_cst);  // [D6] seq_cst, pairs with [D5]
    T* item = nullptr;
    if (top <= bottom) {
      item = r->slot(bottom).load(std::memory_order_relaxed);  // relaxed: written by this thread
      if (top < bottom) return item;
      // [D8] release, pairs with [D7]: the last element goes to whoever moves top_, and who sees that it has gone sees
      // a bottom_ without it; not modelled: see there. Failure: a thief did
      if (!top_.compare_exchange_strong(top, top + 1, std::memory_order_release, std::memory_order_relaxed)) {
        item = nullptr;
      }
    }
    bottom_.store(bottom + 1, std::memory_order_relaxed);  // relaxed: empty; publishes nothing new
    return item;
  }

  /// Any thread: takes the oldest element; null when there is none.
  T* steal() noexcept {
    for (;;) {
      // [D7] acquire, pairs with [D8] and [D5]: bottom_ is not older than top_; not modelled: the model's
      // seq_cst load of bottom_ is never that old
      std::int64_t top = top_.load(std::memory_order_acquire);
      const std::int64_t bottom = bottom_.load(std::memory_order_seq_cst);  // [D4] seq_cst, pairs with [D2] and [D3]
      if (top >= bottom) return nullptr;
      ring* const r = ring_.load(std::memory_order_acquire);  // [D10] acquire, pairs with [D9]
      // relaxed: [D4] made the slot visible; the value counts only if the CAS succeeds
      T* const item = r->slot(top).load(std::memory_order_relaxed);
      // [D5] seq_cst, pairs with [D1], [D6] and [D7]: the element is taken and its slot may be reused
      if (top_.compare_exchange_strong(top, top + 1, std::memory_order_seq_cst, std::memory_order_relaxed)) return item;
    }
  }

  /// Any thread: true if it was empty at some moment of the call.
  bool empty() const noexcept {
    // relaxed: a hint; who must not miss an element orders this call with a fence of its own
    return top_.load(std::memory_order_relaxed) >= bottom_.load(std::memory_order_relaxed);
  }

 private:
  struct ring {
    ring(std::size_t capacity, ring* older) : mask(capacity - 1), outgrown(older), items(new atomic<T*>[capacity]) {}
    ~ring() { delete[] items; }
    ring(const ring&) = delete;
    ring& operator=(const ring&) = delete;
    atomic<T*>& slot(std::int64_t at) const noexcept { return items[static_cast<std::size_t>(at) & mask]; }
    const std::size_t mask;
    ring* const outgrown;
    atomic<T*>* const items;
  };

  ring* grow(ring* old, std::int64_t top, std::int64_t bottom) {
    ring* const wider = new ring(2 * (old->mask + 1), old);
    for (std::int64_t i = top; i != bottom; ++i) {
      // relaxed: read by their writer, published by [D9]
      wider->slot(i).store(old->slot(i).load(std::memory_order_relaxed), std::memory_order_relaxed);
    }
    ring_.store(wider, std::memory_order_release);  // [D9] release, pairs with [D10]: publishes the wider ring
    return wider;
  }

  alignas(no_sharing) atomic<std::int64_t> top_{0};     // written by thieves and by the owner for its last element
  alignas(no_sharing) atomic<std::int64_t> bottom_{0};  // written by the owner
  atomic<ring*> ring_;                                  // written by the owner
};

}  // namespace async::detail
