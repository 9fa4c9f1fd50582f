// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint64_t

#include "async/detail/base/atomics.hpp"  // for atomic

namespace async::inline v0_1::detail {

/// State of a group of tasks: how many are not done, whether a thread sleeps until they are, whether the group is
/// cancelled, and the first failure, which it does not own.
///
/// Use it where the threads that join tasks mostly run other tasks instead of sleeping. Unlike a latch it can be
/// reused.
///
/// Threads     all functions by any thread.
/// Progress    wait-free.
/// Lifetime    finish() touches nothing after the change that may release a waiting thread. That thread may destroy the
///             object as soon as is_done() or announce_sleep() has returned true.
template <class Failure>
class join_state {
 public:
  /// Adds a task, before another thread can see it. False: the group is cancelled; the task counts all the same.
  bool add() noexcept { return (state_.fetch_add(one_task, std::memory_order_relaxed) & cancelled) == 0; }

  /// A task is done. True: it was the last one, and the caller must wake a sleeping thread.
  bool finish() noexcept {
    // [T1] release, pairs with [T2], [T3] and [T6]: what the task has done, and its failure
    const std::uint64_t before = state_.fetch_sub(one_task, std::memory_order_release);
    return (before & sleeper) != 0 && before < 2 * one_task;
  }

  bool is_done() const noexcept {
    // [T2] acquire, pairs with [T1]
    return state_.load(std::memory_order_acquire) < one_task;
  }

  /// Call it before a sleep. True: all tasks are done. False: the last finish() will return true.
  bool announce_sleep() noexcept {
    // [T3] acquire, pairs with [T1]: either this sees that the last task is done, or that task sees the sleeper
    return state_.fetch_or(sleeper, std::memory_order_acquire) < one_task;
  }

  void cancel() noexcept { state_.fetch_or(cancelled, std::memory_order_relaxed); }
  bool is_cancelled() const noexcept { return (state_.load(std::memory_order_relaxed) & cancelled) != 0; }

  /// Keeps the first failure since the last take_outcome(). False: there is one already, and the caller keeps this one.
  bool keep(Failure* failure) noexcept {
    Failure* none = nullptr;
    // [T4] release, pairs with [T5]: publishes the failure; an exchange that fails receives nothing
    return failure_.compare_exchange_strong(none, failure, std::memory_order_release, std::memory_order_relaxed);
  }

  /// True when no task is left and there is no failure or cancellation to report.
  bool is_new() const noexcept {
    // [T6] acquire, pairs with [T1]: the failure was kept before its task was done
    return state_.load(std::memory_order_acquire) == 0 && failure_.load(std::memory_order_relaxed) == nullptr;
  }

  struct outcome {
    bool was_cancelled;
    Failure* failure;  // the caller's
  };

  /// The outcome of the tasks, for one caller; resets the state. Requires is_done().
  outcome take_outcome() noexcept {
    const bool was_cancelled = (state_.fetch_and(~(cancelled | sleeper), std::memory_order_relaxed) & cancelled) != 0;
    // [T5] acquire, pairs with [T4]
    return {was_cancelled, failure_.exchange(nullptr, std::memory_order_acquire)};
  }

 private:
  // state_: [ tasks that are not done : 62 | a thread sleeps : 1 | cancelled : 1 ]
  static constexpr std::uint64_t cancelled = 1;
  static constexpr std::uint64_t sleeper = 2;
  static constexpr std::uint64_t one_task = 4;

  atomic<std::uint64_t> state_{0};
  atomic<Failure*> failure_{nullptr};
};

}  // namespace async::inline v0_1::detail
