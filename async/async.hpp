// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <future>        // for async, launch
#include <system_error>  // for system_error, make_error_code, errc
#include <utility>       // for forward

#include "async/bounded_queue.hpp"           // exports bounded_queue
#include "async/detail/call/call_state.hpp"  // for call_in_pool
#include "async/errors.hpp"                  // exports stopped, queue_full
#include "async/event_loop.hpp"              // exports event_loop
#include "async/manual_clock.hpp"            // exports manual_clock
#include "async/parallel_for.hpp"            // exports parallel_for
#include "async/parallel_invoke.hpp"         // exports parallel_invoke
#include "async/parallel_reduce.hpp"         // exports parallel_reduce
#include "async/queue.hpp"                   // exports queue
#include "async/task.hpp"                    // exports task
#include "async/task_group.hpp"              // exports task_group
#include "async/threadpool.hpp"              // for threadpool
#include "async/threadpool_options.hpp"      // exports threadpool_options
#include "async/time_source.hpp"             // exports time_source

namespace async {

namespace detail {

/// Posts the call to the shared pool.
template <class F, class... Args>
async_future<F, Args...> post_call(F&& f, Args&&... args) {
  using result = call_result<F, Args...>;
  return call_in_pool<true, result>(threadpool::shared().core(), std::forward<F>(f), std::forward<Args>(args)...);
}

}  // namespace detail

/// Calls `f` with `args` on threadpool::shared() and returns the std::future of its result: std::async without a new
/// thread for each call.
///
/// Use it in place of std::async: every call that compiles with the one compiles with the other and has the same
/// result, and so has what is done with the future. Do not use it for calls that block for long or wait for each other
/// by other means than futures (a thread each: std::thread; a pool of their own: threadpool), nor to throw the future
/// away, whose destructor waits (threadpool::execute).
///
/// As std::async:
/// - The last future of a call waits for it in its destructor. What the call refers to may be declared before it.
/// - Timed waits tell whether the result is there. They never run a call.
/// Unlike std::async:
/// - Calls share threads, as many as there are processors, and with them thread_local objects.
/// - Inside a task of the shared pool, get(), wait() and the destructor of a future make the call that they wait for
///   when no thread has taken it yet; else they wait, and run only what that call has made. So calls make calls and
///   wait for them to any depth on any number of threads, in trees and in graphs (std::shared_future).
/// - Calls that wait for each other by other means, such as a promise or a barrier, may wait for ever when there are
///   more of them than threads.
/// - A call that is polled for in a task while all threads are busy runs on a thread of its own, see threadpool.
/// - A result is seen after the copies of `f` and `args` have been destroyed.
/// With libc++, timed waits return std::future_status::deferred until a thread has taken the call, and a task that
/// polls keeps its thread. Standard libraries that call_state.hpp does not know: the same, until somebody has waited.
///
/// Threads     any. Before main() and in destructors of static objects, too: once the shared pool has gone, `f` is
///             called at once, on the calling thread.
/// Exceptions  what `f` throws is thrown by get(). What copying throws, std::bad_alloc: nothing has been called. A call
///             that ends its thread with pthread_exit() breaks its promise, and the pool starts another thread; but not
///             where the destructor of a future has made it, on the thread that waits: std::terminate.
/// Ownership   `f` and `args` are copied or moved before async returns; pass std::ref for a reference.
template <class F, class... Args>
  requires async_callable<F, Args...>
[[nodiscard("the destructor of the future waits for the call; see threadpool::execute")]]  //
detail::async_future<F, Args...>
async(F&& f, Args&&... args) {
  return detail::post_call(std::forward<F>(f), std::forward<Args>(args)...);
}

/// The same with a launch policy: std::launch::async, alone or with deferred, calls `f` on the pool;
/// std::launch::deferred calls it in the first get() or wait() of the future, on the thread that waits.
/// Throws std::system_error (invalid_argument) when the policy has neither.
template <class F, class... Args>
  requires async_callable<F, Args...>
[[nodiscard("the destructor of the future waits for the call; see threadpool::execute")]]  //
detail::async_future<F, Args...>
async(std::launch policy, F&& f, Args&&... args) {
  if ((policy & std::launch::async) == std::launch::async) {
    return detail::post_call(std::forward<F>(f), std::forward<Args>(args)...);
  }
  if ((policy & std::launch::deferred) != std::launch::deferred) {
    throw std::system_error(std::make_error_code(std::errc::invalid_argument), "async::async: unknown launch policy");
  }
  return std::async(std::launch::deferred, std::forward<F>(f), std::forward<Args>(args)...);
}

}  // namespace async
