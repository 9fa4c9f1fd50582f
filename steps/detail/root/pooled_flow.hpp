// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for size_t
#include <memory>   // for destroy_at
#include <new>      // for placement new

#include "async/detail/base/block_cache.hpp"   // for allocate_block, free_block
#include "steps/detail/root/destroy_root.hpp"  // for destroy_root
#include "steps/detail/root/root.hpp"          // for end_root, destroy_flow, begin, is_kept_by_parent

/// Root flows in recycled blocks.
namespace steps::inline v0_1::detail {

struct pooled_flow {
  static constexpr std::size_t block_size = 448;

  /// Throws std::bad_alloc.
  static flow* make(async::detail::loop_core* core) {
    void* const block = async::detail::allocate_block(block_size);
    return ::new (block) flow(&ops, core, block_size - sizeof(flow), &resume, &begin);
  }
  /// The owner destroys the root: releases the flow, or leaves that to the flow's end.
  [[gnu::always_inline]] static void give_up(flow& f) noexcept {
    if (!needs_no_teardown(f)) [[unlikely]]
      return give_up_otherwise(f);
    std::destroy_at(&f);
    async::detail::free_block(&f, block_size);
  }
  [[gnu::noinline]] static void give_up_otherwise(flow& f) noexcept {
    if (is_kept_by_parent(f)) return;  // the parent's memory stays as it is
    if (!destroy_root(f)) {
      f.detach();
      return;
    }
    if (!f.has_remains()) destroy_built_steps(f);
    release(f);
  }
  static void release(flow& f) noexcept {
    destroy_flow(f);
    async::detail::free_block(&f, block_size);
  }
  static constexpr flow_ops ops{&end_root, &release};
};

}  // namespace steps::inline v0_1::detail
