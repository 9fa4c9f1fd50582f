// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "async/detail/base/atomics.hpp"          // for atomic
#include "async/detail/base/reference_count.hpp"  // for reference_count

namespace steps::inline v0_1::interop::detail {

/// Handshake between a coroutine that waits and the trigger that ends the wait: whether the coroutine still waits, and
/// which side frees the shared operation.
///
/// Threads     abandon(): the thread that would resume the coroutine; the others: any.
class operation_state {
 public:
  /// The coroutine is being destroyed. Relaxed: the count publishes the operation, and the outcome is published by the
  /// message to the thread that resumes, which is this one.
  void abandon() noexcept { abandoned_.store(true, std::memory_order_relaxed); }
  /// False: the coroutine does not wait. Certain on the thread that would resume it, a hint on others.
  bool is_wanted() const noexcept { return !abandoned_.load(std::memory_order_relaxed); }

  /// True: it was the last reference, and the caller frees the operation.
  bool drop() noexcept { return references_.drop(); }

 private:
  async::detail::reference_count references_{3};  // the awaiter's, the beginning function's, and the trigger's
  async::detail::atomic<bool> abandoned_{false};
};

}  // namespace steps::inline v0_1::interop::detail
