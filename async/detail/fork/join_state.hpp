// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "async/detail/base/atomics.hpp"      // for atomic
#include "async/detail/scope/task_count.hpp"  // for task_count

namespace async::inline v0_1::detail {

/// State of a group of tasks: their count, and the first failure, which it does not own.
///
/// Threads     all functions by any thread.
/// Progress    wait-free.
/// Lifetime    as of task_count.
template <class Failure>
class join_state : public task_count {
 public:
  /// Keeps the first failure since the last take_outcome(). False: there is one already, and the caller keeps this one.
  bool keep(Failure* failure) noexcept {
    Failure* none = nullptr;
    // [T4] release, pairs with [T5]: publishes the failure; an exchange that fails receives nothing
    return failure_.compare_exchange_strong(none, failure, std::memory_order_release, std::memory_order_relaxed);
  }

  /// True when no task is left and there is no failure or cancellation to report.
  bool is_new() const noexcept {
    return is_clear() && failure_.load(std::memory_order_relaxed) == nullptr;  // relaxed: ordered by [T6]
  }

  struct outcome {
    bool was_cancelled;
    Failure* failure;  // the caller's
  };

  /// The outcome of the tasks, for one caller; resets the state. Requires is_done().
  outcome take_outcome() noexcept {
    const bool was_cancelled = clear();
    // [T5] acquire, pairs with [T4]
    return {was_cancelled, failure_.exchange(nullptr, std::memory_order_acquire)};
  }

 private:
  atomic<Failure*> failure_{nullptr};
};

}  // namespace async::inline v0_1::detail
