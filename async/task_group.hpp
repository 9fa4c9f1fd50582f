// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <array>        // for array
#include <concepts>     // for integral, invocable, same_as
#include <cstddef>      // for size_t
#include <cstdio>       // for fputs
#include <exception>    // for exception_ptr, terminate
#include <memory>       // for destroy_at
#include <new>          // for placement new, bad_alloc
#include <optional>     // for optional
#include <type_traits>  // for conditional_t, decay_t, remove_cvref_t
#include <utility>      // for forward, index_sequence, move, exchange

#include "async/detail/base/block_cache.hpp"       // for allocate_block, free_block
#include "async/detail/base/invoke.hpp"            // for invoke_and_drop
#include "async/detail/base/min_max.hpp"           // for max_of
#include "async/detail/base/naps.hpp"              // for wait_without_memory
#include "async/detail/base/own_exceptions.hpp"    // for own_exceptions
#include "async/detail/base/resumptions.hpp"       // for resumptions_apart
#include "async/detail/fork/join_state.hpp"        // for join_state
#include "async/detail/future/broken_promise.hpp"  // for broken_promise
#include "async/detail/future/ready_actions.hpp"   // for ready_actions
#include "async/detail/pool/credit_turn.hpp"       // for credit_turn, settle_credit
#include "async/detail/pool/job.hpp"               // for job
#include "async/detail/pool/left_in_wait.hpp"      // for left_in_wait
#include "async/detail/pool/participant.hpp"       // for participant, job_deque
#include "async/detail/pool/pool_core.hpp"         // for pool_core
#include "async/detail/pool/pool_worker.hpp"       // for end_if_returned
#include "async/detail/pool/wait_in_turn.hpp"      // for wait_in_turn
#include "async/detail/scope/scope_cache.hpp"      // for task_scope, begin_scope, end_scope, current_scope, scope_guard
#include "async/detail/wait/pool_functions.hpp"    // for wait_until
#include "async/detail/wait/visit.hpp"             // for visit, working_visit
#include "async/parallel_for.hpp"                  // for parallel_for
#include "async/parallel_reduce.hpp"               // for parallel_reduce
#include "async/task.hpp"                          // for task, task_function
#include "async/threadpool.hpp"                    // for threadpool

namespace async::inline v0_1 {

/// Tag for a task_group that does not belong to the enclosing group.
struct independent_t {
  explicit independent_t() = default;
};
/// The tag object.
inline constexpr independent_t independent{};

namespace detail {
/// A callable that a task of a group can be made from; also a task that is given away.
template <class F>
concept group_function = task_function<F> || std::same_as<F, task>;
}  // namespace detail

/// Whether the current task belongs to a cancelled group, directly or by way of enclosing groups. Long tasks, and
/// functions that they call, poll it. False outside of groups, loops and parallel_invoke.
inline bool current_group_is_cancelling() noexcept {
  detail::task_scope* const current = detail::current_scope();
  return current != nullptr && current->is_cancelled();
}

/// Fork and join of any number of tasks on a threadpool.
///
/// Use it to split work that belongs to one scope. Do not use it for work that outlives the scope
/// (threadpool::execute), for one result (threadpool::post), for two or three calls (parallel_invoke) or for loops
/// (parallel_for, parallel_reduce).
///
/// Threads      run(), cancel(), is_cancelling() and wait() by any thread, including the group's own tasks; but a task
///              that waits for its own group, or for one around it, deadlocks. A wait() returns when the tasks run
///              before it, and the tasks that these have run, are done.
/// Waiting      wait() runs tasks of this group and of groups made inside them, and no others: the newest of its own
///              thread first, then tasks of other threads. It sleeps when there are none. So groups nest to any depth
///              on any number of threads, inside the pool and outside. The stack grows with the depth of the tree,
///              never with the number of tasks. A lock or a thread_local held over a wait() meets only tasks of this
///              group, and callbacks of event loops: a worker also runs turns of the pool's loops and flows meanwhile,
///              unless it is in such a turn. In a step or another callback of an event loop, which stands still during
///              wait() and run_and_wait(), the tasks may wait for futures.
/// Nesting      a group made in a task of another group belongs to that group: cancel() and exceptions go down the
///              tree. A group made with async::independent belongs to none.
/// Exceptions   the first exception of a task cancels the group, and wait() throws it. Exceptions of tasks that were
///              running at that time are dropped.
/// Memory       a task with up to 48 bytes of captures takes one recycled block of 64 bytes; no operator new in the
///              steady state.
/// Lifetime     the pool outlives the group. The destructor waits, see there.
/// Example      test/example/fork_join.cpp
class task_group {
 public:
  /// An empty group for tasks on `pool`. Throws std::bad_alloc.
  explicit task_group(threadpool& pool = threadpool::shared()) : task_group(pool, detail::current_scope()) {}
  /// The same, independent of the enclosing group: not cancelled with it, and not helped by threads that wait for it.
  task_group(threadpool& pool, independent_t) : task_group(pool, nullptr) {}
  /// The same on the shared pool.
  explicit task_group(independent_t) : task_group(threadpool::shared(), nullptr) {}
  task_group(const task_group&) = delete;
  task_group& operator=(const task_group&) = delete;

