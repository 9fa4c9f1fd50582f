// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint32_t

#include "async/detail/base/atomics.hpp"  // for atomic, wait_on_word, wake_one, wait_clock
#include "async/detail/base/backoff.hpp"  // for backoff

namespace steps::inline v0_1::detail {

/// Handshake between the thread that destroys or cancels a flow and the one that does that for it: when that has been
/// done, and when the handshake, which lies on the stack of the first, is not used any more.
///
/// Threads     wait_until(): the thread that waits. finish(): the other one, once.
class destroy_handshake {
 public:
  destroy_handshake() = default;
  destroy_handshake(const destroy_handshake&) = delete;
  destroy_handshake& operator=(const destroy_handshake&) = delete;

  /// Waits until `deadline`, or a little less. True: it has been done, and finish() has ended.
  bool wait_until(async::detail::wait_clock::time_point deadline) noexcept {
    async::detail::wait_on_word(state_, active, &deadline);
    if (state_.load(std::memory_order_relaxed) == active) return false;  // relaxed: the loop below acquires
    // [E8] acquire, pairs with [E7]: the other thread is a system call away from its last access
    for (async::detail::backoff pause; state_.load(std::memory_order_acquire) != left;) pause.wait();
    return true;
  }
  /// It has been done.
  void finish() noexcept {
    state_.store(ended, std::memory_order_relaxed);  // relaxed: only wakes; [E7] publishes
    async::detail::wake_one(state_);
    state_.store(left, std::memory_order_release);  // [E7] release, pairs with [E8]: what was done; the last access
  }

 private:
  static constexpr std::uint32_t active = 0, ended = 1, left = 2;

  async::detail::atomic<std::uint32_t> state_{active};
};

}  // namespace steps::inline v0_1::detail
