// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <bit>      // for bit_width, countr_zero
#include <cstddef>  // for size_t, byte
#include <cstdint>  // for uint32_t, uint64_t
#include <memory>   // for destroy_at, destroy_n, uninitialized_value_construct_n
#include <new>      // for bad_alloc, launder, operator new, placement new

#include "async/detail/base/atomics.hpp"   // for atomic, under_model
#include "async/detail/base/config.hpp"    // for no_sharing
#include "async/detail/base/min_max.hpp"   // for max_of, min_of
#include "async/detail/base/platform.hpp"  // for discard_pages, can_discard_pages

namespace async::inline v0_1::detail {

/// The segments of one queue: found by index and recycled through a free list.
///
/// Segments are type-stable: a segment keeps its address and index until the queue is destroyed, so that a thread with
/// a stale word reads the atomics of a segment. trim() takes only the pages away from under free segments:
///
///   free      on the free list; obtain() and trim() pop it, and have it to themselves then
///   trimmed   trim() has found all slots done and discarded the pages, then sets the segment's bit in its slab
///   renewed   obtain() has cleared the bit, and writes the header and all states anew: as if just made
///
/// Why discarded pages harm nobody. When all slots are done and the head has left, no thread owns anything in the
/// segment [G1]. Threads with stale words still read it. They find old values or zeros, in any mixture:
///
///   state(slot)     any value leads to a look at head_ or to a CAS of it, and the version in head_ refuses a stale
///                   word. A stale consumer that marks the slot looks at head_ once more, see skip_marks::decide().
///   next            0 is neither a link nor unlinked, see queue_core::link(). A CAS of a stale thread expects an
///                   unlinked word of its own version, and fails.
///   free_next       a stale pop() fails, since the tag in free_ has grown.
///   marks.used_     0 says "not skipped", which is true of every slot that is done. A stale 1 costs time.
///   marks.marks_    trim() closes it first: until the page is gone, no thread may leave an array of marks there. A
///                   segment that has such an array is not trimmed.
///
/// Stale threads write used_ and, when the page is new, marks_. Either may survive a renewal and harms nothing.
///
/// Threads     any thread may call any member; destruction: no concurrent use.
/// Progress    lock-free, apart from the allocation of a slab and the system call of trim().
/// Memory      slabs of 1, 2, 4 segments and so on, up to 64 MiB. Addresses stay in use until destruction. So does
///             the memory of segments in which a producer once stalled, with their marks.
template <class Segment, unsigned IndexBits>
class segment_store {
 public:
  segment_store() = default;
  segment_store(const segment_store&) = delete;
  segment_store& operator=(const segment_store&) = delete;
  ~segment_store() {
    // relaxed, all of it: no other thread is left
    const std::uint32_t end = next_index_.load(std::memory_order_relaxed);
    for (std::uint32_t i = 1; i < end; ++i) std::destroy_at(&find(i));
    for (std::uint32_t s = 0; s < inline_slabs; ++s) free_slab(inline_slabs_[s], s);
    for (unsigned c = 0; c < chunk_count; ++c) {
      atomic<std::uint64_t>* const chunk = chunks_[c].load(std::memory_order_relaxed);
      if (chunk == nullptr) continue;
      for (std::uint32_t s = 0; s < slabs_in(c); ++s)
        free_slab(slabs_of(chunk, c)[s], number_of(inline_entries << c) + s);
      std::destroy_n(chunk, words_in(c));
      std::destroy_n(slabs_of(chunk, c), slabs_in(c));
      ::operator delete(chunk);
    }
  }

  [[gnu::always_inline]] Segment& find(std::uint32_t index) noexcept {
    // relaxed: the address was written before the index was published in a word that the caller has acquired
    return index < inline_entries ? *inline_[index].load(std::memory_order_relaxed) : find_in_chunk(index);
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
    if (found == nullptr) found = take_trimmed();
    return found != nullptr ? *found : allocate();
  }

