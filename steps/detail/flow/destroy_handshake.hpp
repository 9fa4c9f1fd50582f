// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint32_t

#include "async/detail/base/atomics.hpp"  // for atomic, wait_on_word, wake_one, wait_clock, yield_thread

namespace steps::inline v0_1::detail {

/// Handshake between the thread that destroys a flow and the one that ends it: when the flow belongs to the destroyer,
/// and when the handshake itself does, which lies on the destroyer's stack.
///
/// Threads     wait_until(), wait_until_left(): the destroyer. finish(): the thread that ends the flow, once.
class destroy_handshake {
 public:
  destroy_handshake() = default;
  destroy_handshake(const destroy_handshake&) = delete;
  destroy_handshake& operator=(const destroy_handshake&) = delete;

  /// Waits until `deadline`, or a little less. True: the flow belongs to the destroyer; wait_until_left() follows.
  bool wait_until(async::detail::wait_clock::time_point deadline) noexcept {
    async::detail::wait_on_word(state_, active, &deadline);
    return state_.load(std::memory_order_acquire) != active;  // [E8] acquire, pairs with [E7]
  }
  /// Waits for the end of finish(), which is a system call away.
  void wait_until_left() const noexcept {
    // [E24] acquire, pairs with [E23]: the other thread does not touch the handshake any more
    while (state_.load(std::memory_order_acquire) != left) async::detail::yield_thread();
  }
  /// The flow has ended and belongs to the destroyer.
  void finish() noexcept {
    // [E7] release, pairs with [E8]: what was done to the flow
    state_.store(ended, std::memory_order_release);
    async::detail::wake_one(state_);
    state_.store(left, std::memory_order_release);  // [E23] release, pairs with [E24]: the last access
  }

 private:
  static constexpr std::uint32_t active = 0, ended = 1, left = 2;

  async::detail::atomic<std::uint32_t> state_{active};
};

}  // namespace steps::inline v0_1::detail
