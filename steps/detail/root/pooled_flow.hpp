// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for size_t
#include <memory>   // for destroy_at
#include <new>      // for placement new

#include "async/detail/base/block_cache.hpp"   // for allocate_block, free_block
#include "async/detail/base/config.hpp"        // for ASYNCSTEPS_FUNCTION
#include "steps/detail/root/destroy_root.hpp"  // for destroy_root
#include "steps/detail/root/root.hpp"          // for end_root, destroy_flow, begin, is_kept_by_parent

/// Root flows in recycled blocks.
namespace steps::inline v0_1::detail {

struct pooled_flow {
  static constexpr std::size_t block_size = 448;
  /// The size of the block of a flow on a pool. A wait with an object, a timer and a completion fits in.
  static constexpr std::size_t pool_block_size = 576;

  /// Throws std::bad_alloc.
  static flow* make(async::detail::loop_core* core) { return make_in<block_size>(core); }
  /// A flow whose `pool` will be set. `core`: null if not known yet.
  static flow* make_for_pool(async::detail::loop_core* core) { return make_in<pool_block_size>(core); }
  /// The owner destroys the root: releases the flow, or leaves that to the flow's end. A flow on a pool that has
  /// executed has a control block, and so a teardown.
  [[gnu::always_inline]] static void give_up(flow& f) noexcept {
    if (!needs_no_teardown(f)) [[unlikely]]
      return give_up_otherwise(f);
    std::destroy_at(&f);
    async::detail::free_block(&f, block_size);
  }
  static void give_up_otherwise(flow& f) noexcept;

 private:
  template <std::size_t Size>
  static flow* make_in(async::detail::loop_core* core) {
    void* const block = async::detail::allocate_block(Size);
    return ::new (block) flow(&ops<Size>, core, Size - sizeof(flow), &resume, &begin);
  }
  template <std::size_t Size>
  static void release(flow& f) noexcept {
    destroy_flow(f);
    async::detail::free_block(&f, Size);
  }
  template <std::size_t Size>
  static constexpr flow_ops ops{&end_root, &release<Size>};
};

#if ASYNCSTEPS_DEFINED
[[gnu::noinline]] ASYNCSTEPS_FUNCTION void pooled_flow::give_up_otherwise(flow& f) noexcept {
  if (is_kept_by_parent(f)) return;  // the parent's memory stays as it is
  if (!destroy_root(f)) {
    f.detach();
    return;
  }
  if (!f.has_remains()) destroy_built_steps(f);
  f.ops->release(f);
}
#endif

}  // namespace steps::inline v0_1::detail
