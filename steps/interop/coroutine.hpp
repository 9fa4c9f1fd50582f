// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <chrono>       // for duration, nanoseconds
#include <concepts>     // for invocable
#include <exception>    // for exception_ptr
#include <future>       // for future, promise
#include <optional>     // for optional
#include <string_view>  // for string_view
#include <type_traits>  // for decay_t, invoke_result_t
#include <utility>      // for forward, move

#include "async/detail/base/durations.hpp"          // for to_nanoseconds
#include "async/detail/future/fulfil.hpp"           // for fulfil, fulfil_or_fail
#include "async/detail/future/future_watch.hpp"     // for tell_watchers_of
#include "async/detail/future/pending_call.hpp"     // for make_promise, refuse
#include "async/event_loop.hpp"                     // for event_loop
#include "async/threadpool.hpp"                     // for threadpool
#include "steps/interop/detail/awaiters.hpp"        // for pool_awaiter, flow_awaiter
#include "steps/interop/detail/step_coroutine.hpp"  // for coroutine_step
#include "steps/interop/task.hpp"                   // for task

/// C++20 coroutines: what they can wait for, and coroutines as steps.
///
/// The functions below are to be awaited at once: `co_await sleep_for(loop, 10ms)`. They work in coroutines of any
/// type, and are tied to the coroutine's frame: when it is destroyed while it waits, the wait is withdrawn. A wait
/// takes one recycled block.
///
/// Where a coroutine goes on: as each function says; but a coroutine that is a step, and the tasks that it awaits,
/// always go on as their step, on the flow's loop.
///
/// Compilers: g++ 11 and 12 destroy a temporary twice that a co_await expression makes without a constructor, a lambda
/// with captures or point{"x", 1}, unless that is trivial. Name it in a line before, or give post() arguments in place
/// of captures. post() refuses such lambdas; other functions cannot see them.
namespace steps::interop {

namespace detail {

/// Whether a temporary F in a co_await expression is destroyed once by this compiler.
template <class F>
constexpr bool is_destroyed_once() noexcept {
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
  constexpr bool is_lambda = std::string_view(__PRETTY_FUNCTION__).find("<lambda(") != std::string_view::npos;
  return std::is_lvalue_reference_v<F> || std::is_trivially_destructible_v<F> || !is_lambda || std::is_empty_v<F>;
#else
  return true;
#endif
}

template <class T>
detached finish_with(std::promise<T> end, task<T> work) {
  const void* const state = async::detail::shared_state_of(end);
  std::exception_ptr error;  // published when it is not being handled any more, and the coroutine has gone
  std::optional<outcome_t<T>> value;
  try {
    task<T> mine = std::move(work);
    if constexpr (std::is_void_v<T>) {
      co_await std::move(mine);
    } else {
      value.emplace(co_await std::move(mine));
    }
  } catch (...) {
    error = std::current_exception();
  }
  if (error != nullptr) {
    async::detail::refuse(std::move(end), std::move(error));
    co_return;
  }
  if constexpr (std::is_void_v<T>) {
    async::detail::fulfil(end);
  } else {
    std::promise<T> last = std::move(end);
    async::detail::fulfil_or_fail(last, std::move(*value));
  }
  async::detail::tell_watchers_of(state);
}

}  // namespace detail

/// Goes on as a task of the pool, on one of its threads. Throws async::stopped, async::queue_full, std::bad_alloc. A
/// step's coroutine comes back to its loop from there: use post() for what is to run on the pool.
inline auto schedule(async::threadpool& pool) noexcept { return detail::pool_awaiter(pool); }

/// Goes on in a turn of the loop. Throws std::bad_alloc; std::future_error (broken promise) when the loop has gone.
inline auto schedule(async::event_loop& loop) noexcept { return detail::loop_awaiter(loop); }

/// Goes on in a turn of the loop when at least `delay` has passed. Throws as schedule(loop) does.
inline auto sleep_for(async::event_loop& loop, std::chrono::nanoseconds delay) noexcept {
  return detail::timer_awaiter(loop, delay);
}
/// The same with any duration.
template <class Rep, class Period>
auto sleep_for(async::event_loop& loop, std::chrono::duration<Rep, Period> delay) noexcept {
  return detail::timer_awaiter(loop, async::detail::to_nanoseconds(delay));
}

/// Calls f(arguments...) as a task of the pool, with copies of both as std::async makes them, and goes on there with
/// its value or exception: what pool.post() is, without a future. Throws async::stopped, async::queue_full,
/// std::bad_alloc. When the coroutine is destroyed meanwhile, the call goes on and its result is dropped.
template <class F, class... A>
  requires std::invocable<std::decay_t<F>, std::decay_t<A>...>
auto post(async::threadpool& pool, F&& f, A&&... arguments) {
  static_assert(detail::is_destroyed_once<F>(),
                "g++ 12 destroys a lambda with such captures twice when it is made inside a co_await expression: give "
                "post() arguments in place of captures, or name the lambda before and pass it without std::move()");
  using result = std::invoke_result_t<std::decay_t<F>, std::decay_t<A>...>;
  return detail::call_awaiter<result, std::decay_t<F>, std::decay_t<A>...>(pool, std::forward<F>(f),
                                                                           std::forward<A>(arguments)...);
}

/// Goes on in a turn of the loop when the future is ready, with its value or exception. A future of this library (of a
/// pool's post(), of async::async(), of a flow, of start()) tells at once that it is ready. Others cannot tell, and are
/// looked at now and then: at once, after 50 us, at most every 10 ms. A deferred one is run on the loop. Throws
/// std::bad_alloc; std::future_error without a shared state, or (broken promise) when the loop has gone. When the
/// coroutine is destroyed meanwhile, the future is dropped: at once on the loop's thread, else when it is looked at.
template <class T>
auto when_ready(async::event_loop& loop, std::future<T>&& future) noexcept {
  return detail::future_awaiter<T>(loop, std::move(future));
}

/// Executes a root flow and goes on in a turn of its loop with the last step's result as T, or its error as an
/// exception; after cancel() with std::future_error (broken promise). When the coroutine is destroyed meanwhile, the
/// flow is cancelled. The flow may be destroyed as soon as the coroutine has gone on.
template <class T = void>
auto execute(IAsyncSteps& root) noexcept {
  return detail::flow_awaiter<T>(root);
}

/// Starts a coroutine on this thread, where it runs until it first waits; the future has its value or exception.
/// It cannot be stopped: give it a std::stop_token, or make it a step.
template <class T>
std::future<T> start(task<T> work) {
  auto promise = async::detail::make_promise<T>();
  std::future<T> result = promise.get_future();
  detail::finish_with(std::move(promise), std::move(work));
  return result;
}

/// A step that is a coroutine: f(IAsyncSteps& asi, results...) -> task<T>, f being kept as long as it runs.
///
///   flow.add(steps::interop::co([&pool](steps::IAsyncSteps& asi, int x) -> steps::interop::task<int> {
///     asi.setTimeout(1s);
///     int y = co_await steps::interop::post(pool, measure, x);
///     co_await steps::interop::sleep_for(asi.tool(), 10ms);
///     co_return y;
///   }), [](steps::IAsyncSteps& asi, steps::ErrorCode code) { … });
///
/// The T that it returns is the step's result. What it throws is the step's error, as in any step, for the handler that
/// add() was given. Results come in by value.
///
/// Use it where several waits follow each other in one piece of logic. Do not use it for a step without waits.
///
/// Cancel      when the step ends by a timeout, an error or cancel(), the coroutine is destroyed where it waits: timers
///             are disarmed, flows that it awaits cancelled, results of pool calls dropped, locals destroyed; nothing
///             of it runs any more, and nothing is thrown into it. That is after its cancel handlers and before the
///             error handler. A step that is cancelled from inside itself runs on to its next wait.
/// asi         that of the step, valid all the time: state(), setTimeout(), setCancel(), stack(), error(), success()
///             and stop_token_of() may be used before and after waits, completion() not: a wait is a co_await. Adding
///             steps is InternalError: give them to a flow and co_await execute(flow).
/// Threads     the coroutine runs on the flow's loop only, as a step. What it awaits may end on any thread.
/// Awaitables  those of this header; those of other libraries are moved out of the frame and waited for on its behalf:
///             when the step ends, they stay until they resume, so they must not refer to the frame.
/// Memory      as task; two steps, and of stack() one object.
template <class F>
auto co(F&& f) {
  using function = std::decay_t<F>;
  return detail::coroutine_step<function, typename steps::detail::wanted_results<function>::type>(std::forward<F>(f));
}

}  // namespace steps::interop
