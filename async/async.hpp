// SPDX-License-Identifier: BSL-1.0
// floor: 17
#pragma once
#include <concepts>      // for constructible_from, invocable
#include <future>        // for future, launch
#include <system_error>  // for system_error
#include <type_traits>   // for decay_t
#include <utility>       // for forward, move

#include "async/bounded_queue.hpp"        // for users: this header includes all of async/ but trace.hpp
#include "async/detail/pending_call.hpp"  // for make_call
#include "async/errors.hpp"               // for users
#include "async/event_loop.hpp"           // for event_loop
#include "async/manual_clock.hpp"         // for users
#include "async/parallel_for.hpp"         // for users
#include "async/queue.hpp"                // for users
#include "async/task.hpp"                 // for users
#include "async/task_group.hpp"           // for users
#include "async/threadpool.hpp"           // for threadpool
#include "async/threadpool_options.hpp"   // for users
#include "async/time_source.hpp"          // for users

namespace async {

namespace detail {

/// A future whose get() and wait() run tasks of the pool until `result` is there. Apart from the call that leads to it:
/// std::async is dear to compile.
template <class R>
[[gnu::noinline]] std::future<R> helped(threadpool& pool, std::future<R> result) {
  return std::async(std::launch::deferred,
                    [&pool, inner = std::move(result)]() mutable -> R { return pool.wait(inner); });
}

/// Posts the call to the shared pool.
template <class F, class... Args>
async_future<F, Args...> post_call(F&& f, Args&&... args) {
  auto call = make_call(std::forward<F>(f), std::forward<Args>(args)...);
  async_future<F, Args...> future = call.get_future();
  threadpool& pool = threadpool::shared();
  // A callback of a loop must not block, nor run tasks: what it waits for, it awaits.
  if (threadpool::current() == &pool && current_loop == nullptr) future = helped(pool, std::move(future));
  pool.core().submit(std::move(call));  // last: what can fail has not called anything
  return future;
}

}  // namespace detail

/// Calls `f` with `args` on threadpool::shared() and returns the future of its result: std::async without a new thread
/// for each call.
///
/// Use it in the place of std::async: every call that compiles with the one compiles with the other and has the same
/// result. Do not use it for calls that block for long or wait for each other by other means than futures (a thread
/// each: std::thread; a pool of their own: threadpool), nor to throw the future away (threadpool::execute).
///
/// Differences from std::async:
/// - The destructor of the future does not wait for the call.
/// - Calls do not get a thread each: as many run at once as the pool has threads, and thread_local objects are shared
///   by the calls that run on the same thread.
/// - A call made inside a task of the shared pool (not in a callback of an event loop) returns a future whose get() and
///   wait() run other tasks of the pool until the result is there, so that calls may make calls and wait for them to
///   any depth, on any number of threads. wait_for() and wait_until() of such a future return
///   std::future_status::deferred, in whatever state it is. A future that was made outside and is waited for inside a
///   task blocks the thread: pass it to threadpool::wait.
/// - A result is seen after the copies of `f` and `args` have been destroyed.
///
/// Threads     any. Before main() and in destructors of static objects, too: once the shared pool has gone, `f` is
///             called at once, on the calling thread.
/// Exceptions  what `f` throws is thrown by get(). What copying throws, std::bad_alloc: nothing has been called.
/// Ownership   `f` and `args` are copied or moved before async returns; pass std::ref for a reference.
template <class F, class... Args>
  requires async_callable<F, Args...>
[[nodiscard]] detail::async_future<F, Args...> async(F&& f, Args&&... args) {
  return detail::post_call(std::forward<F>(f), std::forward<Args>(args)...);
}

/// The same with a launch policy: std::launch::async, alone or with deferred, calls `f` on the pool;
/// std::launch::deferred calls it in the first get() or wait() of the future, on the thread that waits.
/// Throws std::system_error (invalid_argument) when the policy has neither.
template <class F, class... Args>
  requires async_callable<F, Args...>
[[nodiscard]] detail::async_future<F, Args...> async(std::launch policy, F&& f, Args&&... args) {
  if ((policy & std::launch::async) == std::launch::async) {
    return detail::post_call(std::forward<F>(f), std::forward<Args>(args)...);
  }
  if ((policy & std::launch::deferred) != std::launch::deferred) {
    throw std::system_error(std::make_error_code(std::errc::invalid_argument), "async::async: unknown launch policy");
  }
  return std::async(std::launch::deferred, std::forward<F>(f), std::forward<Args>(args)...);
}

}  // namespace async
