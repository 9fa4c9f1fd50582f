// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for size_t
#include <cstdint>  // for int64_t

#include "async/detail/base/atomics.hpp"  // for atomic
#include "async/detail/base/config.hpp"   // for no_sharing

namespace async::detail {

/// Double-ended queue of pointers with one owner: the owner pushes and pops at one end, newest first, and any thread
/// steals at the other, oldest first. Beside each pointer lies a tag, which a thief may read before it takes the
/// pointer.
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
///             top_ over it; the owner alone takes one from the bottom, without a CAS unless it is the last.
template <class T, class Tag = void, std::size_t FirstCapacity = 256>
class stealing_deque {
 public:
  struct element {
    T* item = nullptr;
    Tag* tag = nullptr;
    explicit operator bool() const noexcept { return item != nullptr; }
  };

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

  /// Owner: makes the next push() one that does not throw. Throws std::bad_alloc.
  void make_room() {
    const std::int64_t bottom = bottom_.load(std::memory_order_relaxed);  // relaxed, both: only the owner writes it
    ring* const r = ring_.load(std::memory_order_relaxed);
    const std::int64_t top = top_.load(std::memory_order_relaxed);  // relaxed: what is stolen meanwhile makes room
    if (bottom - top > static_cast<std::int64_t>(r->mask)) grow(r, top, bottom);
  }

  /// Owner: adds `item` at the bottom.
  [[gnu::always_inline]] void push(T* item, Tag* tag = nullptr) {
    const std::int64_t bottom = bottom_.load(std::memory_order_relaxed);  // relaxed: only the owner writes it
    // [D1] acquire, pairs with [D5]: a slot is written again only after the steal that emptied it has read it;
    // not modelled: no load of the model reads what is stored later
    const std::int64_t top = top_.load(std::memory_order_acquire);
    ring* r = ring_.load(std::memory_order_relaxed);  // relaxed: only the owner writes it
    if (bottom - top > static_cast<std::int64_t>(r->mask)) r = grow(r, top, bottom);
    r->slot(bottom).put(item, tag);
    // [D2] release, pairs with [D4]: publishes the slot, what it points to and a new ring
    bottom_.store(bottom + 1, std::memory_order_release);
  }

  /// Owner: takes the newest element; null when there is none.
  element pop() noexcept {
    const std::int64_t bottom = bottom_.load(std::memory_order_relaxed) - 1;  // relaxed: only the owner writes it
    if (top_.load(std::memory_order_relaxed) > bottom) return {};             // relaxed: true for good by I1
    ring* const r = ring_.load(std::memory_order_relaxed);                    // relaxed: only the owner writes it
    // [D3] seq_cst, pairs with [D4]: of this store and [D6] against the thief's [D4] and [D5], one side sees the other,
    // so that the owner takes an element without a CAS only if no thief can be after it
    bottom_.store(bottom, std::memory_order_seq_cst);
    std::int64_t top = top_.load(std::memory_order_seq_cst);  // [D6] seq_cst, pairs with [D5]
    element taken;
    if (top <= bottom) {
      taken = r->slot(bottom).get();
      if (top < bottom) return taken;
      // [D8] release, pairs with [D7]: the last element goes to whoever moves top_, and who sees that it has gone sees
      // a bottom_ without it; not modelled: see there. Failure: a thief did
      if (!top_.compare_exchange_strong(top, top + 1, std::memory_order_release, std::memory_order_relaxed)) {
        taken = {};
      }
    }
    bottom_.store(bottom + 1, std::memory_order_relaxed);  // relaxed: empty; publishes nothing new
    return taken;
  }

  /// Owner: takes the newest element if its tag is this one; null when there is none or it is another.
  element pop_if(const Tag* tag) noexcept {
    const std::int64_t bottom = bottom_.load(std::memory_order_relaxed);  // relaxed: only the owner writes it
    if (top_.load(std::memory_order_relaxed) >= bottom) return {};        // relaxed: true for good by I1
    const ring* const r = ring_.load(std::memory_order_relaxed);          // relaxed: only the owner writes it
    return r->slot(bottom - 1).get().tag == tag ? pop() : element{};
  }

  /// Owner: takes the newest element if it is this one.
  bool pop_this(const T* item) noexcept {
    const std::int64_t bottom = bottom_.load(std::memory_order_relaxed);  // relaxed: only the owner writes it
    if (top_.load(std::memory_order_relaxed) >= bottom) return false;     // relaxed: true for good by I1
    const ring* const r = ring_.load(std::memory_order_relaxed);          // relaxed: only the owner writes it
    return r->slot(bottom - 1).get().item == item && pop();
  }

  /// Owner: the position of the bottom. Later pushes go to this position or above it.
  std::int64_t position() const noexcept { return bottom_.load(std::memory_order_relaxed); }  // relaxed: own

