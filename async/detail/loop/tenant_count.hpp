// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint32_t

#include "async/detail/base/atomics.hpp"  // for atomic

namespace async::inline v0_1::detail {

/// Counts the flows that are bound to a pool's loop and may use it again after their end. Until the last one has gone,
/// the loop serves no other flow.
///
/// Threads     add(): in a turn of the loop, in which any() is asked, too. remove(), any(): any.
/// Progress    wait-free.
class tenant_count {
 public:
  void add() noexcept { count_.fetch_add(1, std::memory_order_relaxed); }  // relaxed: in the turn in which it is asked
  void remove() noexcept {
    // [L23] release, pairs with [L24]: the tenant's last messages are in the inbox
    count_.fetch_sub(1, std::memory_order_release);
  }
  bool any() const noexcept {
    return count_.load(std::memory_order_acquire) != 0;  // [L24] acquire, pairs with [L23]
  }

 private:
  atomic<std::uint32_t> count_{0};
};

}  // namespace async::inline v0_1::detail
