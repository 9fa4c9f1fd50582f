// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint32_t

#include "async/detail/base/atomics.hpp"  // for atomic

namespace steps::detail {

/// Whether a flow executes: shown by who starts it, hidden by its loop at its end, from when on it is its owner's.
///
/// Threads     set(): the flow's owner; clear(): who has the flow while it executes; test(): any.
class executing_flag {
 public:
  /// The flow executes from here on.
  void set() noexcept {
    word_.store(1, std::memory_order_release);  // [E3] release, pairs with [E2]: what is to be executed, and where
  }
  /// Before another thread can see the flow, or published by what makes it visible.
  void set_unseen() noexcept { word_.store(1, std::memory_order_relaxed); }

  /// The flow is idle.
  void clear() noexcept {
    // [E1] release, pairs with [E2]: the thread that sees the end may use or destroy the flow
    word_.store(0, std::memory_order_release);
  }
  /// It has not begun to execute, and is its owner's again.
  void clear_unseen() noexcept { word_.store(0, std::memory_order_relaxed); }

  /// For the thread that has the flow.
  bool is_set() const noexcept { return word_.load(std::memory_order_relaxed) != 0; }
  /// For any other.
  bool test() const noexcept {
    // [E2] acquire, pairs with [E1] and [E3]: the flow's end is complete, or its start can be seen
    return word_.load(std::memory_order_acquire) != 0;
  }

  /// A branch on another loop is more than on or off: see branch_state.
  async::detail::atomic<std::uint32_t>& of_branch() noexcept { return word_; }

 private:
  async::detail::atomic<std::uint32_t> word_{0};
};

}  // namespace steps::detail
