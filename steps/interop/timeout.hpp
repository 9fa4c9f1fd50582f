// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <chrono>   // for duration
#include <utility>  // for move

#include "async/event_loop.hpp"         // for event_loop
#include "steps/asyncsteps.hpp"         // for AsyncSteps
#include "steps/errors.hpp"             // for Error, InternalError
#include "steps/interop/coroutine.hpp"  // for co, execute
#include "steps/interop/task.hpp"       // for task

/// Time limits for tasks.
namespace steps::inline v0_1::interop {

namespace detail {

/// A task with its limit, as a step. The task is the coroutine's own, and ends with it.
template <class T, class Limit>
task<T> within(IAsyncSteps& asi, Limit limit, task<T> work) {
  asi.setTimeout(limit);
  co_return co_await std::move(work);
}

}  // namespace detail

/// A task that awaits another one, for at most `limit` from then on.
///
///   try {
///     reply r = co_await steps::interop::timeout(2s, request(host));
///   } catch (const steps::Error& e) {
///     if (e.code() != steps::errors::Timeout) throw;
///     …
///   }
///
/// Use it where a coroutine goes on after the limit. Do not use it where its step ends then, too: asi.setTimeout()
/// takes no flow of its own. The limit is checked while the task waits: a task that does not wait has none.
///
/// When the time is up, the task is destroyed where it waits, with all that it awaits, and Error (Timeout) is thrown
/// where it was awaited. Its own exceptions arrive as they are. Nested limits are independent of each other.
///
/// Threads     the task runs in the event loop that the thread is in, as a flow of its own: in a step that of the flow,
///             in a task of a pool that of the worker. The coroutine resumes there, one that is a step as its step.
/// Exceptions  Error: Timeout; InternalError on a thread without an event loop (co_await schedule(pool) before), and
/// for
///             a task that has no coroutine. std::bad_alloc from the call, and where it is awaited.
/// Lifetime    as of any task: what `work` refers to lives until it has ended.
/// Memory      an AsyncSteps and two tasks, recycled.
template <class T, class Rep, class Period>
task<T> timeout(std::chrono::duration<Rep, Period> limit, task<T> work) {
  async::event_loop* const loop = async::event_loop::current();
  if (loop == nullptr) {
    throw Error(errors::InternalError, "timeout() on a thread without an event loop: co_await schedule(pool) before");
  }
  AsyncSteps flow{*loop};
  flow.add(co([limit, &work](IAsyncSteps& asi) { return detail::within(asi, limit, std::move(work)); }));
  co_return co_await execute<T>(flow);
}

}  // namespace steps::inline v0_1::interop
