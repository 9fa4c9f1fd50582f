// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for byte, size_t
#include <cstdint>  // for uint32_t, uintptr_t
#include <new>      // for operator new, align_val_t

#include "async/detail/base/config.hpp"  // for cache_line

namespace async::inline v0_1::detail {

/// Blocks of one size, whole cache lines and aligned to them, in groups of a page. malloc alone would need 16 to 64
/// bytes more for each block: its own header, and a gap to the next multiple of a cache line.
///
/// A group's data lie behind its blocks. An allocation ends 8 bytes before the page does, which is where malloc may
/// keep the header of the next one: so groups follow each other without a gap.
///
/// Threads     one at a time; add() and remove() of different threads exclude each other, too.
/// Memory      a group goes back to the system when all of its blocks have come back.
class block_groups {
 public:
  static constexpr std::size_t page = 4096;

  class group {
   public:
    /// Throws std::bad_alloc.
    static group* make(std::size_t block_size) {
      auto* const start = static_cast<std::byte*>(::operator new(page - sizeof(void*), std::align_val_t{page}));
      return ::new (start + data_at) group(block_size);
    }
    void free() noexcept { ::operator delete(start(), std::align_val_t{page}); }
    group* next = nullptr;  // in its list

   private:
    friend class block_groups;
    struct free_block {
      free_block* next;
    };

    explicit group(std::size_t block_size) noexcept
        : size_(static_cast<std::uint32_t>(block_size)), fresh_(static_cast<std::uint32_t>(data_at / block_size)) {}
    static group& of(void* block) noexcept {
      const std::uintptr_t offset = reinterpret_cast<std::uintptr_t>(block) % page;
      return *std::launder(reinterpret_cast<group*>(static_cast<std::byte*>(block) - offset + data_at));
    }
    std::byte* start() noexcept { return reinterpret_cast<std::byte*>(this) - data_at; }
    bool has_room() const noexcept { return fresh_ != 0 || free_ != nullptr; }

    void* take() noexcept {
      ++used_;
      if (free_block* const block = free_; block != nullptr) {
        free_ = block->next;
        return block;
      }
      return start() + --fresh_ * size_;
    }
    void give(void* block) noexcept {
      --used_;
      free_ = ::new (block) free_block{free_};
    }

    group* before_ = nullptr;
    free_block* free_ = nullptr;
    const std::uint32_t size_;
    std::uint32_t fresh_;  // blocks that have not been taken yet, at the start
    std::uint32_t used_ = 0;
  };

  /// A block. Null: add() a group first.
  void* take() noexcept {
    group* const g = with_room_;
    if (g == nullptr) return nullptr;
    void* const block = g->take();
    if (!g->has_room()) unlink(*g);
    return block;
  }
  void add(group& fresh) noexcept { link(fresh); }

  /// Takes a block back. Not null: a group of which no block is in use, and which the caller frees.
  group* give(void* block) noexcept {
    group& g = group::of(block);
    if (!g.has_room()) link(g);
    g.give(block);
    if (g.used_ != 0) return nullptr;
    unlink(g);
    return &g;
  }

 private:
  static constexpr std::size_t data_at = page - cache_line;

  void link(group& g) noexcept {
    g.before_ = nullptr;
    g.next = with_room_;
    if (with_room_ != nullptr) with_room_->before_ = &g;
    with_room_ = &g;
  }
  void unlink(group& g) noexcept {
    (g.before_ != nullptr ? g.before_->next : with_room_) = g.next;
    if (g.next != nullptr) g.next->before_ = g.before_;
  }

  group* with_room_ = nullptr;

  static_assert(sizeof(group) <= cache_line - sizeof(void*));
};

}  // namespace async::inline v0_1::detail
