// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint64_t

#include "async/detail/base/atomics.hpp"  // for atomic

namespace async::inline v0_1::detail {

/// How many tasks of a group are not done, or are done and counted in a thread's task_credit; whether a thread sleeps
/// until they are, and whether the group is cancelled.
///
/// Use it where the threads that join tasks mostly run other tasks instead of sleeping. Unlike a latch it can be
/// reused.
///
/// Word        state_: [ tasks that are not done : 62 | a thread sleeps : 1 | cancelled : 1 ]
/// Threads     all functions by any thread.
/// Progress    wait-free.
/// Lifetime    finish() touches nothing after the change that may release a waiting thread. That thread may destroy the
///             object as soon as is_done() or announce_sleep() has returned true.
class task_count {
 public:
  /// Adds a task, before another thread can see it. False: the group is cancelled; the task counts all the same.
  bool add() noexcept { return (state_.fetch_add(one_task, std::memory_order_relaxed) & cancelled) == 0; }

  /// Tasks are done. True: they were the last ones, and the caller must wake a sleeping thread.
  bool finish(std::uint64_t tasks = 1) noexcept {
    // [T1] release, pairs with [T2], [T3] and [T6]: what the tasks have done, and their failures
    const std::uint64_t before = state_.fetch_sub(tasks * one_task, std::memory_order_release);
    return (before & sleeper) != 0 && before < (tasks + 1) * one_task;
  }

  bool is_done() const noexcept {
    // [T2] acquire, pairs with [T1]
    return state_.load(std::memory_order_acquire) < one_task;
  }

  /// Call it before a sleep. True: all tasks are done. False: the last finish() will return true.
  bool announce_sleep() noexcept {
    const std::uint64_t now = state_.load(std::memory_order_acquire);  // [T2]
    if (now < one_task || (now & sleeper) != 0) return now < one_task;
    // [T3] acquire, pairs with [T1]: either this sees that the last task is done, or that task sees the sleeper
    return state_.fetch_or(sleeper, std::memory_order_acquire) < one_task;
  }

  /// After the scope of the tasks has been cancelled.
  void cancel() noexcept {
    // [T9] release, pairs with [T10]: the scope is cancelled; not modelled: the model orders such changes by time
    state_.fetch_or(cancelled, std::memory_order_release);
  }
  bool is_cancelled() const noexcept { return (state_.load(std::memory_order_relaxed) & cancelled) != 0; }

 protected:
  task_count() = default;
  ~task_count() = default;

  /// No task is left, and the group is not cancelled.
  bool is_clear() const noexcept {
    return state_.load(std::memory_order_acquire) == 0;  // [T6] acquire, pairs with [T1]: a failure was kept before
  }
  /// Takes the cancellation back; true: there was one, and that of the scope can be taken back, too. For the next
  /// tasks.
  bool clear() noexcept {
    // [T10] acquire, pairs with [T9]
    return (state_.fetch_and(~(cancelled | sleeper), std::memory_order_acquire) & cancelled) != 0;
  }

 private:
  static constexpr std::uint64_t cancelled = 1;
  static constexpr std::uint64_t sleeper = 2;
  static constexpr std::uint64_t one_task = 4;

  atomic<std::uint64_t> state_{0};
};

}  // namespace async::inline v0_1::detail
