// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <algorithm>  // for max
#include <bit>        // for bit_width
#include <cstddef>    // for size_t
#include <cstdint>    // for uint32_t, uint64_t
#include <new>        // for bad_alloc, launder, nothrow

#include "async/detail/queue/segment.hpp"  // for slot_layout

namespace async::detail {

/// A segment: a header and `Lines` lines of slots.
template <class T, std::size_t Lines>
struct segment {
  using layout = slot_layout<T>;
  static constexpr std::uint32_t position_mask = (1U << layout::shift) - 1;
  static constexpr std::uint32_t slot_count =
      static_cast<std::uint32_t>(Lines << layout::shift);  // the number after the last

  /// The number after that of `slot`; positions that a line does not have are left out.
  static constexpr std::uint32_t after(std::uint32_t slot) noexcept {
    if constexpr (layout::per_line == std::size_t{1} << layout::shift) return slot + 1;
    return (slot & position_mask) + 1 < layout::per_line ? slot + 1 : (slot | position_mask) + 1;
  }

  /// How many slots there are before `slot`.
  static constexpr std::size_t before(std::uint32_t slot) noexcept {
    return std::size_t{slot >> layout::shift} * layout::per_line + (slot & position_mask);
  }
  static constexpr std::size_t capacity = Lines * layout::per_line;
  /// The number `count` slots after `slot`.
  static constexpr std::uint32_t after(std::uint32_t slot, std::size_t count) noexcept {
    const std::size_t index = before(slot) + count;
    return static_cast<std::uint32_t>(index / layout::per_line << layout::shift | index % layout::per_line);
  }

  alignas(no_sharing) atomic<std::uint64_t> next{0};  // version of the use | phase and index of the successor
  atomic<std::uint32_t> free_next{0};                 // in the free list
  atomic<std::uint32_t> skips{0};                     // not 0: a producer of this use may have been skipped
  atomic<atomic<std::uint64_t>*> marks{nullptr};      // one skip mark a slot, made when first needed
  std::uint32_t index = 0;                            // its place in the directory, set before it is shared
  cell<unsigned> phase{1};                            // of its use; written by whoever holds it alone
  cell<bool> clean{true};                             // no slot was used in this phase; likewise
  alignas((std::max)(no_sharing, alignof(typename layout::line))) typename layout::line lines[Lines];

  segment() = default;
  segment(const segment&) = delete;
  segment& operator=(const segment&) = delete;
  ~segment() { delete[] marks.load(std::memory_order_relaxed); }  // relaxed: nobody else is left

  atomic<std::uint8_t>& state(std::uint32_t slot) noexcept {
    return lines[slot >> layout::shift].states[slot & position_mask];
  }
  void* storage(std::uint32_t slot) noexcept {
    return lines[slot >> layout::shift].values + (slot & position_mask) * sizeof(T);
  }
  T& value(std::uint32_t slot) noexcept { return *std::launder(static_cast<T*>(storage(slot))); }

  /// One skip mark a slot; null: none was needed so far.
  atomic<std::uint64_t>* find_marks() const noexcept {
    // [G7] acquire, pairs with [G8]: the zeroed marks. not modelled: an atomic's start is not plain data there
    return marks.load(std::memory_order_acquire);
  }
  /// The same, made if there are none; null without memory.
  atomic<std::uint64_t>* make_marks() noexcept {
    atomic<std::uint64_t>* old = find_marks();
    if (old != nullptr) return old;
    atomic<std::uint64_t>* const fresh = new (std::nothrow) atomic<std::uint64_t>[slot_count] {};
    if (fresh == nullptr) return nullptr;
    // [G8] release, pairs with [G7]: publishes the zeroed marks; failure: receives the other's. not modelled: see [G7]
    if (marks.compare_exchange_strong(old, fresh, std::memory_order_release, std::memory_order_acquire)) return fresh;
    delete[] fresh;
    return old;
  }

  // Skip marks: version * 4 + one of these; another version counts as no mark.
  static constexpr std::uint64_t pending = 1, skipped = 2, kept = 3;