  /// Owner: whether an element that fits is among the newest `depth`, and how many are newer than it. Thieves may have
  /// taken it meanwhile.
  template <class Fits>
  bool find(std::int64_t depth, Fits fits, std::int64_t& newer) const noexcept {
    const std::int64_t bottom = bottom_.load(std::memory_order_relaxed);  // relaxed: only the owner writes it
    const std::int64_t top = top_.load(std::memory_order_relaxed);        // relaxed: a guess
    const ring* const r = ring_.load(std::memory_order_relaxed);          // relaxed: only the owner writes it
    for (newer = 0; newer < depth && bottom - newer > top; ++newer) {
      if (fits(r->slot(bottom - newer - 1).get())) return true;
    }
    return false;
  }

  /// Any thread: takes the oldest element; null when there is none.
  element steal() noexcept {
    return steal_if([](const Tag*) noexcept { return true; });
  }

  /// Any thread: takes the oldest element if its tag fits; null when there is none or it does not fit. fits(tag) may be
  /// asked of an element that is gone, or of null; what comes of it then is a null or is tried again.
  template <class Fits>
  element steal_if(Fits fits) noexcept {
    for (;;) {
      // [D7] acquire, pairs with [D8] and [D5]: bottom_ is not older than top_; not modelled: the model's
      // seq_cst load of bottom_ is never that old
      std::int64_t top = top_.load(std::memory_order_acquire);
      const std::int64_t bottom = bottom_.load(std::memory_order_seq_cst);  // [D4] seq_cst, pairs with [D2] and [D3]
      if (top >= bottom) return {};
      ring* const r = ring_.load(std::memory_order_acquire);  // [D10] acquire, pairs with [D9]
      // [D4] made the slot visible; what is read counts only if the CAS succeeds
      const element oldest = r->slot(top).get();
      if (!fits(oldest.tag)) return {};
      // [D5] seq_cst, pairs with [D1], [D6] and [D7]: the element is taken and its slot may be reused
      if (top_.compare_exchange_strong(top, top + 1, std::memory_order_seq_cst, std::memory_order_relaxed)) {
        return oldest;
      }
    }
  }

  /// Any thread: whether the tag of some element fits. A hint.
  template <class Fits>
  bool any_fits(Fits fits) const noexcept {
    const std::int64_t top = top_.load(std::memory_order_relaxed);  // relaxed, both: a hint
    const std::int64_t bottom = bottom_.load(std::memory_order_relaxed);
    const ring* const r =
        ring_.load(std::memory_order_acquire);  // [D14] acquire, pairs with [D9]; not modelled: as [D11], for each slot
    for (std::int64_t i = top; i < bottom; ++i) {
      if (fits(r->slot(i).get().tag)) return true;
    }
    return false;
  }

  /// Any thread: whether the tag of the oldest element fits. A hint.
  template <class Fits>
  bool oldest_fits(Fits fits) const noexcept {
    const std::int64_t top = top_.load(std::memory_order_relaxed);  // relaxed, both: as in empty()
    if (top >= bottom_.load(std::memory_order_relaxed)) return false;
    return fits(ring_.load(std::memory_order_acquire)->slot(top).get().tag);  // [D11] acquire, pairs with [D9]
  }

  /// Any thread: true if it was empty at some moment of the call.
  bool empty() const noexcept {
    // relaxed: a hint; who must not miss an element orders this call with a fence of its own
    return top_.load(std::memory_order_relaxed) >= bottom_.load(std::memory_order_relaxed);
  }

 private:
  struct ring_slot {
    // relaxed, both of the items: a slot is published by [D2] or [D9]; a thief's read counts only if its CAS succeeds
    element get() const noexcept {
      // [D12] acquire, pairs with [D13]: a thief looks at what a tag points to before its CAS. It may be the tag of an
      // element that was pushed meanwhile, which no bottom_ that this thief has read has published
      return {item.load(std::memory_order_relaxed), tag.load(std::memory_order_acquire)};
    }
    void put(T* i, Tag* t) noexcept {
      item.store(i, std::memory_order_relaxed);
      tag.store(t, std::memory_order_release);  // [D13] release, pairs with [D12]
    }
    atomic<T*> item;
    atomic<Tag*> tag;
  };
  struct ring {
    ring(std::size_t capacity, ring* older) : mask(capacity - 1), outgrown(older), places(new ring_slot[capacity]) {}
    ~ring() { delete[] places; }
    ring(const ring&) = delete;
    ring& operator=(const ring&) = delete;
    ring_slot& slot(std::int64_t at) const noexcept { return places[static_cast<std::size_t>(at) & mask]; }
    const std::size_t mask;
    ring* const outgrown;
    ring_slot* const places;
  };

  [[gnu::noinline]] ring* grow(ring* old, std::int64_t top, std::int64_t bottom) {
    ring* const wider = new ring(2 * (old->mask + 1), old);
    for (std::int64_t i = top; i != bottom; ++i) {
      const element moved = old->slot(i).get();
      wider->slot(i).put(moved.item, moved.tag);
    }
    // [D9] release, pairs with [D10], [D11] and [D14]: publishes the wider ring
    ring_.store(wider, std::memory_order_release);
    return wider;
  }

  alignas(no_sharing) atomic<std::int64_t> top_{0};     // written by thieves and by the owner for its last element
  alignas(no_sharing) atomic<std::int64_t> bottom_{0};  // written by the owner
  atomic<ring*> ring_;                                  // written by the owner
};

}  // namespace async::detail
