// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint32_t

#include "async/detail/base/atomics.hpp"          // for atomic, wait_on_word, wake_one, wait_clock
#include "async/detail/base/reference_count.hpp"  // for reference_count

namespace steps::inline v0_1::detail {

/// Handshake between the thread that destroys a flow and the one that ends it: when the flow belongs to the destroyer,
/// and which of them frees the handshake. The ending thread may still use it when the destroyer has gone.
///
/// Threads     wait_until(): the destroyer. finish(): the thread that ends the flow, once. drop(): both, once each.
class destroy_handshake {
 public:
  /// Waits until `deadline`, or a little less. True: the flow belongs to the destroyer.
  bool wait_until(async::detail::wait_clock::time_point deadline) noexcept {
    async::detail::wait_on_word(done_, 0, &deadline);
    return done_.load(std::memory_order_acquire) != 0;  // [E8] acquire, pairs with [E7]
  }
  /// The flow has ended and belongs to the destroyer. drop() follows.
  void finish() noexcept {
    // [E7] release, pairs with [E8]: what was done to the flow
    done_.store(1, std::memory_order_release);
    async::detail::wake_one(done_);
  }
  /// The caller no longer uses the handshake. True: it was the second to say so, and frees it.
  bool drop() noexcept { return references_.drop(); }

 private:
  async::detail::atomic<std::uint32_t> done_{0};
  async::detail::reference_count references_{2};
};

}  // namespace steps::inline v0_1::detail