  /// After the value was published, and a fence: whether the slot's element is taken at this place.
  [[gnu::noinline]] bool was_kept(std::uint32_t slot, std::uint64_t version) noexcept {
    atomic<std::uint64_t>* const all = find_marks();
    if (all == nullptr) return true;
    version <<= 2;
    // relaxed, both: the fence before orders them, and one word holds the one verdict on a slot
    std::uint64_t mark = all[slot].load(std::memory_order_relaxed);
    if (mark == (version | pending) &&
        all[slot].compare_exchange_strong(mark, version | kept, std::memory_order_relaxed)) {
      return true;
    }
    return mark != (version | skipped);
  }
};

/// The segments of one queue: found by index, recycled through a free list, given back to the system by trim() and the
/// destructor only, so that a thread with a stale word only ever reads the atomics of a living segment.
///
/// Threads     find, obtain, release by any thread; trim and destruction by the only one.
/// Progress    lock-free but for the allocation of a new segment.
template <class Segment, unsigned IndexBits>
class segment_store {
 public:
  segment_store() = default;
  segment_store(const segment_store&) = delete;
  segment_store& operator=(const segment_store&) = delete;
  ~segment_store() {
    // relaxed, all of it: nobody else is left
    for (std::uint32_t i = 1; i < next_index_.load(std::memory_order_relaxed); ++i) {
      if (atomic<Segment*>* const e = entry(i)) delete e->load(std::memory_order_relaxed);
    }
    for (atomic<atomic<Segment*>*>& c : chunks_) delete[] c.load(std::memory_order_relaxed);
    delete[] spare_;
  }

  Segment& find(std::uint32_t index) noexcept {
    // relaxed: the entry was made before the index was published, in a word that the caller has acquired
    return *entry(index)->load(std::memory_order_relaxed);
  }

  /// A segment for the caller alone, in its next phase. Throws std::bad_alloc.
  Segment& obtain() {
    Segment* busy[probes];
    std::size_t count = 0;
    Segment* found = nullptr;
    while (count < probes) {
      found = pop();
      if (found == nullptr || reusable(*found)) break;
      busy[count++] = found;  // a thread is still inside one of its slots
      found = nullptr;
    }
    while (count != 0) release(*busy[--count]);
    return found != nullptr ? *found : allocate();
  }

  /// A new segment for the caller alone. Throws std::bad_alloc.
  Segment& allocate() {
    Segment* const s = new Segment;
    try {
      s->index = new_index();
    } catch (...) {
      delete s;
      throw;
    }
    entry(s->index)->store(s, std::memory_order_relaxed);  // relaxed: see find()
    return *s;
  }

  /// Puts a segment that the caller alone holds on the free list.
  void release(Segment& s) noexcept {
    std::uint64_t top = free_.load(std::memory_order_relaxed);  // relaxed: only compared
    do {
      s.free_next.store(static_cast<std::uint32_t>(top), std::memory_order_relaxed);  // relaxed: published by [G2]
      // [G2] release, pairs with [G3] and [G4]: publishes the segment's header
    } while (!free_.compare_exchange_weak(top, (top & ~index_mask) | s.index, std::memory_order_release,
                                          std::memory_order_relaxed));
  }

  /// Frees the pooled segments; their indices are used again. No concurrent use. Throws std::bad_alloc, then nothing is
  /// lost.
  void trim() {
    auto* const wider = new std::uint32_t[next_index_.load(std::memory_order_relaxed)];
    std::uint32_t count = spare_count_.load(std::memory_order_relaxed);
    for (std::uint32_t i = 0; i < count; ++i) wider[i] = spare_[i];
    while (Segment* const s = pop()) {
      entry(s->index)->store(nullptr, std::memory_order_relaxed);
      wider[count++] = s->index;
      delete s;
    }
    delete[] spare_;
    spare_ = wider;
    spare_count_.store(count, std::memory_order_relaxed);
  }

 private:
  static constexpr std::size_t probes = 8;
  static constexpr std::uint32_t inline_entries = 64;
  static constexpr unsigned inline_bits = 6;
  static constexpr std::uint64_t index_mask = 0xffffffffU;
  static constexpr std::uint64_t one_tag = std::uint64_t{1} << 32;
  static constexpr std::size_t chunk_count = IndexBits > inline_bits ? IndexBits - inline_bits : 1;

