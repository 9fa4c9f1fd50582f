// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for size_t, byte
#include <cstdint>  // for uint8_t, uint32_t, uint64_t

#include "async/detail/base/atomics.hpp"  // for atomic
#include "async/detail/base/config.hpp"   // for cache_line

/// The memory of async::queue: segments of slots, and the words that name a slot of a certain use of a segment.
namespace async::detail {

/// How a 64-bit word of the queue is divided: version, phase, segment index, slot.
///
/// The version counts the segments that the queue has gone through, so that a stale word never matches a later use of
/// the same segment. The phase is what a published slot's state byte holds in this use; it flips with each use, so that
/// no byte needs to be reset.
template <unsigned VersionBits, unsigned IndexBits, unsigned SlotBits>
struct slot_word {
  static_assert(VersionBits + 1 + IndexBits + SlotBits <= 64);
  static constexpr std::uint64_t slot_mask = (std::uint64_t{1} << SlotBits) - 1;
  static constexpr std::uint64_t index_mask = (std::uint64_t{1} << IndexBits) - 1;
  static constexpr std::uint64_t version_mask = (std::uint64_t{1} << VersionBits) - 1;

  static constexpr std::uint64_t make(std::uint64_t version, unsigned phase, std::uint64_t index,
                                      std::uint64_t slot) noexcept {
    return (((version & version_mask) << 1 | phase) << IndexBits | index) << SlotBits | slot;
  }
  static constexpr std::uint32_t slot(std::uint64_t w) noexcept { return static_cast<std::uint32_t>(w & slot_mask); }
  static constexpr std::uint32_t index(std::uint64_t w) noexcept {
    return static_cast<std::uint32_t>(w >> SlotBits & index_mask);
  }
  static constexpr unsigned phase(std::uint64_t w) noexcept {
    return static_cast<unsigned>(w >> (SlotBits + IndexBits) & 1);
  }
  static constexpr std::uint64_t version(std::uint64_t w) noexcept { return w >> (SlotBits + IndexBits + 1); }
  /// The word without its slot: which use of which segment.
  static constexpr std::uint64_t use(std::uint64_t w) noexcept { return w >> SlotBits; }
};

/// How slots of T lie in a segment: as many values in a cache line as leave room for their state bytes, else one by
/// one.
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

}  // namespace async::detail
