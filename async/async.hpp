// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <future>        // for async, launch
#include <system_error>  // for system_error, make_error_code, errc
#include <utility>       // for forward

#include "async/blocking_pool.hpp"           // exports blocking_pool
#include "async/blocking_section.hpp"        // exports blocking_section
#include "async/bounded_queue.hpp"           // exports bounded_queue
#include "async/detail/call/call_state.hpp"  // for call_in_pool
#include "async/errors.hpp"                  // exports stopped, queue_full
#include "async/event.hpp"                   // exports event
#include "async/event_loop.hpp"              // exports event_loop
#include "async/future.hpp"                  // exports future, shared_future, promise
#include "async/future_group.hpp"            // exports future_group
#include "async/fwd.hpp"                     // exports threadpool
#include "async/manual_clock.hpp"            // exports manual_clock
#include "async/parallel_for.hpp"            // exports parallel_for
#include "async/parallel_invoke.hpp"         // exports parallel_invoke
#include "async/parallel_reduce.hpp"         // exports parallel_reduce
#include "async/priority.hpp"                // exports priority
#include "async/queue.hpp"                   // exports queue
#include "async/select.hpp"                  // exports select, on_pop, on_push, on_ready, after, otherwise
#include "async/task.hpp"                    // exports task
#include "async/task_group.hpp"              // exports task_group
#include "async/threadpool.hpp"              // for threadpool
#include "async/threadpool_options.hpp"      // exports threadpool_options
#include "async/time_source.hpp"             // exports time_source
#include "async/when_all.hpp"                // exports when_all, when_any

namespace async::inline v0_1 {

namespace detail {

/// Posts the call to the shared pool.
template <class F, class... Args>
async_future<F, Args...> post_call(F&& f, Args&&... args) {
  using result = call_result<F, Args...>;
  return call_in_pool<result>(threadpool::shared().core(), std::forward<F>(f), std::forward<Args>(args)...);
}

}  // namespace detail

/// Calls `f` with `args` on threadpool::shared() and returns the std::future of its result: std::async without a new
/// thread for each call.
///
/// Use it in place of std::async: the same calls compile, with the same results, and the futures behave alike. Do not
/// use it for calls that block for long, or that block on each other by other means than futures (use std::thread, or a
/// threadpool of their own), nor to discard the future, whose destructor waits (threadpool::execute).
///
/// As std::async:
/// - The last future of a call waits for it in its destructor, so the call may refer to objects declared before it.
/// - Timed waits tell whether the result is there. They never run a call.
/// Unlike std::async:
/// - Calls share threads, one per processor, and with them thread_local objects.
/// - Inside a task of the shared pool, get(), wait() and the destructor of a future run the awaited call if no thread
///   has taken it; otherwise they wait, and run only tasks that the call has made. So calls can make calls and wait for
///   them, to any depth on any number of threads, in trees and in graphs (std::shared_future). In a task of another
///   pool they wait, and run tasks that the waiting task has posted.
/// - Calls that block on each other by other means, such as a promise or a barrier, can deadlock when there are more of
///   them than threads.
/// - A stand-in thread runs a call that a task polls for while all threads are busy, see threadpool.
/// - The copies of `f` and `args` are destroyed before the result is visible.
/// With libc++, timed waits return std::future_status::deferred until a thread has taken the call, and a polling task
/// occupies its thread. With standard libraries unknown to call_state.hpp the same holds until something has waited.
///
/// Threads     any, before main() and in destructors of static objects as well. Once the shared pool has gone, `f` is
///             called at once, on the calling thread.
/// Fork        a child of fork() has a shared pool of its own. A future of a call that the parent has not made throws
///             stopped_by_fork there.
/// Exceptions  get() throws what `f` throws. async() throws what copying throws, std::bad_alloc, and std::system_error
///             (resource_unavailable_try_again) while the shared pool, which the first call makes, cannot start its
///             threads; nothing has been called then, and a later call tries again. It throws async::stopped after
///             threadpool::shared().stop(). A call that ends its thread with pthread_exit() breaks its promise, and the
///             pool starts another thread, or goes on without it until the next configurepool(). If the destructor of a
///             future runs such a call on the waiting thread: std::terminate.
/// Ownership   `f` and `args` are copied or moved before async returns; pass std::ref for a reference.
template <class F, class... Args>
  requires async_callable<F, Args...>
[[nodiscard("the destructor of the future waits for the call; see threadpool::execute")]]  //
detail::async_future<F, Args...>
async(F&& f, Args&&... args) {
  return detail::post_call(std::forward<F>(f), std::forward<Args>(args)...);
}

/// The same with a launch policy: std::launch::async, alone or with deferred, calls `f` on the pool, or throws;
/// std::launch::deferred calls it in the first get() or wait() of the future, on the waiting thread. Throws
/// std::system_error (invalid_argument) for a policy with neither.
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

}  // namespace async::inline v0_1