  static bool reusable(Segment& s) noexcept {
    if (s.clean.get()) return true;
    const unsigned phase = s.phase.get();
    for (std::uint32_t i = 0; i < Segment::slot_count; i = Segment::after(i)) {
      // [G1] acquire, pairs with [Q6] of queue_core.hpp: the slot's last toucher has left it
      const unsigned state = s.state(i).load(std::memory_order_acquire);
      if ((state & 5) != (4 | phase)) return false;
    }
    s.phase.set(phase ^ 1);
    s.clean.set(true);
    s.skips.store(0, std::memory_order_relaxed);  // relaxed: published with the segment
    return true;
  }

  Segment* pop() noexcept {
    std::uint64_t top = free_.load(std::memory_order_acquire);  // [G3] acquire, pairs with [G2]
    while ((top & index_mask) != 0) {
      Segment& s = find(static_cast<std::uint32_t>(top & index_mask));
      // relaxed: type-stable, and the tag refuses a stale value
      const std::uint64_t below = s.free_next.load(std::memory_order_relaxed);
      // [G4] acquire, pairs with [G2]: after a failure. not modelled: after a success, for tags let no word come twice,
      // so this one has been acquired; but g++ without optimisation warns of a success that is weaker than a failure
      if (free_.compare_exchange_weak(top, ((top & ~index_mask) + one_tag) | below, std::memory_order_acquire,
                                      std::memory_order_acquire)) {
        return &s;
      }
    }
    return nullptr;
  }

  /// An index whose entry exists. Throws std::bad_alloc, then none is used up.
  std::uint32_t new_index() {
    std::uint32_t count = spare_count_.load(std::memory_order_relaxed);  // relaxed: spare_ changes in trim() only
    while (count != 0) {
      if (spare_count_.compare_exchange_weak(count, count - 1, std::memory_order_relaxed)) return spare_[count - 1];
    }
    std::uint32_t index = next_index_.load(std::memory_order_relaxed);  // relaxed: only a number
    do {
      if (index >> IndexBits != 0) throw std::bad_alloc();
      make_entry(index);
    } while (!next_index_.compare_exchange_weak(index, index + 1, std::memory_order_relaxed));
    return index;
  }

  static unsigned chunk_of(std::uint32_t index) noexcept {
    return static_cast<unsigned>(std::bit_width(index >> inline_bits)) - 1;
  }

  /// Where the segment's address is kept; null when its chunk was never made.
  atomic<Segment*>* entry(std::uint32_t index) noexcept {
    if (index < inline_entries) return &inline_[index];
    const unsigned c = chunk_of(index);
    // [G5] acquire, pairs with [G6]: the zeroed entries; not modelled: an atomic's start is not plain data there
    atomic<Segment*>* const chunk = chunks_[c].load(std::memory_order_acquire);
    return chunk != nullptr ? chunk + (index - (inline_entries << c)) : nullptr;
  }

  void make_entry(std::uint32_t index) {
    if (index < inline_entries || entry(index) != nullptr) return;
    const unsigned c = chunk_of(index);
    auto* const fresh = new atomic<Segment*>[std::size_t{inline_entries} << c] {};
    atomic<Segment*>* expected = nullptr;
    // [G6] release, pairs with [G5]: publishes the zeroed entries; not modelled: see there
    if (!chunks_[c].compare_exchange_strong(expected, fresh, std::memory_order_release, std::memory_order_relaxed)) {
      delete[] fresh;
    }
  }

  alignas(no_sharing) atomic<std::uint64_t> free_{0};  // [ tag:32 | index:32 ], the top of the free list
  atomic<std::uint32_t> next_index_{1};                // 0 means none
  atomic<std::uint32_t> spare_count_{0};
  std::uint32_t* spare_ = nullptr;  // indices without a segment; written by trim()
  atomic<Segment*> inline_[inline_entries]{};
  atomic<atomic<Segment*>*> chunks_[chunk_count]{};
};

}  // namespace async::detail
