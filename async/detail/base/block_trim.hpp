// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <bit>      // for countr_zero, countr_one
#include <cstddef>  // for size_t
#include <cstdint>  // for uint32_t
#include <mutex>    // for lock_guard
#include <utility>  // for exchange

#include "async/detail/base/block_cache.hpp"   // for depot, magazine, delete_block, block_classes
#include "async/detail/base/config.hpp"        // for ASYNCSTEPS_DEFINED, ASYNCSTEPS_FUNCTION
#include "async/detail/base/large_blocks.hpp"  // for large_blocks
#include "async/detail/base/platform.hpp"      // for discard_pages
#include "async/detail/base/slab.hpp"          // for slab, slab_list, span, loose_block

namespace async::inline v0_1::detail {

/// Gives the free memory of block_cache.hpp and large_blocks back to the system, but for what the caches of threads
/// have. A slab goes when all its blocks are free. Returns the number of bytes.
///
/// Threads     any; while a thread does so, those of others do nothing for small blocks. Allocations go on meanwhile.
std::size_t trim_blocks() noexcept;

#if ASYNCSTEPS_DEFINED
namespace blocks {

/// Takes free blocks out of the depot to find slabs whose blocks are all free, and puts the others back.
class slab_trim {
 public:
  explicit slab_trim(depot& home) noexcept : home_(home) {
    const std::lock_guard lock(home.mutex);
    is_alone_ = !std::exchange(home.is_trimming, true);
  }
  slab_trim(const slab_trim&) = delete;
  slab_trim& operator=(const slab_trim&) = delete;
  ~slab_trim() {
    if (!is_alone_) return;
    const std::lock_guard lock(home_.mutex);
    home_.is_trimming = false;
  }

  /// Returns the number of bytes.
  std::size_t operator()() noexcept {
    if (!is_alone_) return 0;
    for (std::size_t i = 0; i != slab_classes(); ++i) {
      take(i);
      sort();
      put(i);
    }
    return free_pages();
  }

 private:
  static constexpr std::uint32_t in_list = ~std::uint32_t{0};  // `in_hand` of a slab in free_

  void take(std::size_t index) noexcept {
    const std::lock_guard lock(home_.mutex);
    magazines_ = std::exchange(home_.full[index], nullptr);
    others_ = std::exchange(home_.slabs.lists[index], {});
  }
  void put(std::size_t index) noexcept {
    const std::lock_guard lock(home_.mutex);
    while (magazine* const m = pop(magazines_)) push(home_.full[index], m);
    others_.move_to(home_.slabs.lists[index]);
  }

  void sort() noexcept {
    each_used([](void* block) { ++slab::of(block).in_hand; });
    each_uncarved([](slab& s) { s.in_hand += s.capacity - s.carved; });
    sort_uncarved();
    sort_magazines();
    sort_loose();
    each_used([](void* block) { slab::of(block).in_hand = 0; });
    each_uncarved([](slab& s) { s.in_hand = 0; });
  }
  template <class F>
  void each_used(F f) const {
    for (const magazine* m = magazines_; m != nullptr; m = m->next) {
      for (std::size_t i = 0; i != m->count; ++i) f(m->free_blocks[i]);
    }
    for (loose_block* b = others_.loose; b != nullptr; b = b->next) f(static_cast<void*>(b));
  }
  template <class F>
  void each_uncarved(F f) const {
    for (slab* s = others_.uncarved; s != nullptr; s = s->next) f(*s);
  }

  /// True: the slab is free.
  bool is_free(slab& s) noexcept {
    if (s.in_hand == s.capacity) {
      s.in_hand = in_list;
      s.next = std::exchange(free_, &s);
    }
    return s.in_hand == in_list;
  }
  void sort_uncarved() noexcept {
    for (slab* s = std::exchange(others_.uncarved, nullptr); s != nullptr;) {
      slab& each = *std::exchange(s, s->next);
      if (!is_free(each)) others_.add(&each);
    }
  }
  /// Fills magazines with the blocks that are left, and frees the others.
  void sort_magazines() noexcept {
    magazine* to = nullptr;
    for (magazine* from = std::exchange(magazines_, nullptr); from != nullptr;) {
      magazine& each = *pop(from);
      const std::size_t blocks = std::exchange(each.count, 0);
      for (std::size_t i = 0; i != blocks; ++i) {
        void* const block = each.free_blocks[i];
        if (is_free(slab::of(block))) continue;
        if (to == nullptr || to->count == magazine_size) push(magazines_, to = &each);
        to->free_blocks[to->count++] = block;
      }
      if (to != &each) delete &each;
    }
  }
  void sort_loose() noexcept {
    for (loose_block* b = std::exchange(others_.loose, nullptr); b != nullptr;) {
      loose_block* const each = std::exchange(b, b->next);
      if (!is_free(slab::of(each))) others_.put(each);
    }
  }

  /// The pages of free slabs. While the spans with free pages are in this thread's hands, it has all free pages.
  std::size_t free_pages() noexcept {
    span* spans = take_spans();
    std::size_t freed = 0;
    for (slab* s = free_; s != nullptr; freed += span::page) {
      slab* const each = std::exchange(s, s->next);
      span& home = *each->home;
      if (home.free == 0) home.next = std::exchange(spans, &home);
      home.put(each);
    }
    while (spans != nullptr) {
      span* const each = std::exchange(spans, spans->next);
      if (each->free == span::all_free) {
        span::destroy(each);
        continue;
      }
      discard_free_pages(*each);
      const std::lock_guard lock(home_.mutex);
      home_.slabs.add(each);
    }
    return freed;
  }
  static void discard_free_pages(span& of) noexcept {
    for (std::size_t end = 0; end != span::pages;) {
      const std::size_t begin = end + static_cast<std::size_t>(std::countr_zero(of.free >> end));
      if (begin >= span::pages) return;
      end = begin + static_cast<std::size_t>(std::countr_one(of.free >> begin));
      static_cast<void>(discard_pages(of.page_at(begin), (end - begin) * span::page));
    }
  }
  span* take_spans() noexcept {
    const std::lock_guard lock(home_.mutex);
    return std::exchange(home_.slabs.spans, nullptr);
  }

  depot& home_;
  bool is_alone_;                  // no other thread trims
  magazine* magazines_ = nullptr;  // of one class, as the next
  slab_list others_;
  slab* free_ = nullptr;  // of all classes
};

}  // namespace blocks

ASYNCSTEPS_FUNCTION std::size_t trim_blocks() noexcept {
  blocks::depot& home = blocks::depot::instance();
  std::size_t freed = large_blocks::instance().trim() + blocks::slab_trim(home)();
  for (std::size_t i = blocks::slab_classes(); i <= block_classes; ++i) {
    blocks::magazine* list = nullptr;
    {
      const std::lock_guard lock(home.mutex);
      list = i < block_classes ? home.full[i] : home.empty;
      (i < block_classes ? home.full[i] : home.empty) = nullptr;
    }
    while (blocks::magazine* const m = blocks::pop(list)) {
      for (; m->count != 0; --m->count) {
        blocks::delete_block(home, m->free_blocks[m->count - 1], i);
        freed += blocks::bytes_of(i);
      }
      delete m;
    }
  }
  return freed;
}
#endif

}  // namespace async::inline v0_1::detail
