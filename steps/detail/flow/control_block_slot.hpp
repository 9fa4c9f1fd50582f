// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "async/detail/base/atomics.hpp"  // for atomic

namespace steps::inline v0_1::detail {

/// Slot for a flow's control block, which the first thread that needs it makes.
///
/// Threads     get(), put(): any that may use the flow. get_own(), set(), clear(): while no other thread does.
template <class Block>
class control_block_slot {
 public:
  /// Null: no thread has made one.
  Block* get() const noexcept {
    // [E5] acquire, pairs with [E6]: its members
    return block_.load(std::memory_order_acquire);
  }
  /// Stores `made` unless another thread was first. Returns the control block that is stored.
  Block* put(Block* made) noexcept {
    Block* known = nullptr;
    // [E6] release, pairs with [E5]; acquire on failure, pairs with itself: the members of the other thread's block
    return block_.compare_exchange_strong(known, made, std::memory_order_release, std::memory_order_acquire) ? made
                                                                                                             : known;
  }

  /// Relaxed, as in set() and clear(): the flow is handed to other threads later, and a thread that has made the block
  /// has handed the flow over since then.
  Block* get_own() const noexcept { return block_.load(std::memory_order_relaxed); }
  void set(Block* made) noexcept { block_.store(made, std::memory_order_relaxed); }
  void clear() noexcept { block_.store(nullptr, std::memory_order_relaxed); }

 private:
  async::detail::atomic<Block*> block_{nullptr};
};

}  // namespace steps::inline v0_1::detail