  /// Waits for every task, as wait() does. An exception that no wait() has thrown goes to the pool's on_unhandled. When
  /// an exception leaves the scope, tasks that have not started are skipped, and exceptions of tasks are dropped. A
  /// task that calls pthread_exit() on the thread that waits here ends the program.
  ~task_group() {
    if (!state_.is_new() && !pool_->is_left_behind()) abandon();
    detail::end_scope(scope_);
  }

  /// Makes `f` a task of this group; a thread of the pool, or a wait(), calls it once. Never waits;
  /// threadpool_options::max_queue does not apply. Throws what copying `f` throws, std::bad_alloc, and, outside of the
  /// pool's tasks, async::stopped after the pool has been stopped. The task does not exist then.
  template <detail::group_function F>
  void run(F&& f) {
    using job = group_job<std::decay_t<F>>;
    if (detail::participant* const part = pool_->own_part(); part != nullptr && part->as_worker != nullptr) [[likely]] {
      fork(*part, job::make(*this, std::forward<F>(f)), &job::discard);
    } else {
      run_outside(job::make(*this, std::forward<F>(f)), &job::discard);
    }
  }

  /// Calls `f` as a task of this group on the calling thread, then waits like wait(). Throws std::bad_alloc, without a
  /// call or a wait.
  template <detail::group_function F>
  bool run_and_wait(F&& f) {
    const detail::working_visit here(*pool_);
    state_.add();
    call_here(std::forward<F>(f));
    return wait();
  }

  /// Runs tasks of the group until all are done. Returns true if all have run; false if cancel() was called, and tasks
  /// that had not started may have been skipped. Throws the first exception of a task. The group is as new afterwards.
  /// When several threads wait at the same time, one of them gets the exception or the false.
  bool wait() {
    if (!state_.is_done()) help();
    return state_.is_new() || collect();
  }

  /// Skips tasks that have not started, including those of groups, loops and parallel_invokes made inside this group's
  /// tasks: they are destroyed without being called. Lasts until wait() returns. A call that is made while another
  /// thread's wait() returns may count for that one, for the next one, or for both.
  void cancel() noexcept {
    scope_.cancel();  // first: a wait() that sees the state clears the scope, too
    state_.cancel();
  }

  /// True from cancel(), or from the first exception of a task, until wait() returns; also while an enclosing group is
  /// cancelled. For long tasks to poll.
  bool is_cancelling() const noexcept { return scope_.is_cancelled(); }

  /// The pool of its tasks.
  threadpool& pool() const noexcept { return pool_->facade(); }
  /// For the library: the scope of its tasks, for loops that belong to the group.
  detail::task_scope& scope() const noexcept { return scope_; }

 private:
  task_group(threadpool& pool, detail::task_scope* around) : pool_(&pool.core()), scope_(detail::begin_scope(around)) {}

  /// The exception of a task, stored in the task's block.
  struct failure {
    std::exception_ptr error;
    std::size_t bytes;
    std::size_t alignment;
  };

  template <class F>
  struct group_job : detail::job {
    group_job(task_group& g, auto&& from) : detail::job{&execute}, group(&g), f(std::forward<decltype(from)>(from)) {}

