// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <bit>      // for bit_width
#include <cstddef>  // for size_t
#include <cstdint>  // for uint32_t, uint64_t
#include <new>      // for bad_alloc

#include "async/detail/base/atomics.hpp"  // for atomic
#include "async/detail/base/config.hpp"   // for no_sharing

namespace async::detail {

/// The segments of one queue: found by index and recycled through a free list.
///
/// Only trim() and the destructor free segments. So a thread with a stale word reads the atomics of a living segment.
///
/// Threads     find, obtain, allocate and release: any thread. trim and destruction: no concurrent use.
/// Progress    lock-free, apart from the allocation of a new segment.
template <class Segment, unsigned IndexBits>
class segment_store {
 public:
  segment_store() = default;
  segment_store(const segment_store&) = delete;
  segment_store& operator=(const segment_store&) = delete;
  ~segment_store() {
    // relaxed, all of it: no other thread is left
    for (std::uint32_t i = 1; i < next_index_.load(std::memory_order_relaxed); ++i) {
      if (atomic<Segment*>* const e = entry(i)) delete e->load(std::memory_order_relaxed);
    }
    for (atomic<atomic<Segment*>*>& c : chunks_) delete[] c.load(std::memory_order_relaxed);
    delete[] spare_;
  }

  [[gnu::always_inline]] Segment& find(std::uint32_t index) noexcept {
    // relaxed: the entry was written before the index was published in a word that the caller has acquired
    return *entry(index)->load(std::memory_order_relaxed);
  }

  /// A segment for the caller's exclusive use, in its next phase. Throws std::bad_alloc.
  Segment& obtain() {
    Segment* busy[probes];
    std::size_t count = 0;
    Segment* found = nullptr;
    while (count < probes) {
      found = pop();
      if (found == nullptr || reusable(*found)) break;
      busy[count++] = found;  // a thread is still inside a slot
      found = nullptr;
    }
    while (count != 0) release(*busy[--count]);
    return found != nullptr ? *found : allocate();
  }

  /// A new segment for the caller's exclusive use. Throws std::bad_alloc.
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

  /// Puts a segment that only the caller holds on the free list.
  void release(Segment& s) noexcept {
    std::uint64_t top = free_.load(std::memory_order_relaxed);  // relaxed: only compared
    do {
      s.free_next.store(static_cast<std::uint32_t>(top), std::memory_order_relaxed);  // relaxed: published by [G2]
      // [G2] release, pairs with [G3] and [G4]: publishes the segment's header
    } while (!free_.compare_exchange_weak(top, (top & ~index_mask) | s.index, std::memory_order_release,
                                          std::memory_order_relaxed));
  }

  /// Frees the pooled segments and recycles their indices. No concurrent use. Throws std::bad_alloc, changing nothing.
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

  /// Puts a segment whose slots are all done into its next phase. False: a thread is still inside a slot.
  static bool reusable(Segment& s) noexcept {
    if (s.clean.get()) return true;
    const unsigned phase = s.phase.get();
    for (std::uint32_t i = 0; i < Segment::slot_count; i = Segment::after(i)) {
      // [G1] acquire, pairs with [Q6] of queue_core.hpp: the last thread in the slot has left it
      const unsigned state = s.state(i).load(std::memory_order_acquire);
      if ((state & 5) != (4 | phase)) return false;
    }
    s.phase.set(phase ^ 1);
    s.clean.set(true);
    s.marks.reset();
    return true;
  }

  Segment* pop() noexcept {
    std::uint64_t top = free_.load(std::memory_order_acquire);  // [G3] acquire, pairs with [G2]
    while ((top & index_mask) != 0) {
      Segment& s = find(static_cast<std::uint32_t>(top & index_mask));
      // relaxed: type-stable, and the tag refuses a stale value
      const std::uint64_t below = s.free_next.load(std::memory_order_relaxed);
      // [G4] acquire, pairs with [G2]: needed after a failure. not modelled: the order of a success, whose word has
      // been acquired already, since tags keep words from coming twice. g++ without optimisation warns of a success
      // that is weaker than a failure
      if (free_.compare_exchange_weak(top, ((top & ~index_mask) + one_tag) | below, std::memory_order_acquire,
                                      std::memory_order_acquire)) {
        return &s;
      }
    }
    return nullptr;
  }

  /// An unused index, with an entry in the directory. Throws std::bad_alloc; no index is lost then.
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

  /// The directory entry that holds the segment's address; null when its chunk was never made. Always inline: g++
  /// merges the copies of stores of different sizes, and then warns of array bounds.
  [[gnu::always_inline]] atomic<Segment*>* entry(std::uint32_t index) noexcept {
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
  atomic<std::uint32_t> next_index_{1};                // 0 stands for no segment
  atomic<std::uint32_t> spare_count_{0};
  std::uint32_t* spare_ = nullptr;  // indices without a segment; only trim() writes it
  atomic<Segment*> inline_[inline_entries]{};
  atomic<atomic<Segment*>*> chunks_[chunk_count]{};
};

}  // namespace async::detail
