// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for size_t
#include <cstdint>  // for int64_t, uint32_t

#include "async/detail/base/atomics.hpp"   // for atomic, free_light_fence, heavy_fence, under_model
#include "async/detail/base/config.hpp"    // for no_sharing
#include "async/detail/base/platform.hpp"  // for discard_pages

namespace async::inline v0_1::detail {

/// Double-ended queue of pointers with one owner. The owner pushes and pops at the bottom, newest first; any thread
/// steals at the top, oldest first. Each pointer carries a tag, which a thief may read before it takes the pointer.
///
/// Chase and Lev, "Dynamic Circular Work-Stealing Deque" (SPAA 2005), with sequentially consistent operations where
/// that paper's weak-memory version (Lê et al., PPoPP 2013) has fences, and with a guard, which spares an owner without
/// thieves these operations.
///
/// Guard       The elements at the guard's position and above it are private: the owner pops them with a light fence
///             and without reading top_. Those below it are shared: thieves steal them and the owner pops them as in
///             Chase and Lev.
///             A thief that wants a private element raises the guard far above all elements, issues a heavy fence, and
///             then marks the guard as ready. Thieves rely only on a ready guard; the owner heeds it at once. So each
///             pop of the owner either sees the raised guard, or is visible to all threads that rely on it.
///             The owner lowers the guard after `Patience` pops in a row without a steal in between. Patience is chosen
///             so that these pops cost about as much as the heavy fence of the next thief.
///             Where light fences are not free the guard stays above all positions.
/// Why no element is taken twice. Let a thief have read top_ = t, a ready guard above t, and bottom_ > t, in this
/// order, and then have moved top_ over t.
/// 1. The owner pops t as a private element before it sees this guard. The fences, or the release of a lowered guard,
///    make its store of bottom_ visible to the thief: what the thief sees above t, and so the element that it takes,
///    was pushed later.
/// 2. The owner pops t as a private element after it has lowered the guard again, to g <= t. If it left elements below
///    g: its look at top_ [D17] found less than g, so the move of top_ to g comes later, and a thief that sees it sees
///    the lowered guard [D15]. If it took the last element, its own move of top_ to g publishes the lowered guard. If
///    thieves took the last element from it, it raises the guard again before the next pop.
/// 3. The owner pops t as a shared element: Chase and Lev.
///
/// Why trim() loses no element. It discards slots of the ring in use below top_ and from bottom_ on. Later pushes may
/// write these slots as well, and thieves that read them fail for the same reason. It also discards outgrown rings,
/// where a late thief would find a living element otherwise. A slot that is discarded has a null item, or its old
/// contents: a thief looks again when the item is null, and reads the item after the tag, so that both are old if the
/// item is.
///
/// Threads     push, pop and trim by the owner only; steal and empty by any thread.
/// Progress    push and pop are wait-free except for growth; a failing steal means that another one succeeded.
/// Exceptions  push throws std::bad_alloc when it must grow and cannot: nothing is pushed.
/// Memory      grows by doubling; outgrown rings are kept until destruction, since a thief may still read one: together
///             less than the ring in use. trim() returns their memory and that of unused slots to the system.
/// Invariants  I1 top_ only grows. I2 the elements are ring[top_ .. bottom_). I3 an element belongs to the thread that
///             moves top_ over it; only the owner takes one from the bottom, without a CAS unless it is the last.
///             I4 top_ is never above the guard, and is at the guard when a thief raises it. I5 Each time the guard is
///             lowered, its position is above all those to which it was lowered before, by I1 and I4.
/// Parameters  Reach is how far above the top a thief raises the guard.
template <class T, class Tag = void, std::size_t FirstCapacity = 256, unsigned Patience = 512,
          std::int64_t Reach = std::int64_t{1} << 40>
class stealing_deque {
 public:
  struct element {
    T* item = nullptr;
    Tag* tag = nullptr;
    explicit operator bool() const noexcept { return item != nullptr; }
  };

  stealing_deque() : ring_(new ring(FirstCapacity, nullptr)) {
    use(*ring_.load(std::memory_order_relaxed));  // relaxed: not shared yet
    if (!may_be_private_)
      guard_.store(guard_at(endless) | ready, std::memory_order_relaxed);  // relaxed: not shared yet
  }
  ~stealing_deque() {
    ring* r = ring_.load(std::memory_order_relaxed);  // relaxed: no other thread is left
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
    const std::int64_t bottom = bottom_.load(std::memory_order_relaxed);  // relaxed: only the owner writes it
    if (bottom >= limit_) find_room();
  }

