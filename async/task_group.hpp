// SPDX-License-Identifier: BSL-1.0
// floor: 16
#pragma once
#include <algorithm>    // for max
#include <concepts>     // for invocable
#include <cstddef>      // for size_t
#include <exception>    // for exception_ptr, uncaught_exceptions
#include <functional>   // for invoke
#include <memory>       // for construct_at, destroy_at
#include <new>          // for operator new
#include <type_traits>  // for decay_t
#include <utility>      // for forward, move, exchange

#include "async/detail/block_cache.hpp"  // for allocate_block, free_block
#include "async/detail/join_state.hpp"   // for join_state
#include "async/detail/pool_core.hpp"    // for pool_core
#include "async/detail/pool_help.hpp"    // for help_until
#include "async/detail/pool_worker.hpp"  // for job, worker
#include "async/parallel_for.hpp"        // for users of this header
#include "async/task.hpp"                // for task_function
#include "async/threadpool.hpp"          // for threadpool

namespace async {

/// Tasks that are waited for together: fork and join on a threadpool.
///
/// Use it to split work that belongs to one scope. Do not use it for work that outlives the scope
/// (threadpool::execute), for one result (threadpool::post), or for loops (parallel_for).
///
/// Threads     run(), cancel(), is_cancelling() and wait() by any thread, also by the group's own tasks, but a task
///             cannot wait for its own group. A wait() returns when the tasks that were run before it, and those that
///             they have run, are done.
/// Waiting     wait() runs tasks until the group is done, first the newest of its own thread, then any of the pool, and
///             sleeps when there are none. So groups nest to any depth on any number of threads, and a thread outside
///             the pool helps as well.
/// Exceptions  The first exception of a task cancels the group and is thrown by wait(); those of tasks that were
///             running at that time are dropped.
/// Memory      a task with up to 48 bytes of captures takes one recycled block of 64 bytes; no operator new in the
///             steady state.
/// Lifetime    the pool outlives the group. The destructor waits, see there.
class task_group {
 public:
  /// A group without tasks, whose tasks will run on `pool`.
  explicit task_group(threadpool& pool) noexcept : pool_(&pool.core()) {}
  task_group(const task_group&) = delete;
  task_group& operator=(const task_group&) = delete;

  /// Waits for every task, as wait() does. An exception that nobody waited for goes to the pool's on_unhandled. When
  /// the scope is left by an exception, tasks that have not started are skipped, and what tasks throw is dropped.
  ~task_group() {
    if (!state_.is_new()) abandon();
  }

  /// Makes `f` a task of this group, to be called once by some thread of the pool or in a wait(). Throws what copying
  /// `f` throws and std::bad_alloc; then there is no such task.
  template <task_function F>
  void run(F&& f) {
    using job = group_job<std::decay_t<F>>;
    detail::job* const made = job::make(*this, std::forward<F>(f));
    state_.add();
    try {
      pool_->submit_job(made);
    } catch (...) {
      job::discard(made);
      finish();
      throw;
    }
  }

  /// Returns when all tasks are done; runs tasks meanwhile. True: all have run. False: cancel() was called, and tasks
  /// that had not started may have been skipped. Throws the first exception that a task has thrown. After it the group
  /// is as new. When several threads wait at the same time, one of them gets the exception or the false.
  bool wait() {
    if (!state_.is_done()) help();
    return state_.is_new() || collect();
  }

  /// Skips the tasks that have not started: they are destroyed without being called. Lasts until wait() returns.
  void cancel() noexcept { state_.cancel(); }

  /// True from cancel(), or from the first exception of a task, until wait() returns. For long tasks to ask.
  bool is_cancelling() const noexcept { return state_.is_cancelled(); }

 private:
  /// The exception of a task, in the block that the task was in.
  struct failure {
    std::exception_ptr error;
    std::size_t bytes;
    std::size_t alignment;
  };

  template <class F>
  struct group_job : detail::job {
    group_job(task_group& g, auto&& from) : detail::job{&execute}, group(&g), f(std::forward<decltype(from)>(from)) {}

    static constexpr std::size_t size() noexcept { return (std::max)(sizeof(group_job), sizeof(failure)); }
    static constexpr std::size_t alignment() noexcept { return (std::max)(alignof(group_job), alignof(failure)); }

    static detail::job* make(task_group& g, auto&& from) {
      void* const block = detail::allocate_block(size(), alignment());
      try {
        return ::new (block) group_job(g, std::forward<decltype(from)>(from));
      } catch (...) {
        detail::free_block(block, size(), alignment());
        throw;
      }
    }
    static void discard(detail::job* base) noexcept {
      auto* const self = static_cast<group_job*>(base);
      std::destroy_at(self);
      detail::free_block(self, size(), alignment());
    }
    static void execute(detail::job* base) noexcept {
      auto* const self = static_cast<group_job*>(base);
      task_group& owner = *self->group;
      if (owner.is_cancelling()) {
        discard(self);
      } else {
        try {
          if constexpr (std::invocable<F&>) {
            static_cast<void>(std::invoke(self->f));
          } else {
            static_cast<void>(std::invoke(std::move(self->f)));
          }
          discard(self);
        } catch (...) {
          std::destroy_at(self);
          auto* const thrown = ::new (static_cast<void*>(self)) failure{std::current_exception(), size(), alignment()};
          if (!owner.state_.keep(thrown)) free_failure(thrown);
          owner.cancel();
        }
      }
      owner.finish();
    }

    task_group* group;
    F f;
  };

  static void free_failure(failure* kept) noexcept {
    const std::size_t bytes = kept->bytes;
    const std::size_t alignment = kept->alignment;
    std::destroy_at(kept);
    detail::free_block(kept, bytes, alignment);
  }

  /// Nothing of the group is touched after finish(): the thread that waits may destroy it at once.
  void finish() noexcept {
    detail::pool_core& pool = *pool_;
    if (state_.finish()) pool.notify_waiters();
  }

  /// First what this thread has pushed last, which is mostly what it waits for; then whatever the pool has.
  void help() {
    if (detail::worker* const self = pool_->own_worker()) {
      while (detail::job* const next = self->own.pop()) {
        pool_->run_job(self, next);
        if (state_.is_done()) return;
      }
    }
    pool_->help_until([this] { return state_.announce_sleep(); });
  }

  bool collect() {
    const auto [was_cancelled, kept] = state_.take_outcome();
    if (kept == nullptr) return !was_cancelled;
    const std::exception_ptr error = std::move(kept->error);
    free_failure(kept);
    std::rethrow_exception(error);
  }

  void abandon() noexcept {
    const int exceptions = std::uncaught_exceptions();
    const int outside = std::exchange(exceptions_outside, exceptions);
    const bool is_left_by_exception = exceptions > (std::max)(outside, exceptions_before_);
    if (is_left_by_exception) cancel();
    try {
      wait();
    } catch (...) {
      if (!is_left_by_exception) pool_->unhandled(std::current_exception());
    }
    exceptions_outside = outside;
  }

  /// Exceptions on their way on this thread that tasks which are run meanwhile have nothing to do with.
  static inline constinit thread_local int exceptions_outside = 0;

  detail::pool_core* const pool_;
  const int exceptions_before_ =
      std::uncaught_exceptions();  // of a destructor, say, that waits for a task with a group
  detail::join_state<failure> state_;
};

}  // namespace async
