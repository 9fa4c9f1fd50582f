// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint32_t

#include "async/detail/base/atomics.hpp"  // for atomic

namespace steps::inline v0_1::detail {

/// Whether a flow executes. The owner that starts it sets the flag; the loop clears it at the end, after which the
/// owner may use or destroy the flow.
///
/// Word        [ number:31 | executes:1 ], or 0. The number tells an execution from the next one: a request of another
///             thread may arrive after the end.
/// Threads     set(): the flow's owner. clear(): the thread that has the flow while it executes. test(), seen(): any.
class executing_flag {
 public:
  void set(std::uint32_t number) noexcept {
    // [E3] release, pairs with [E2]: the steps, and the loop or pool
    word_.store(number << 1 | executes, std::memory_order_release);
  }
  /// The same before another thread can see the flow, or when the operation that makes it visible publishes the flag.
  void set_unseen() noexcept { word_.store(executes, std::memory_order_relaxed); }

  /// The flow is idle.
  void clear() noexcept {
    // [E1] release, pairs with [E2]: the thread that sees the end may use or destroy the flow
    word_.store(0, std::memory_order_release);
  }
  /// The flow has not begun to execute, and belongs to its owner again.
  void clear_unseen() noexcept { word_.store(0, std::memory_order_relaxed); }

  /// For the thread that has the flow.
  bool is_set() const noexcept { return word_.load(std::memory_order_relaxed) != 0; }
  /// For any other.
  bool test() const noexcept { return seen() != 0; }
  /// The same, and which execution it is. 0: none.
  std::uint32_t seen() const noexcept {
    // [E2] acquire, pairs with [E1] and [E3]: the flow's end is complete, or its start can be seen
    return word_.load(std::memory_order_acquire);
  }

  /// The word of a branch on another loop, which branch_state uses.
  async::detail::atomic<std::uint32_t>& of_branch() noexcept { return word_; }

 private:
  static constexpr std::uint32_t executes = 1;

  async::detail::atomic<std::uint32_t> word_{0};
};

}  // namespace steps::inline v0_1::detail