  /// Owner: adds `item` at the bottom.
  [[gnu::always_inline]] void push(T* item, Tag* tag = nullptr) {
    std::int64_t bottom = bottom_.load(std::memory_order_relaxed);  // relaxed: only the owner writes it
    if (bottom >= limit_) [[unlikely]]
      bottom = find_room();
    own_slot(bottom).put(item, tag);
    // [D2] release, pairs with [D4]: publishes the slot, what it points to and a new ring
    bottom_.store(bottom + 1, std::memory_order_release);
  }

  /// Owner: takes the newest element; null when there is none.
  [[gnu::always_inline]] element pop() noexcept {
    const std::int64_t bottom = bottom_.load(std::memory_order_relaxed) - 1;      // relaxed: only the owner writes it
    if (is_private(bottom, guard_.load(std::memory_order_relaxed))) [[likely]] {  // relaxed: read again
      if (lower_to_private(bottom)) [[likely]]
        return own_slot(bottom).get();
    } else if (top_.load(std::memory_order_relaxed) > bottom) {  // relaxed: true for good by I1
      return {};
    }
    return pop_shared(bottom);
  }

  /// Owner: as pop(), for a deque that is seldom empty. True: it is `item`. Else `other` is what it has taken instead;
  /// null when there was none.
  [[gnu::always_inline]] bool pop_expected(const T* item, element& other) noexcept {
    const std::int64_t bottom = bottom_.load(std::memory_order_relaxed) - 1;  // relaxed: only the owner writes it
    if (lower_to_private(bottom)) [[likely]] {
      // relaxed: only the owner writes it
      if (own_slot(bottom).item.load(std::memory_order_relaxed) == item) [[likely]]
        return true;
      other = own_slot(bottom).get();
    } else {
      other = pop_shared(bottom);
    }
    return other.item == item;
  }

  /// Owner: whether the newest element has this tag.
  bool is_newest_of(const Tag* tag) const noexcept { return newest_slot().tag == tag; }
  /// Owner: takes the newest element if its tag is this one; null when there is none or it is another.
  element pop_if(const Tag* tag) noexcept { return is_newest_of(tag) ? pop() : element{}; }

  /// Owner: takes the newest element if it is this one.
  bool pop_this(const T* item) noexcept { return newest_slot().item == item && pop(); }

  /// Owner: returns the memory of unused slots to the system; says how many bytes that were.
  std::size_t trim() noexcept {
    if (!is_trimmable()) return 0;
    is_trimmable_.store(false, std::memory_order_relaxed);                // relaxed: a hint for others
    const std::int64_t bottom = bottom_.load(std::memory_order_relaxed);  // relaxed, both: only the owner writes them
    const ring* const r = ring_.load(std::memory_order_relaxed);
    // [D1] acquire, pairs with [D5]: as for slots that are written again; not modelled: see there
    const std::int64_t top = top_.load(std::memory_order_acquire);
    const std::size_t first = static_cast<std::size_t>(top) & r->mask;
    const std::size_t end = static_cast<std::size_t>(bottom) & r->mask;
    std::size_t freed = 0;
    if (top >= bottom) {
      freed += r->discard(0, r->mask + 1);
    } else if (first < end) {
      freed += r->discard(0, first) + r->discard(end, r->mask + 1);
    } else {
      freed += r->discard(end, first);
    }
    for (const ring* old = r->outgrown; old != nullptr; old = old->outgrown) freed += old->discard(0, old->mask + 1);
    limit_ = bottom;  // find_room() notes the next push
    return freed;
  }
  /// Any thread: whether trim() may have something to do. A hint.
  bool is_trimmable() const noexcept { return is_trimmable_.load(std::memory_order_relaxed); }

