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
  static constexpr std::size_t block_size = 440;

  /// Throws std::bad_alloc, as the next two.
  static flow* make(async::detail::loop_core* core) { return make_in<block_size>(ops<block_size>, core); }
  /// A flow whose `pool` will be set, and that begins in a turn of its loop.
  static flow* make_for_pool(async::detail::loop_core& core) {
    return make_in<pool_flow_block>(ops<pool_flow_block>, &core);
  }
  /// A flow whose `pool` will be set, and that will wait in the pool's queue for its start.
  static flow* make_for_queue() {
    flow* const f = make_in<pool_flow_block, sizeof(flow_control_block)>(queued_ops, nullptr);
    f->control_block.set(::new (control_block_within(*f))
                             flow_control_block(*f, flow_control_block::place::within_flow));
    return f;
  }
  /// The owner destroys the root: releases the flow, or leaves that to the flow's end. A flow that waits in a pool's
  /// queue for its start has a control block, and so a teardown.
  [[gnu::always_inline]] static void give_up(flow& f) noexcept {
    if (!needs_no_teardown(f)) [[unlikely]]
      return give_up_otherwise(f);
    std::destroy_at(&f);
    async::detail::free_block(&f, block_size);
  }
  static void give_up_otherwise(flow& f) noexcept;

 private:
  /// `Kept`: the bytes behind the arena that it leaves free.
  template <std::size_t Size, std::size_t Kept = 0>
  static flow* make_in(const flow_ops& o, async::detail::loop_core* core) {
    return ::new (async::detail::allocate_block(Size)) flow(&o, core, Size - Kept - sizeof(flow), &resume, &begin);
  }
  template <std::size_t Size>
  static void release(flow& f) noexcept {
    destroy_flow(f);
    async::detail::free_block(&f, Size);
  }
  /// The memory goes with the control block.
  static void release_queued(flow& f) noexcept {
    auto* const within = static_cast<flow_control_block*>(control_block_within(f));
    destroy_flow(f);
    release_control_block(*within);
  }
  template <std::size_t Size>
  static constexpr flow_ops ops{&end_root, &release<Size>, nullptr, &report_to_pool};
  static constexpr flow_ops queued_ops{&end_root, &release_queued, nullptr, &report_to_pool};
};

#if ASYNCSTEPS_DEFINED
[[gnu::noinline]] ASYNCSTEPS_FUNCTION void pooled_flow::give_up_otherwise(flow& f) noexcept {
  if (is_kept_by_parent(f)) return;  // the parent's memory stays as it is
  if (!destroy_root(f)) {
    f.detach();
    return;
  }
  if (!f.has_remains()) destroy_steps_with_root(f);
  f.ops().release(f);
}
#endif

}  // namespace steps::inline v0_1::detail
