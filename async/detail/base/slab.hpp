// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <bit>      // for countr_zero
#include <cstddef>  // for byte, size_t
#include <cstdint>  // for uint32_t, uint64_t, uintptr_t
#include <new>      // for operator new, placement new
#include <utility>  // for exchange

#include "async/detail/base/config.hpp"  // for cache_line

/// Slabs: pages that hold small blocks of one size. An aligned block that malloc() makes by itself takes up to three
/// times its size: glibc cuts it out of a larger piece and leaves the cuttings.
///
/// Threads     the owner guards what it has: the depot by its mutex, a thread that trims by having it alone.
namespace async::inline v0_1::detail::blocks {

/// Memory for 64 slabs. Slabs that are free give their pages back to the system; a span whose slabs are all free goes.
struct span {
  static constexpr std::size_t page = 4096;
  static constexpr std::uint64_t all_free = ~std::uint64_t{0};
  static constexpr std::size_t pages = 64;

  /// Throws std::bad_alloc.
  static span* make() { return ::new (::operator new(sizeof(span) + (pages + 1) * page)) span; }
  static void destroy(span* s) noexcept { ::operator delete(s); }

  std::byte* page_at(std::size_t index) noexcept {
    const std::uintptr_t end = reinterpret_cast<std::uintptr_t>(this + 1);
    return reinterpret_cast<std::byte*>(this + 1) + (page - end % page) % page + index * page;
  }
  /// Requires a free page.
  std::byte* take() noexcept {
    const auto index = static_cast<std::size_t>(std::countr_zero(free));
    free &= free - 1;
    return page_at(index);
  }
  void put(const void* its_page) noexcept {
    const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(its_page) - page_at(0));
    free |= std::uint64_t{1} << offset / page;
  }

  span* next = nullptr;  // in a list of spans with free pages
  std::uint64_t free = all_free;
};

/// The first line of a slab. The blocks follow, each aligned to a cache line.
struct slab {
  static constexpr std::uint32_t room_for(std::size_t block_size) noexcept {
    return static_cast<std::uint32_t>((span::page - cache_line) / block_size);
  }
  static slab& of(void* block) noexcept {
    const auto at = reinterpret_cast<std::uintptr_t>(block);
    return *reinterpret_cast<slab*>(static_cast<std::byte*>(block) - at % span::page);
  }

  /// A block that has not been used before.
  void* carve(std::size_t block_size) noexcept {
    return reinterpret_cast<std::byte*>(this) + cache_line + carved++ * block_size;
  }

  span* home;
  std::uint32_t capacity;  // in blocks
  std::uint32_t carved = 0;
  std::uint32_t in_hand = 0;  // the free blocks that a thread that trims has come across
  slab* next = nullptr;       // in a list of slabs
};
static_assert(sizeof(slab) <= cache_line);

/// A free block that no magazine has room for.
struct loose_block {
  loose_block* next;
};

/// The free blocks of one size that are in no magazine.
struct slab_list {
  slab* uncarved = nullptr;      // slabs with blocks that have not been used
  loose_block* loose = nullptr;  // blocks that have

  /// Null: there is none.
  void* take(std::size_t block_size) noexcept {
    if (loose_block* const block = loose; block != nullptr) {
      loose = block->next;
      return block;
    }
    slab* const s = uncarved;
    if (s == nullptr) return nullptr;
    void* const block = s->carve(block_size);
    if (s->carved == s->capacity) uncarved = s->next;
    return block;
  }
  void add(slab* s) noexcept { s->next = std::exchange(uncarved, s); }
  void put(void* block) noexcept { loose = ::new (block) loose_block{loose}; }
  void move_to(slab_list& other) noexcept {
    while (uncarved != nullptr) other.add(std::exchange(uncarved, uncarved->next));
    while (loose != nullptr) other.put(std::exchange(loose, loose->next));
  }
};

/// The free blocks of all sizes that are in no magazine, and the free pages.
template <std::size_t Sizes>
struct slab_store {
  slab_list lists[Sizes] = {};
  span* spans = nullptr;  // those with free pages

  /// Null: there is no free block, and no free page to make some of.
  void* take(std::size_t index, std::size_t block_size) noexcept {
    slab_list& list = lists[index];
    if (void* const block = list.take(block_size); block != nullptr) return block;
    span* const s = spans;
    if (s == nullptr) return nullptr;
    list.add(::new (s->take()) slab{s, slab::room_for(block_size)});
    if (s->free == 0) spans = s->next;
    return list.take(block_size);
  }
  void add(span* s) noexcept { s->next = std::exchange(spans, s); }
};

}  // namespace async::inline v0_1::detail::blocks
