// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <concepts>     // for constructible_from, invocable
#include <cstddef>      // for size_t
#include <cstdio>       // for fputs
#include <exception>    // for terminate
#include <functional>   // for invoke
#include <future>       // for future
#include <iterator>     // for input_iterator, iter_reference_t
#include <tuple>        // for tuple, apply
#include <type_traits>  // for invoke_result_t, decay_t
#include <utility>      // for forward, move

#include "async/detail/base/block_cache.hpp"     // for trim_blocks
#include "async/detail/call/call_state.hpp"      // for call_in_pool, wait_for_call
#include "async/detail/future/future_watch.hpp"  // for is_ready
#include "async/detail/future/pending_call.hpp"  // for call_result
#include "async/detail/pool/pool_core.hpp"       // for pool_core
#include "async/detail/pool/worker_role.hpp"     // for pool_core's constructor
#include "async/detail/wait/pool_wait.hpp"       // for wait_until
#include "async/detail/wait/visit.hpp"           // for visit
#include "async/task.hpp"                        // for task
#include "async/threadpool_options.hpp"          // for threadpool_options, threadpool_stats

namespace async {

/// What a pool and async::async can call: copies of `f` and `args` are made as by std::async, and the copy of `f` can
/// be invoked, as an rvalue, with the copies of `args` as rvalues.
template <class F, class... Args>
concept async_callable =
    std::constructible_from<std::decay_t<F>, F> && (std::constructible_from<std::decay_t<Args>, Args> && ...) &&
    std::invocable<std::decay_t<F>, std::decay_t<Args>...>;

namespace detail {

/// The result of the call. It has one, if only for the compiler's message, when there can be no such call.
template <class F, class... Args>
struct async_result {
  using type = void;
};
template <class F, class... Args>
  requires async_callable<F, Args...>
struct async_result<F, Args...> {
  using type = call_result<F, Args...>;
};
template <class F, class... Args>
using async_future = std::future<typename async_result<F, Args...>::type>;

}  // namespace detail

/// Threads that run tasks, in a number that can be changed at any time.
///
/// Use it for many short tasks and for a fixed degree of parallelism. Do not use it for tasks that block for long on
/// something that another task of the same pool must do (unless they wait with wait()), nor for one long-lived loop
/// (std::thread).
///
/// Order       tasks from outside start in the order of their posts. Tasks posted from inside go to the worker's own
///             deque: newest first for the worker, oldest first for thieves.
/// Threads     every member from any thread, also from the pool's own tasks where not said otherwise; construction and
///             destruction by one.
/// Progress    posting is lock-free apart from the memory allocator and never waits, except for a full bounded queue.
///             It makes a system call only when a sleeping worker must be woken.
/// Exceptions  an exception that leaves a task goes to its future; of a task without one, to on_unhandled.
/// Memory      in the steady state neither execute nor post calls operator new: captures of up to 48 bytes and the
///             states of futures come from recycled blocks.
/// Waiting     a task that waits, with wait(), a task_group, a loop or a future of async::async, runs only tasks that
///             it waits for and what these have made. Locks and thread_local objects that it holds meanwhile are safe
///             from all others. When no worker is free because they wait, stand-ins run what is queued: threads with
///             the hooks and the index of the worker that they stand for.
/// Flows       each worker drives an event loop, see loop(). Flows of steps/ are started by the worker that takes them,
///             and stay on its loop.
/// Shutdown    stop() and the destructor run every accepted task, join every thread, and cancel the flows that wait.
/// Example     test/example/pool.cpp
class threadpool {
 public:
  using stats_t = threadpool_stats;  ///< what stats() returns

  /// Starts `threads` workers; 0: paused. If one cannot start, those that did are ended again and std::system_error is
  /// thrown; more than 65535: std::length_error.
  explicit threadpool(std::size_t threads = usable_concurrency()) : threadpool(options_for(threads)) {}
  /// The same with everything that can be set.
  explicit threadpool(threadpool_options options) : core_(std::move(options), *this) { core_.start(); }
  threadpool(const threadpool&) = delete;
  threadpool& operator=(const threadpool&) = delete;

  /// stop(). Inside one of the pool's own tasks it could never end: a message and std::terminate.
  ~threadpool() {
    if (core_.is_inside()) {
      std::fputs("async::threadpool: destroyed inside one of its own tasks\n", stderr);
      std::terminate();
    }
    core_.stop();
  }

  /// Runs f(arguments...) on a worker, with copies of both as std::async makes them, and returns the future of its
  /// result, whose destructor does not wait. What f captured is destroyed before the future is ready. Throws stopped,
  /// queue_full (see threadpool_options), std::bad_alloc and what copying throws; nothing is posted then.
  template <class F, class... A>
    requires async_callable<F, A...>
  detail::async_future<F, A...> post(F&& f, A&&... arguments) {
    using result = detail::call_result<F, A...>;
    return detail::call_in_pool<false, result>(core_, std::forward<F>(f), std::forward<A>(arguments)...);
  }

