// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint32_t

#include "async/detail/base/atomics.hpp"  // for atomic
#include "async/detail/base/backoff.hpp"  // for backoff

namespace async::inline v0_1::detail {

/// Counts threads from outside that hand a task to a pool without a call of their user to the pool: by a promise that
/// has a continuation, or as they resume a coroutine. The task may end, and lead to the end of the pool, before such a
/// thread has left the pool. So the pool's destructor waits for them.
///
/// Threads     any; wait() by the destructor.
/// Progress    wait-free, except wait().
class late_leavers {
 public:
  void come() noexcept {
    count_.fetch_add(1, std::memory_order_relaxed);  // relaxed: the task, and so the destructor, knows of it
  }
  /// The thread's last access to the pool.
  void leave() noexcept {
    // [W27] release, pairs with [W28]: what the thread has done in the pool; not modelled: a count
    count_.fetch_sub(1, std::memory_order_release);
  }
  void wait() const noexcept {
    // [W28] acquire, pairs with [W27]; not modelled: see there
    for (backoff pause; count_.load(std::memory_order_acquire) != 0;) pause.wait();
  }

 private:
  atomic<std::uint32_t> count_{0};
};

}  // namespace async::inline v0_1::detail
