// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "async/detail/base/atomics.hpp"          // for atomic
#include "async/detail/base/reference_count.hpp"  // for reference_count

namespace steps::interop::detail {

/// On what a coroutine that waits and the trigger that ends the wait agree: whether anybody waits, and who frees what
/// they share.
///
/// Threads     abandon(): where the coroutine is resumed; the others: any.
class operation_state {
 public:
  /// The coroutine is being destroyed. Relaxed: what they share is published by the count, the outcome by the message
  /// to the thread that resumes, which is this one.
  void abandon() noexcept { abandoned_.store(true, std::memory_order_relaxed); }
  /// False: nobody waits. For certain where the coroutine is resumed, else a hint.
  bool is_wanted() const noexcept { return !abandoned_.load(std::memory_order_relaxed); }

  /// True: it was the last reference, and the caller frees what they share.
  bool drop() noexcept { return references_.drop(); }

 private:
  async::detail::reference_count references_{3};  // the awaiter's, the beginning function's, and the trigger's
  async::detail::atomic<bool> abandoned_{false};
};

}  // namespace steps::interop::detail
