// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for size_t, byte
#include <cstdint>  // for uint8_t, uint32_t, uint64_t
#include <new>      // for launder

#include "async/detail/base/atomics.hpp"      // for atomic, cell
#include "async/detail/base/config.hpp"       // for cache_line, no_sharing
#include "async/detail/base/min_max.hpp"      // for max_of
#include "async/detail/queue/skip_marks.hpp"  // for skip_marks

/// The memory of async::queue: segments of slots, and the words that name a slot in one use of a segment.
namespace async::inline v0_1::detail {

/// Layout of a queue's 64-bit words: version, phase, segment index, closed, slot.
///
/// Only the tail of a closed queue has the bit "closed". It is the highest bit of the slot's field: a producer that
/// compares that field with the end of the segment stops at a closed tail without a test of its own.
/// The version counts the segments that the queue has gone through, so that a stale word never matches a later use of
/// the same segment. The phase is what a published slot's state byte holds in this use. It flips with each use, so that
/// no byte needs to be reset.
template <unsigned VersionBits, unsigned IndexBits, unsigned SlotBits>
struct slot_word {
  static constexpr unsigned field_bits = SlotBits + 1;  // with "closed"
  static_assert(VersionBits + 1 + IndexBits + field_bits <= 64);
  static constexpr std::uint64_t closed = std::uint64_t{1} << SlotBits;
  static constexpr std::uint64_t slot_mask = closed - 1;
  static constexpr std::uint64_t index_mask = (std::uint64_t{1} << IndexBits) - 1;
  static constexpr std::uint64_t version_mask = (std::uint64_t{1} << VersionBits) - 1;

  static constexpr std::uint64_t make(std::uint64_t version, unsigned phase, std::uint64_t index,
                                      std::uint64_t slot) noexcept {
    return (((version & version_mask) << 1 | phase) << IndexBits | index) << field_bits | slot;
  }
  static constexpr std::uint32_t slot(std::uint64_t w) noexcept { return static_cast<std::uint32_t>(w & slot_mask); }
  /// The slot; beyond all slots if the word is closed.
  static constexpr std::uint32_t open_slot(std::uint64_t w) noexcept {
    return static_cast<std::uint32_t>(w & (slot_mask | closed));
  }
  static constexpr bool is_closed(std::uint64_t w) noexcept { return (w & closed) != 0; }
  static constexpr std::uint32_t index(std::uint64_t w) noexcept {
    return static_cast<std::uint32_t>(w >> field_bits & index_mask);
  }
  static constexpr unsigned phase(std::uint64_t w) noexcept {
    return static_cast<unsigned>(w >> (field_bits + IndexBits) & 1);
  }
  static constexpr std::uint64_t version(std::uint64_t w) noexcept { return w >> (field_bits + IndexBits + 1); }
  /// The word without its slot's field: a use of a segment.
  static constexpr std::uint64_t use(std::uint64_t w) noexcept { return w >> field_bits; }
};

/// Layout of slots of T in a segment: a cache line holds as many values as leave room for their state bytes. A line
/// holds a single value if fewer than two fit.
template <class T>
struct slot_layout {
  static constexpr std::size_t fitting = alignof(T) <= cache_line ? cache_line / (sizeof(T) + 1) : 0;
  static constexpr std::size_t per_line = fitting >= 2 ? fitting : 1;
  static constexpr std::size_t alignment = fitting >= 2 ? cache_line : alignof(T);
  static constexpr unsigned shift = [] {
    unsigned s = 0;
    while ((std::size_t{1} << s) < per_line) ++s;
    return s;
  }();

  struct alignas(alignment) line {
    alignas(T) std::byte values[per_line * sizeof(T)];
    atomic<std::uint8_t> states[per_line];
  };
};

/// The size of a segment's header.
template <class T>
inline constexpr std::size_t segment_header = max_of(no_sharing, alignof(typename slot_layout<T>::line));

/// A segment: a header and `Lines` lines of slots.
template <class T, std::size_t Lines>
struct segment {
  using layout = slot_layout<T>;
  static constexpr std::uint32_t position_mask = (1U << layout::shift) - 1;
  /// The number after that of the last slot.
  static constexpr std::uint32_t slot_count = static_cast<std::uint32_t>(Lines << layout::shift);
  static constexpr std::size_t capacity = Lines * layout::per_line;

  /// The slot after `slot`. Slot numbers skip the positions that a line does not have.
  static constexpr std::uint32_t after(std::uint32_t slot) noexcept {
    if constexpr (layout::per_line == std::size_t{1} << layout::shift) return slot + 1;
    return (slot & position_mask) + 1 < layout::per_line ? slot + 1 : (slot | position_mask) + 1;
  }
  /// The slot `count` slots after `slot`.
  static constexpr std::uint32_t after(std::uint32_t slot, std::size_t count) noexcept {
    const std::size_t index = before(slot) + count;
    return static_cast<std::uint32_t>(index / layout::per_line << layout::shift | index % layout::per_line);
  }
  /// The number of slots before `slot`.
  static constexpr std::size_t before(std::uint32_t slot) noexcept {
    return std::size_t{slot >> layout::shift} * layout::per_line + (slot & position_mask);
  }

  alignas(no_sharing) atomic<std::uint64_t> next{0};  // see unlinked(); 0: the segment is in no use
  atomic<std::uint32_t> free_next{0};                 // the segment below in the free list
  std::uint32_t index = 0;                            // in the directory; set before the segment is shared
  skip_marks marks;                                   // of slots whose producer stalled
  cell<unsigned> phase{1};                            // of the current use; written by the segment's exclusive holder
  cell<bool> clean{true};                             // no slot was used in this phase; likewise
  alignas(segment_header<T>) typename layout::line lines[Lines];

  atomic<std::uint8_t>& state(std::uint32_t slot) noexcept {
    return lines[slot >> layout::shift].states[slot & position_mask];
  }
  void* storage(std::uint32_t slot) noexcept {
    return lines[slot >> layout::shift].values + (slot & position_mask) * sizeof(T);
  }
  T& value(std::uint32_t slot) noexcept { return *std::launder(static_cast<T*>(storage(slot))); }

  /// The effect of discarding the pages, on a model checker's memory: other threads see zeros, sooner or later.
  void forget() noexcept {
    next.store(0, std::memory_order_relaxed);  // relaxed, both: compared with words that have a version or a tag
    free_next.store(0, std::memory_order_relaxed);
    for (std::uint32_t i = 0; i < slot_count; i = after(i)) {
      // [G15] release, pairs with [Q32]: a thread that faults in a new page sees what came before the system call
      state(i).store(0, std::memory_order_release);
    }
    marks.forget();
  }

  /// Makes all slots empty again for the caller, which has the segment to itself: the segment has lost its memory.
  /// Other threads may still look at it. Leaves `marks`, `next` and `free_next`.
  void renew(std::uint32_t number) noexcept {
    index = number;
    phase.set(1);
    clean.set(true);
    marks.reopen();
    // relaxed: published with the segment
    for (std::uint32_t i = 0; i < slot_count; i = after(i)) state(i).store(0, std::memory_order_relaxed);
  }
};

}  // namespace async::inline v0_1::detail