    static constexpr std::size_t size() noexcept { return detail::max_of(sizeof(group_job), sizeof(failure)); }
    static constexpr std::size_t alignment() noexcept { return detail::max_of(alignof(group_job), alignof(failure)); }

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
    static void execute(detail::job* base) {
      auto* const self = static_cast<group_job*>(base);
      task_group& owner = *self->group;
      if (owner.scope_.is_cancelled_or([&owner]() noexcept { return owner.pool_->discards(); })) [[unlikely]] {
        owner.skip_all();
        discard(self);
        return owner.finish();
      }
      try {
        if constexpr (std::invocable<F&>) {
          detail::invoke_and_drop(self->f);
        } else {
          detail::invoke_and_drop(std::move(self->f));
        }
        detail::end_if_returned();
        discard(self);
      } catch (...) {
        detail::end_if_returned();
        std::exception_ptr error = std::current_exception();
        const bool ends_thread = error == nullptr;  // pthread_exit()
        std::destroy_at(self);
        auto* const thrown = ::new (static_cast<void*>(self))
            failure{ends_thread ? detail::broken_promise() : std::move(error), size(), alignment()};
        if (!owner.state_.keep(thrown)) free_failure(thrown);
        owner.cancel();
        owner.finish();
        if (ends_thread) throw;
        return;
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

  /// A task has ended on this thread. Touches nothing of the group after the last task: the waiting thread may destroy
  /// the group at once. The pool wakes that thread when it notes the end of the task, or settles the thread's credit.
  void finish() noexcept {
    detail::participant* const part = pool_->own_part();
    if (part == nullptr || !part->credit.is_open) {
      static_cast<void>(state_.finish());
    } else {
      if (!part->credit.is_for(state_)) detail::settle_credit(*part);
      part->credit.put(state_, &scope_);
    }
  }
  /// Counts a task that this thread forks.
  void add(detail::participant& part) noexcept {
    if (part.credit.is_for(state_)) {
      part.credit.take();
    } else {
      state_.add();
    }
  }

  /// A task of the group is not called: wait() tells, also when the cause is the group around, or the end of the pool.
  [[gnu::noinline]] void skip_all() noexcept {
    if (pool_->discards() && !scope_.is_cancelled()) scope_.cancel();
    state_.cancel();
    pool_->note_skipped();
  }

  void fork(detail::participant& part, detail::job* made, void (*destroy)(detail::job*) noexcept) {
    add(part);
    try {
      pool_->fork(part, made, &scope_);
    } catch (...) {
      destroy(made);
      give_up();
      throw;
    }
  }
  /// run() on a thread outside the pool.
  [[gnu::noinline]] void run_outside(detail::job* made, void (*destroy)(detail::job*) noexcept) {
    struct holder {
      detail::job* kept;
      void (*destroy)(detail::job*) noexcept;
      ~holder() {
        if (kept != nullptr) destroy(kept);
      }
    } unused{made, destroy};
    if (pool_->accepts()) {
      const detail::visit here(*pool_);
      fork(here.part(), std::exchange(unused.kept, nullptr), destroy);
    } else {
      state_.add();
      const detail::scope_guard inside(&scope_);
      const detail::wait_in_turn allowed;
      const detail::resumptions_apart from_those_around;
      detail::pool_core& pool = *pool_;
      detail::job* const now = std::exchange(unused.kept, nullptr);
      now->run(now);
      pool.notify_waiters();
    }
  }

  template <class F>
  void call_here(F&& f) {
    struct end {
      task_group& group;
      ~end() { group.give_up(); }
    } const at_end{*this};
    if (is_cancelling()) return state_.cancel();
    struct memory {  // for an exception
      void* block = detail::allocate_block(sizeof(failure), alignof(failure));
      ~memory() {
        if (block != nullptr) detail::free_block(block, sizeof(failure), alignof(failure));
      }
    } room;
    const detail::scope_guard inside(&scope_);
    const detail::wait_in_turn allowed;
    const detail::resumptions_apart from_those_around;
    try {
      detail::invoke_and_drop(std::forward<F>(f));
    } catch (...) {
      std::exception_ptr error = std::current_exception();
      if (error == nullptr) {
        cancel();
        throw;
      }
      keep(std::exchange(room.block, nullptr), std::move(error));
    }
  }
  void keep(void* block, std::exception_ptr error) noexcept {
    auto* const thrown = ::new (block) failure{std::move(error), sizeof(failure), alignof(failure)};
    if (!state_.keep(thrown)) free_failure(thrown);
    cancel();
  }

  /// Ends a task that was not given to the pool.
  void give_up() noexcept {
    detail::pool_core& pool = *pool_;
    if (state_.finish()) pool.notify_waiters();
  }

  /// Runs the newest tasks of this thread's deque first, as long as they belong to the group.
  void help() {
    std::optional<detail::working_visit> here;
    if (!enters(here)) detail::wait_without_memory([&] { return state_.is_done() || enters(here); });
    if (!here.has_value()) return;
    const detail::own_exceptions others;
    const detail::wait_in_turn allowed;
    detail::participant& part = here->part();
    if (!detail::ready_actions::apart::is_needed()) [[likely]] {  // else wait_until() runs them, apart
      const detail::credit_turn turn(part);
      detail::left_in_wait left(part);
      while (part.own.is_newest_of(&scope_) && detail::has_stack_room()) {
        const detail::job_deque::element next = part.own.pop();
        if (!next) break;
        left.begin_task();
        pool_->run_job(&part, next);
        if (part.as_worker != nullptr && pool_->is_time_for_loops(*part.as_worker)) break;  // wait_until() runs them
      }
    }
    if (state_.is_done()) return;
    pool_->wait_until(part, detail::wait_scope(scope_), [this] { return state_.announce_sleep(); });
  }

  /// False: no memory for this thread's place in the pool.
  bool enters(std::optional<detail::working_visit>& here) {
    try {
      here.emplace(*pool_);
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }

  bool collect() {
    const auto [was_cancelled, kept] = state_.take_outcome();
    if (was_cancelled) scope_.clear();
    if (kept == nullptr) return !was_cancelled;
    const std::exception_ptr error = std::move(kept->error);
    free_failure(kept);
    std::rethrow_exception(error);
  }

  void abandon() noexcept {
    const bool is_left_by_exception = detail::own_exceptions::count() > exceptions_before_;
    if (is_left_by_exception) cancel();
    try {
      wait();
    } catch (...) {
      std::exception_ptr error = std::current_exception();
      if (error == nullptr) {  // pthread_exit(), which cannot leave a destructor
        std::fputs("async::task_group: pthread_exit() in a task that a destructor has run\n", stderr);
        std::terminate();
      }
      if (!is_left_by_exception) pool_->unhandled(std::move(error));
    }
  }

  detail::pool_core* const pool_;
  const int exceptions_before_ = detail::own_exceptions::count();
  detail::task_scope& scope_;
  detail::join_state<failure> state_;
};

namespace detail {
/// Whether the argument of a loop at `Index` is its grain: the integer behind the last function, which at most a token
/// follows.
template <std::size_t Index, class... A>
consteval bool is_grain() {
  constexpr std::array<bool, sizeof...(A)> is_integer{std::integral<std::remove_cvref_t<A>>...};
  return is_integer[Index] && Index >= 2 && !is_integer[Index - 1] && Index + 2 >= sizeof...(A);
}
/// Calls loop(arguments...), with a grain of any integer type as std::size_t.
template <class Loop, class... A>
auto with_grain(Loop loop, A&&... arguments) {
  return [&]<std::size_t... Index>(std::index_sequence<Index...>) {
    return loop(static_cast<std::conditional_t<is_grain<Index, A...>(), std::size_t, A&&>>(arguments)...);
  }(std::index_sequence_for<A...>());
}
}  // namespace detail

/// parallel_reduce() as a part of the group: ends early when the group is cancelled, with a part of the value.
template <class... A>
auto parallel_reduce(task_group& group, A&&... arguments) {
  const detail::scope_guard inside(&group.scope());
  return detail::with_grain(
      [&group]<class... B>(B&&... rest) { return parallel_reduce(group.pool(), std::forward<B>(rest)...); },
      std::forward<A>(arguments)...);
}

/// parallel_for() as a part of the group: ends early when the group is cancelled. Throws what `f` throws; the group's
/// wait() does not.
template <class... A>
bool parallel_for(task_group& group, A&&... arguments) {
  const detail::scope_guard inside(&group.scope());
  return detail::with_grain(
      [&group]<class... B>(B&&... rest) { return parallel_for(group.pool(), std::forward<B>(rest)...); },
      std::forward<A>(arguments)...);
}

}  // namespace async::inline v0_1