  /// A new segment for the caller's exclusive use. Throws std::bad_alloc.
  Segment& allocate() {
    const std::uint32_t index = new_index();
    // relaxed: new_index() has acquired it [G12]
    std::byte* const memory = slab_of(index).load(std::memory_order_relaxed);
    auto* const s = ::new (memory + (index - first_of(index)) * sizeof(Segment)) Segment;
    s->index = index;
    if (index < inline_entries) inline_[index].store(s, std::memory_order_relaxed);  // relaxed: see find()
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

  /// Returns the memory of free segments to the system, of no more segments than exist when it begins. Returns the
  /// number of bytes.
  std::size_t trim() noexcept {
    if constexpr (!under_model && !can_discard_pages) return 0;
    neighbours run{};
    std::size_t discarded = 0;
    std::uint32_t busy = 0;  // linked by free_next
    // relaxed: a limit, since others go on releasing segments
    for (std::uint32_t left = next_index_.load(std::memory_order_relaxed); left != 0; --left) {
      Segment* const s = pop();
      if (s == nullptr) break;
      if (!reusable(*s) || !s->marks.close()) {
        s->free_next.store(busy, std::memory_order_relaxed);  // relaxed, as below: this thread's
        busy = s->index;
      } else if (!run.join(s->index)) {
        discarded += discard(run);
        run = {s->index, s->index + 1};
      }
    }
    discarded += discard(run);
    while (busy != 0) {
      Segment& s = find(busy);
      busy = s.free_next.load(std::memory_order_relaxed);
      release(s);
    }
    return discarded;
  }

 private:
  static constexpr std::size_t probes = 8;
  static constexpr std::uint32_t inline_entries = 64;
  static constexpr unsigned inline_bits = 6;
  static constexpr std::uint64_t index_mask = 0xffffffffU;
  static constexpr std::uint64_t one_tag = std::uint64_t{1} << 32;
  static constexpr unsigned chunk_count = IndexBits > inline_bits ? IndexBits - inline_bits : 1;

  // --- slabs ---------------------------------------------------------------------------------------------------------
  //
  // Segments lie side by side, in the order of their indices, so that trim() discards many pages by one call. The first
  // slabs have 1, 2, 4 segments and so on, so that a small queue takes little memory; the others have slab_size each.

  using slab = atomic<std::byte*>;  // its memory

  static constexpr std::size_t largest_slab = std::size_t{1} << (sizeof(void*) > 4 ? 26 : 20);
  static constexpr unsigned slab_bits = [] {
    unsigned bits = 0;
    while (bits < 12 && sizeof(Segment) << (bits + 1) <= largest_slab) ++bits;
    return bits;
  }();
  static constexpr std::uint32_t slab_size = std::uint32_t{1} << slab_bits;

  static constexpr std::uint32_t number_of(std::uint32_t index) noexcept {  // | 1: g++ warns of what 0 would lead to
    return index < slab_size ? static_cast<std::uint32_t>(std::bit_width(index | 1)) - 1
                             : slab_bits + (index >> slab_bits) - 1;
  }
  static constexpr std::uint32_t first_in(std::uint32_t number) noexcept {
    return number < slab_bits ? std::uint32_t{1} << number : (number + 1 - slab_bits) << slab_bits;
  }
  static constexpr std::uint32_t first_of(std::uint32_t index) noexcept { return first_in(number_of(index)); }
  static constexpr std::uint32_t slabs_in(unsigned chunk) noexcept {
    return max_of((inline_entries << chunk) >> slab_bits, std::uint32_t{1});
  }
  static constexpr std::uint32_t inline_slabs = number_of(inline_entries - 1) + 1;

  static constexpr std::size_t slab_bytes(std::uint32_t number) noexcept {
    return sizeof(Segment) << min_of(number, std::uint32_t{slab_bits});
  }
  /// Page-aligned, unless it is small.
  static constexpr std::align_val_t slab_alignment(std::uint32_t number) noexcept {
    return std::align_val_t{slab_bytes(number) < std::size_t{4} * 4096 ? alignof(Segment)
                                                                       : max_of(alignof(Segment), std::size_t{4096})};
  }
  static void free_slab(slab& s, std::uint32_t number) noexcept {
    // relaxed: no other thread is left
    if (std::byte* const memory = s.load(std::memory_order_relaxed)) {
      ::operator delete(memory, slab_alignment(number));
    }
  }

  // --- trimmed segments ----------------------------------------------------------------------------------------------

  /// Neighbours in a slab, from `first` to the one before `end`.
  struct neighbours {
    std::uint32_t first = 0;
    std::uint32_t end = 0;
    /// Adds a segment. False: it is not next to these.
    bool join(std::uint32_t index) noexcept {
      if (first == end || first_of(index) != first_of(first)) return false;
      const bool is_next = index == end;
      const bool is_before = index + 1 == first;
      if (is_next) ++end;
      if (is_before) first = index;
      return is_next || is_before;
    }
  };

  /// Discards the pages of segments that only the caller holds, and lets obtain() have them.
  std::size_t discard(const neighbours& run) noexcept {
    if (run.first == run.end) return 0;
    std::size_t bytes = 0;
    if constexpr (under_model) {
      for (std::uint32_t i = run.first; i != run.end; ++i) find(i).forget();
    } else {
      bytes = discard_pages(&find(run.first), (run.end - run.first) * sizeof(Segment));
    }
    const std::uint32_t count = run.end - run.first;
    trimmed_count_.fetch_add(count, std::memory_order_relaxed);  // relaxed: a hint
    for (std::uint32_t i = run.first; i != run.end;) {
      const std::uint32_t in_word = min_of(run.end - i, std::uint32_t{64} - i % 64);
      // [G9] release, pairs with [G10]: the segments are this thread's until here
      trimmed(i).fetch_or((~std::uint64_t{0} >> (64 - in_word)) << i % 64, std::memory_order_release);
      i += in_word;
    }
    return bytes;
  }

  /// A trimmed segment, renewed; null: there is none.
  Segment* take_trimmed() noexcept {
    if (trimmed_count_.load(std::memory_order_relaxed) == 0) return nullptr;  // relaxed, all such: hints
    // [G13] acquire, pairs with [G14]: the words; not modelled: see [G5]
    const std::uint32_t words = (next_index_.load(std::memory_order_acquire) - 1) / 64 + 1;
    const std::uint32_t start = last_trimmed_word_.load(std::memory_order_relaxed);
    for (std::uint32_t i = 0; i != words; ++i) {
      const std::uint32_t at = (start + i) % words;
      atomic<std::uint64_t>& word = trimmed(at * 64);
      for (std::uint64_t left = word.load(std::memory_order_relaxed); left != 0;) {
        const std::uint64_t bit = left & (~left + 1);
        left = word.fetch_and(~bit, std::memory_order_acquire);  // [G10] acquire, pairs with [G9]
        if ((left & bit) != 0) {
          trimmed_count_.fetch_sub(1, std::memory_order_relaxed);
          last_trimmed_word_.store(at, std::memory_order_relaxed);
          const std::uint32_t index = at * 64 + static_cast<std::uint32_t>(std::countr_zero(bit));
          find(index).renew(index);
          return &find(index);
        }
      }
    }
    return nullptr;
  }

  // --- the free list -------------------------------------------------------------------------------------------------

  /// Puts a segment whose slots are all done into its next phase. False: a thread is still inside a slot.
  static bool reusable(Segment& s) noexcept {
    if (s.clean.get()) return true;
    const unsigned phase = s.phase.get();
    for (auto& line : s.lines) {
      unsigned others = 0;
      // [G1] acquire, pairs with [Q6] of queue_core.hpp: the last thread in the slot has left it
      for (auto& state : line.states) others |= state.load(std::memory_order_acquire) ^ (4U | phase);
      if ((others & 5) != 0) return false;
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

  // --- the directory -------------------------------------------------------------------------------------------------

  /// An unused index, with memory in a slab. Throws std::bad_alloc; no index is lost then.
  std::uint32_t new_index() {
    std::uint32_t index = next_index_.load(std::memory_order_relaxed);  // relaxed: only a number
    do {
      if (index >> IndexBits != 0) throw std::bad_alloc();
      make_chunk(index);
      make_slab(index);
      // [G14] release, pairs with [G13]: publishes the words; not modelled: see [G5]
    } while (
        !next_index_.compare_exchange_weak(index, index + 1, std::memory_order_release, std::memory_order_relaxed));
    return index;
  }

  static unsigned chunk_of(std::uint32_t index) noexcept {
    return static_cast<unsigned>(std::bit_width(index >> inline_bits)) - 1;
  }

  // A chunk: words that say which of its segments are trimmed, then slabs. Chunk c has the indices from
  // inline_entries << c to twice that. So a segment's address takes no memory of its own, but two loads; those of the
  // first inline_entries are kept in a table.

  static constexpr std::uint32_t words_in(unsigned chunk) noexcept { return std::uint32_t{1} << chunk; }
  static slab* slabs_of(atomic<std::uint64_t>* chunk, unsigned c) noexcept {
    return reinterpret_cast<slab*>(chunk + words_in(c));
  }
  [[gnu::always_inline]] atomic<std::uint64_t>* chunk(unsigned c) noexcept {
    // [G5] acquire, pairs with [G6]: the words and slabs; not modelled: an atomic's start is not plain data there
    return chunks_[c].load(std::memory_order_acquire);
  }
  [[gnu::always_inline]] Segment& find_in_chunk(std::uint32_t index) noexcept {
    const unsigned c = chunk_of(index);
    const std::uint32_t place = index - (inline_entries << c);
    const unsigned shift = min_of(c + inline_bits, slab_bits);  // a chunk has one slab, or several
    std::byte* const memory = slabs_of(chunk(c), c)[place >> shift].load(std::memory_order_relaxed);  // as in find()
    const std::size_t offset = std::size_t{place & ((std::uint32_t{1} << shift) - 1)} * sizeof(Segment);
    return *std::launder(reinterpret_cast<Segment*>(memory + offset));
  }
  atomic<std::uint64_t>& trimmed(std::uint32_t index) noexcept {
    if (index < inline_entries) return inline_trimmed_;
    const unsigned c = chunk_of(index);
    return chunk(c)[index / 64 - words_in(c)];
  }
  slab& slab_of(std::uint32_t index) noexcept {
    if (index < inline_entries) return inline_slabs_[number_of(index)];
    const unsigned c = chunk_of(index);
    return slabs_of(chunk(c), c)[number_of(index) - number_of(inline_entries << c)];
  }

  void make_chunk(std::uint32_t index) {
    if (index < inline_entries) return;
    const unsigned c = chunk_of(index);
    if (chunks_[c].load(std::memory_order_relaxed) != nullptr) return;  // relaxed: users acquire it
    void* const memory = ::operator new(words_in(c) * sizeof(atomic<std::uint64_t>) + slabs_in(c) * sizeof(slab));
    auto* const fresh = static_cast<atomic<std::uint64_t>*>(memory);
    std::uninitialized_value_construct_n(fresh, words_in(c));
    std::uninitialized_value_construct_n(slabs_of(fresh, c), slabs_in(c));
    atomic<std::uint64_t>* expected = nullptr;
    // [G6] release, pairs with [G5]: publishes the words and slabs; not modelled: see there
    if (!chunks_[c].compare_exchange_strong(expected, fresh, std::memory_order_release, std::memory_order_relaxed)) {
      ::operator delete(memory);
    }
  }

  void make_slab(std::uint32_t index) {
    slab& s = slab_of(index);
    // [G12] acquire, pairs with [G11]: what the memory was used for before; not modelled: that is the allocator's
    if (s.load(std::memory_order_acquire) != nullptr) return;
    const std::uint32_t number = number_of(index);
    void* const fresh = ::operator new(slab_bytes(number), slab_alignment(number));
    std::byte* expected = nullptr;
    // [G11] release, pairs with [G12]; not modelled: see there. Failure: [G12]
    if (!s.compare_exchange_strong(expected, static_cast<std::byte*>(fresh), std::memory_order_release,
                                   std::memory_order_acquire)) {
      ::operator delete(fresh, slab_alignment(number));
    }
  }

  alignas(no_sharing) atomic<std::uint64_t> free_{0};  // [ tag:32 | index:32 ], the top of the free list
  atomic<std::uint32_t> next_index_{1};                // 0 stands for no segment
  atomic<std::uint32_t> trimmed_count_{0};             // a hint
  atomic<std::uint32_t> last_trimmed_word_{0};         // a hint: the word that had the last one
  atomic<Segment*> inline_[inline_entries]{};
  slab inline_slabs_[inline_slabs]{};
  atomic<std::uint64_t> inline_trimmed_{0};
  atomic<atomic<std::uint64_t>*> chunks_[chunk_count]{};
};

}  // namespace async::inline v0_1::detail