  /// The same without a result: an exception that leaves f goes to on_unhandled. The cheapest way in.
  template <class F, class... A>
    requires async_callable<F, A...>
  void execute(F&& f, A&&... arguments) {
    if constexpr (sizeof...(A) == 0 && std::constructible_from<task, F>) {
      core_.submit(std::forward<F>(f));
    } else {
      core_.submit([f = std::decay_t<F>(std::forward<F>(f)),
                    held = std::tuple<std::decay_t<A>...>(std::forward<A>(arguments)...)]() mutable {
        std::apply([&f](auto&... a) { static_cast<void>(std::invoke(std::move(f), std::move(a)...)); }, held);
      });
    }
  }

  /// execute(*first), execute(*++first), …, `count` times. If it throws, those before have been posted.
  template <std::input_iterator It>
    requires async_callable<std::iter_reference_t<It>>
  void bulk_execute(It first, std::size_t count) {
    if (count == 0) return;
    for (execute(*first); --count != 0;) execute(*++first);
  }

  /// Sets the number of workers and returns without waiting for running tasks: surplus workers end after their current
  /// task, what they have queued is run by the others. 0 pauses the pool: what is posted from here on waits, but for a
  /// task that a worker is just taking. If a thread cannot start, std::system_error is thrown, those that did start
  /// stay and size() tells how many. Concurrent calls follow each other. Throws stopped.
  void configurepool(std::size_t threads) { core_.configure(threads); }

  /// How many workers are wanted.
  std::size_t size() const noexcept { return core_.size(); }
  /// How many workers are asleep at this moment for want of tasks.
  std::size_t idlesize() const noexcept { return core_.idle(); }

  /// The event loop of worker number `i`: for callbacks and flows that are to run one at a time, on a thread of this
  /// pool. It is driven by the worker's thread, between tasks, in turns that leave both their share. When the pool
  /// shrinks another worker goes on with it, with all that it holds; when the pool is paused it rests. So the reference
  /// stays good until the pool's end. run() and iterate() throw std::logic_error. Throws std::out_of_range unless
  /// i < size().
  event_loop& loop(std::size_t i) { return core_.loop(i); }

  /// Waits until no accepted task is queued or running. Flows and callbacks that wait do not count. Inside a task of
  /// the pool: throws std::system_error (resource_deadlock_would_occur).
  void wait_idle() { core_.wait_idle(); }

  /// The future's result. Inside a task of the pool it makes the call that it waits for, if that is one of post() or
  /// async::async on this pool which no thread has taken yet; else it waits, and runs what that call has made. For any
  /// other future it runs what the current task has posted. It goes on with the worker's event loop meanwhile.
  /// Elsewhere it is future.get().
  ///
  /// So it cannot deadlock, to any depth, on one worker: when all workers sleep in waits and tasks are queued, other
  /// threads stand in for them, no more at a time than sleep. A future that something else makes ready than a task or a
  /// flow of this pool is noticed within 8 ms. In a callback of an event loop, such as the step of a flow, the loop
  /// cannot go on: await there.
  template <class T>
  T wait(std::future<T>& future) {
    if (core_.is_inside() && !detail::wait_for_call(future)) {
      const detail::visit here(core_);
      core_.wait_until(here.part(), detail::wait_scope(), [&future] { return detail::is_ready(future); });
    }
    return future.get();
  }
  /// The same with a future that nobody keeps, such as that of wait(post(…)).
  template <class T>
  T wait(std::future<T>&& future) {
    return wait(future);
  }

  /// Refuses tasks from outside from here on, runs every accepted one and what these post, and joins the threads. Flows
  /// run on meanwhile; those that wait when no task is left, and those that have not come to wait 100 ms later, are
  /// cancelled: their cancel handlers run, on the calling thread. Callbacks that wait in loop(i) are destroyed. A
  /// paused pool gets one worker for it; if that cannot start, the caller runs them. Later calls return when the first
  /// is done. Inside a task of the pool: throws std::system_error (resource_deadlock_would_occur).
  void stop() { core_.stop(); }

  /// What the workers have done since the pool was made. Each figure is right at some moment of the call, not all at
  /// the same.
  stats_t stats() const { return core_.stats(); }

  /// Gives the recycled blocks that no thread holds back to the system, those of the whole process; returns how many
  /// bytes that were. After a peak; the room of the pool's queue stays until its end.
  static std::size_t trim() noexcept { return detail::trim_blocks(); }

  /// The pool whose task, or hook, the calling thread runs, or null.
  static threadpool* current() noexcept {
    const detail::pool_core* const core = detail::this_pool;
    return core == nullptr ? nullptr : &core->facade();
  }

  /// The process's pool, with usable_concurrency() workers, made when first asked for. When static objects are
  /// destroyed it runs what it has accepted and ends its threads; what is posted after that runs on the posting thread.
  static threadpool& shared() {
    static threadpool* const immortal = new threadpool;
    struct closer {
      threadpool& pool;
      ~closer() {
        pool.core_.run_late_posts_inline();
        if (!pool.core_.is_inside()) pool.core_.stop();  // else a task called std::exit: the system ends the rest
      }
    };
    static const closer at_exit{*immortal};
    return *immortal;
  }

  /// What task_group and the event loops build on.
  detail::pool_core& core() noexcept { return core_; }

 private:
  static threadpool_options options_for(std::size_t threads) { return {.threads = threads}; }

  detail::pool_core core_;
};

}  // namespace async