  /// The position of the bottom, which each push and pop of the owner changes. Owner: later pushes go to this position
  /// or above it. Any thread: a hint.
  std::int64_t position() const noexcept { return bottom_.load(std::memory_order_relaxed); }

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
  /// called for an element that is gone, or for null; then its result is checked again or leads to a null.
  template <class Fits>
  element steal_if(Fits fits) noexcept {
    for (;;) {
      // [D7] seq_cst, pairs with [D8] and [D5]: guard_ and bottom_ are not older than top_, also in the order of all
      // seq_cst operations; not modelled: the model's seq_cst loads of these are never that old
      std::int64_t top = top_.load(std::memory_order_seq_cst);
      // [D15] seq_cst, pairs with [D18], [D19] and [D20]: the guard is as low as it was when top_ was moved here, and
      // what was popped above it before it was ready is gone from bottom_, too
      const std::int64_t guard = guard_.load(std::memory_order_seq_cst);
      // [D4] seq_cst, pairs with [D2], [D3] and [D16]
      const std::int64_t bottom = bottom_.load(std::memory_order_seq_cst);
      if (top >= bottom) return {};
      const ring* const r = ring_.load(std::memory_order_acquire);  // [D10] acquire, pairs with [D9]
      // [D4] made the slot visible; what is read counts only if the CAS succeeds
      const element oldest = r->slot(top).get();
      if (!oldest) [[unlikely]]
        continue;  // the ring has been outgrown and trimmed, or the top has moved
      if (!fits(oldest.tag)) return {};
      if ((guard & ready) == 0 || is_private(top, guard)) {
        raise_guard(guard, top);
        continue;
      }
      // [D5] seq_cst, pairs with [D1], [D6], [D7] and [D17]: the element is taken and its slot may be reused
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
    for (std::int64_t i = top; i < bottom; ++i) {
      if (fits(look_at(i).tag)) return true;
    }
    return false;
  }

  /// Any thread: whether the tag of the oldest element fits. A hint.
  template <class Fits>
  bool oldest_fits(Fits fits) const noexcept {
    const std::int64_t top = top_.load(std::memory_order_relaxed);  // relaxed, both: as in empty()
    if (top >= bottom_.load(std::memory_order_relaxed)) return false;
    return fits(look_at(top).tag);
  }

  /// Any thread: the position of the oldest element, if there is one. It changes when a thief takes that element, and
  /// also when the owner does while the guard is raised. A hint.
  std::int64_t top() const noexcept { return top_.load(std::memory_order_relaxed); }

  /// Any thread: true if it was empty at some moment of the call.
  bool empty() const noexcept {
    // relaxed: a hint; a caller that must not miss an element issues a fence before this call
    return top_.load(std::memory_order_relaxed) >= bottom_.load(std::memory_order_relaxed);
  }

 private:
  struct ring_slot {
    // relaxed, both of the items: a slot is published by [D2] or [D9]; a thief's read counts only if its CAS succeeds
    element get() const noexcept {
      // [D12] acquire, pairs with [D13]: a thief reads what a tag points to before its CAS. The tag may be that of an
      // element pushed meanwhile, after the bottom_ that this thief has read. The tag first: see trim()
      Tag* const t = tag.load(std::memory_order_acquire);
      return {item.load(std::memory_order_relaxed), t};
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
    /// Discards the slots' pages; on a model checker's memory, what they hold.
    std::size_t discard(std::size_t first, std::size_t end) const noexcept {
      if constexpr (!under_model)
        return first < end ? discard_pages(places + first, (end - first) * sizeof(ring_slot)) : 0;
      for (; first < end; ++first) places[first].put(nullptr, nullptr);
      return 0;
    }
    const std::size_t mask;
    ring* const outgrown;
    ring_slot* const places;
  };

  // guard_: [ position : 63 | ready : 1 ]. Each value occurs once, see I5.
  static constexpr std::int64_t ready = 1;
  static constexpr std::int64_t endless = std::int64_t{1} << 61;  // no deque gets there

  static constexpr std::int64_t guard_at(std::int64_t position) noexcept { return 2 * position; }
  static constexpr bool is_private(std::int64_t at, std::int64_t guard) noexcept {
    return guard_at(at) + ready >= guard;  // ready or not
  }

  /// Owner: lowers bottom_ to `bottom`. True: the element there is private, and has been taken.
  [[gnu::always_inline]] bool lower_to_private(std::int64_t bottom) noexcept {
    // [D16] release, pairs with [D4]: a thief that reads this value sees the elements below it; not modelled: in the
    // model, a thread's later stores continue its release [D2]
    bottom_.store(bottom, std::memory_order_release);
    // pairs with raise_guard()'s heavy fence: this sees the raised guard, or the thief bottom_
    free_light_fence();                                                 // without free fences no element is private
    return is_private(bottom, guard_.load(std::memory_order_relaxed));  // relaxed: ordered by the fence
  }
  /// Owner: the slot at `position`.
  ring_slot& own_slot(std::int64_t position) const noexcept {
    return own_places_[static_cast<std::size_t>(position) & own_mask_];
  }

  /// Any thread: the slot at `position`, a hint. Not one of an outgrown ring that has been trimmed.
  element look_at(std::int64_t position) const noexcept {
    const ring* r = ring_.load(std::memory_order_acquire);  // [D11] acquire, pairs with [D9]
    for (;;) {
      const element found = r->slot(position).get();
      if (found) return found;
      const ring* const now = ring_.load(std::memory_order_acquire);  // [D14] acquire, pairs with [D9]
      if (now == r) return found;
      r = now;
    }
  }

  /// Owner: the slot of the newest element, or one that held an element before, if there is none.
  element newest_slot() const noexcept {
    return own_slot(bottom_.load(std::memory_order_relaxed) - 1).get();  // relaxed: only the owner writes it
  }

  /// Owner: takes the newest element, at `bottom`, if thieves have not. bottom_ may be one more or have been lowered.
  [[gnu::noinline]] element pop_shared(const std::int64_t bottom) noexcept {
    // [D3] seq_cst, pairs with [D4]: of this store and [D6] against the thief's [D4] and [D5], one side sees the other,
    // so that the owner takes an element without a CAS only if no thief can be after it
    bottom_.store(bottom, std::memory_order_seq_cst);
    std::int64_t top = top_.load(std::memory_order_seq_cst);  // [D6] seq_cst, pairs with [D5]
    element taken;
    if (top <= bottom) {
      taken = own_slot(bottom).get();
      const bool lower = is_unchallenged(top);
      if (top < bottom) {
        if (lower) [[unlikely]]
          lower_guard_above_others(bottom);
        return taken;
      }
      const std::int64_t lowered = lower ? lower_guard(bottom + 1) : 0;
      // [D8] release, pairs with [D7]: the last element goes to the thread that moves top_, and a thread that sees that
      // it has gone sees a bottom_ and a guard_ without it; not modelled: see there. Failure: a thief moved it
      if (top_.compare_exchange_strong(top, top + 1, std::memory_order_release, std::memory_order_relaxed)) {
        last_top_ = bottom + 1;
      } else {
        taken = {};
        raise_again(lowered);
      }
    }
    bottom_.store(bottom + 1, std::memory_order_relaxed);  // relaxed: empty; publishes nothing new
    return taken;
  }

  /// Owner: counts a pop of a shared element. True: the guard is to be lowered.
  bool is_unchallenged(std::int64_t top) noexcept {
    if (top != last_top_) {  // thieves were there
      last_top_ = top;
      unchallenged_ = 0;
    }
    if (++unchallenged_ < Patience || !may_be_private_) [[likely]]
      return false;
    unchallenged_ = 0;
    return true;
  }

  /// Owner, which has bottom_ == at, and has found elements below it.
  void lower_guard_above_others(std::int64_t at) noexcept {
    const std::int64_t lowered = lower_guard(at);
    // [D17] seq_cst, pairs with [D5]: if top_ is not there yet, thieves that see it there later see the lowered guard
    if (top_.load(std::memory_order_seq_cst) >= at) raise_again(lowered);
  }

  /// Owner: returns the new guard, or 0 when a thief is raising it.
  std::int64_t lower_guard(std::int64_t at) noexcept {
    std::int64_t guard = guard_.load(std::memory_order_relaxed);  // relaxed: the CAS compares it
    const std::int64_t lowered = guard_at(at) | ready;
    if ((guard & ready) == 0) return 0;
    // [D19] seq_cst, pairs with [D15]: comes before the look at top_ [D17], and publishes bottom_
    const bool done =
        guard_.compare_exchange_strong(guard, lowered, std::memory_order_seq_cst, std::memory_order_relaxed);
    return done ? lowered : 0;
  }

  /// Owner, since it lowered the guard to `lowered` (0: it did not) without a pop: takes that back. Needs no fence.
  void raise_again(std::int64_t lowered) noexcept {
    if (lowered == 0) return;
    const std::int64_t raised = lowered + guard_at(Reach);
    // [D18] release, pairs with [D15]: publishes bottom_; not modelled: the model's seq_cst loads of bottom_ see it
    // anyway. Failure: a thief has raised it
    guard_.compare_exchange_strong(lowered, raised, std::memory_order_release, std::memory_order_relaxed);
  }

  /// Thief: makes the element at `top` a shared one, unless `guard` or the deque has changed meanwhile.
  [[gnu::noinline]] void raise_guard(std::int64_t guard, std::int64_t top) noexcept {
    if (is_private(top, guard)) {
      const std::int64_t raised = guard_at(top + Reach);
      // relaxed: ordered by the fence
      if (!guard_.compare_exchange_strong(guard, raised, std::memory_order_relaxed)) return;
      guard = raised;
    }
    heavy_fence();  // pairs with the light fence of lower_to_private()
    // [D20] release, pairs with [D15]: what the fence made visible here is visible to threads that rely on the guard;
    // not modelled: the model's light fence is a strong one, which orders the owner's store before all later loads.
    // Failure: another thief has marked it, and the owner may have lowered it since
    guard_.compare_exchange_strong(guard, guard | ready, std::memory_order_release, std::memory_order_relaxed);
  }

  /// Owner: makes room for an element at the bottom, and returns its place.
  [[gnu::noinline]] std::int64_t find_room() {
    for (;;) {
      const std::int64_t bottom = bottom_.load(std::memory_order_relaxed);  // relaxed: only the owner writes it
      // [D1] acquire, pairs with [D5]: a slot is written again only after the steal that emptied it has read it;
      // not modelled: no load of the model reads what is stored later
      const std::int64_t top = top_.load(std::memory_order_acquire);
      ring* const r = ring_.load(std::memory_order_relaxed);  // relaxed: only the owner writes it
      if (bottom - top > static_cast<std::int64_t>(r->mask)) {
        grow(r);
        continue;
      }
      limit_ = top + static_cast<std::int64_t>(r->mask) + 1;
      // relaxed: a hint for others
      if (r->mask >= (under_model ? 2 : 4095)) is_trimmable_.store(true, std::memory_order_relaxed);
      return bottom;
    }
  }

  void use(const ring& r) noexcept {
    own_places_ = r.places;
    own_mask_ = r.mask;
  }

  /// Operator new may lead to a push() of this thread, by a new_handler for example: what was read before it is read
  /// again.
  void grow(ring* old) {
    ring* const wider = new ring(2 * (old->mask + 1), old);
    if (ring_.load(std::memory_order_relaxed) != old) return delete wider;  // relaxed, both: only the owner writes them
    const std::int64_t bottom = bottom_.load(std::memory_order_relaxed);
    // relaxed: an element that has been stolen meanwhile is copied in vain
    for (std::int64_t i = top_.load(std::memory_order_relaxed); i != bottom; ++i) {
      const element moved = old->slot(i).get();
      wider->slot(i).put(moved.item, moved.tag);
    }
    // [D9] release, pairs with [D10], [D11] and [D14]: publishes the wider ring
    ring_.store(wider, std::memory_order_release);
    use(*wider);
  }

  alignas(no_sharing) atomic<std::int64_t> top_{0};     // written by thieves and by the owner for its last element
  alignas(no_sharing) atomic<std::int64_t> bottom_{0};  // written by the owner
  atomic<std::int64_t> guard_{ready};                   // written by thieves and by the owner, both seldom
  atomic<ring*> ring_;                                  // written by the owner
  ring_slot* own_places_ = nullptr;                     // owner only: the ring's
  std::size_t own_mask_ = 0;                            // owner only: the ring's
  std::int64_t limit_ = FirstCapacity;                  // owner only: there is room below this position
  std::int64_t last_top_ = 0;                           // owner only: top_ as last seen or moved by pop_shared()
  std::uint32_t unchallenged_ = 0;                      // owner only: pops of shared elements since last_top_ changed
  atomic<bool> is_trimmable_{false};                    // written by the owner: slots were used since the last trim()
  const bool may_be_private_ = under_model || light_fence_is_free();
};

}  // namespace async::inline v0_1::detail
