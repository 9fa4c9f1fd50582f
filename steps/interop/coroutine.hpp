// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <concepts>     // for invocable
#include <exception>    // for exception_ptr
#include <future>       // for future
#include <optional>     // for optional
#include <string_view>  // for string_view
#include <type_traits>  // for decay_t, invoke_result_t
#include <utility>      // for forward, move

#include "async/blocking_pool.hpp"                  // for blocking_pool
#include "async/detail/base/chrono.hpp"             // for duration, nanoseconds
#include "async/detail/base/durations.hpp"          // for to_nanoseconds
#include "async/event_loop.hpp"                     // for event_loop
#include "async/future.hpp"                         // for future, promise
#include "async/threadpool.hpp"                     // for threadpool
#include "steps/detail/pool_call.hpp"               // for pool_of_calls
#include "steps/interop/detail/awaiters.hpp"        // for pool_awaiter, flow_awaiter
#include "steps/interop/detail/step_coroutine.hpp"  // for coroutine_step
#include "steps/interop/task.hpp"                   // for task

/// C++20 coroutines: functions that they can await, and coroutines as steps.
///
/// Await the functions below at once: `co_await sleep_for(loop, 10ms)`. They work in coroutines of any type. A wait is
/// tied to the coroutine's frame: when the frame is destroyed meanwhile, the wait is withdrawn. A wait takes one
/// recycled block.
///
/// Each function says where the coroutine resumes. But a coroutine that is a step, with the tasks that it awaits,
/// always resumes as its step, on the flow's loop.
///
/// Compilers: g++ 11 and 12 destroy some temporaries of a co_await expression twice: those made without a constructor,
/// such as a lambda with captures or point{"x", 1}, and operands of ?:, unless they are trivial. Name the object in a
/// line before, or give post() arguments in place of captures. post() and retry() refuse such lambdas; no other
/// function can detect them, neither these nor threadpool::post(), push() of the queues and async::selection(). g++ 12
/// evaluates a co_await behind `&&`, `||` or `?` in the condition of a loop or switch even where that says not to:
/// `while (i < n && co_await q.push(i))` enqueues one element too many. Move the condition into the loop. g++ 15 and 16
/// may leave out the destructor of `auto [a, b] = co_await when_all(f(), g())` (GCC bug 124584): name the tuple, and
/// bind to that.
namespace steps::inline v0_1::interop {

namespace detail {

/// True when this compiler destroys a temporary F of a co_await expression once.
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
detached finish_with(async::promise<T> end, task<T> work) {
  std::exception_ptr error;  // published outside the handlers, when the coroutine has gone
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
  if (error == nullptr) {
    try {
      if constexpr (std::is_void_v<T>) {
        end.set_value();
      } else {
        end.set_value(std::move(*value));
      }
      co_return;
    } catch (...) {
      error = std::current_exception();
    }
  }
  end.set_exception(std::move(error));
}

}  // namespace detail

/// Resumes the coroutine as a task of the pool, on one of its threads. Throws async::stopped, async::queue_full,
/// std::bad_alloc; async::dropped_call when the pool discards the task. A coroutine that is a step resumes on its
/// flow's loop: use post() to run code on the pool.
inline auto schedule(async::threadpool& pool) noexcept { return detail::pool_awaiter(pool); }
inline auto schedule(async::blocking_pool& pool) noexcept { return detail::pool_awaiter(pool); }

/// Resumes the coroutine in a turn of the loop. Throws std::bad_alloc; std::future_error (broken promise) when the loop
/// has gone.
inline auto schedule(async::event_loop& loop) noexcept { return detail::loop_awaiter(loop); }

/// Resumes the coroutine in a turn of the loop when at least `delay` has passed. Throws as schedule(loop) does.
inline auto sleep_for(async::event_loop& loop, std::chrono::nanoseconds delay) noexcept {
  return detail::timer_awaiter(loop, delay);
}
/// The same with any duration.
template <class Rep, class Period>
auto sleep_for(async::event_loop& loop, std::chrono::duration<Rep, Period> delay) noexcept {
  return detail::timer_awaiter(loop, async::detail::to_nanoseconds(delay));
}

/// Calls f(arguments...) as a task of the pool, with copies of both as std::async makes them, and resumes the coroutine
/// there with its value or exception; where f returns an rvalue reference, with a value made of it. It is pool.post()
/// without a future. Throws async::stopped, async::queue_full, std::bad_alloc; async::dropped_call when the pool
/// discards the call. When the coroutine is destroyed meanwhile, the call goes on, or will be made, and its result is
/// dropped; `co_await pool.post(f)` cancels the call then.
template <steps::detail::pool_of_calls Pool, class F, class... A>
  requires std::invocable<std::decay_t<F>, std::decay_t<A>...>
auto post(Pool& pool, F&& f, A&&... arguments) {
  static_assert(detail::is_destroyed_once<F>(),
                "g++ 12 destroys a lambda with such captures twice when it is made inside a co_await expression: give "
                "post() arguments in place of captures, or name the lambda before and pass it without std::move()");
  using result = detail::passed_t<std::invoke_result_t<std::decay_t<F>, std::decay_t<A>...>>;
  return detail::call_awaiter<Pool, result, std::decay_t<F>, std::decay_t<A>...>(pool, std::forward<F>(f),
                                                                                 std::forward<A>(arguments)...);
}

/// Resumes the coroutine in a turn of the loop when the future is ready, with its value or exception. A future of this
/// library (of async::async(), or made of an async::future) notifies the loop at once. Other futures are
/// polled: at once, after 50 us, then at growing intervals of at most 10 ms. A deferred one is run on the loop. Throws
/// std::bad_alloc; std::future_error without a shared state, or (broken promise) when the loop has gone. When the
/// coroutine is destroyed meanwhile, the future is dropped: at once on the loop's thread, else at the next poll.
template <class T>
auto when_ready(async::event_loop& loop, std::future<T>&& future) noexcept {
  return detail::future_awaiter<T>(loop, std::move(future));
}

/// The same for a future of this library. Throws std::bad_alloc at once, too.
template <class T>
auto when_ready(async::event_loop& loop, async::future<T>&& future) {
  return detail::future_awaiter<T>(loop, std::move(future));
}

/// Executes a root flow and resumes the coroutine in a turn of the flow's loop: with the last step's result as T, with
/// the error as an exception, or after cancel() with async::dropped_call, a broken promise. When the coroutine is
/// destroyed meanwhile, the flow is cancelled; a result that has come, such as an element that the flow has taken from
/// a queue, goes with it. On another loop, such as that of a flow on a pool, the cancel is a request: a step of the
/// flow may still run after the step that has awaited it, and what it refers to has to outlive it. The destructor of a
/// flow that the coroutine owns waits for such a step. The flow may be destroyed as soon as the coroutine has resumed.
template <class T = void>
auto execute(IAsyncSteps& root) noexcept {
  return detail::flow_awaiter<T>(root);
}

/// Starts a coroutine on this thread, where it runs until its first wait. The future gets its value or exception.
/// Nothing stops it, not even cancel() of the future: give it a std::stop_token, or make it a step. Throws
/// std::bad_alloc, and then the coroutine does not begin.
template <class T>
async::future<T> start(task<T> work) {
  async::promise<T> promise;
  async::future<T> result = promise.get_future();
  detail::finish_with(std::move(promise), std::move(work));
  return result;
}

/// A step that is a coroutine: f(IAsyncSteps& asi, results...) -> task<T>. f is kept as long as the coroutine runs.
///
///   flow.add(steps::interop::co([&pool](steps::IAsyncSteps& asi, int x) -> steps::interop::task<int> {
///     asi.setTimeout(1s);
///     int y = co_await steps::interop::post(pool, measure, x);
///     co_await steps::interop::sleep_for(asi.tool(), 10ms);
///     co_return y;
///   }), [](steps::IAsyncSteps& asi, steps::ErrorCode code) { … });
///
/// The T that it returns is the step's result. An exception is the step's error, as in any step, for the handler that
/// add() was given. It takes results by value.
///
/// Use it for logic with several waits in a row. Do not use it for a step without waits.
///
/// Cancel      when the step ends by a timeout, an error or cancel(), the coroutine is destroyed where it waits, after
///             its cancel handlers, before its stack() objects and before the error handler. Timers are disarmed, flows
///             that it awaits are cancelled, results of pool calls are dropped, locals are destroyed. Nothing of the
///             coroutine runs any more, and nothing is thrown into it. A step that is cancelled from inside itself runs
///             to its next wait.
/// asi         the step's, valid as long as the coroutine. state(), setTimeout(), setDeadline(), setCancel(), stack(),
///             error() and stop_token_of() may be used before and after waits. success(), errorNoThrow() and
///             breakLoopNoThrow() let the coroutine run on to its next wait, which ends it; co_return of a value after
///             success() is InternalError. A token of completion() ends the step, and with it the coroutine where it
///             waits; it does nothing any more after a wait that adds a sub-step: with_timeout(), sync(), when_all(),
///             when_any(), and acquire() where no permit is free. To wait for a callback, co_await the future of an
///             async::promise. Steps that are added, and relinquish(), are InternalError at the next wait, and at a
///             co_return of a value: give them to a flow and co_await execute(flow). An exception of the coroutine, and
///             error(), destroy its locals before the cancel handlers run: these may refer to stack() objects, and to
///             what outlives the coroutine. Locals that are destroyed with a coroutine that waits do not call stack()
///             and onEnd().
/// Fairness    elements, cases, futures and permits that are at hand do not make it wait; after 100 such awaits in a
///             row it goes on in another turn. Tasks that end without a wait are not counted: a loop over nothing else
///             keeps the loop's thread. To give way before that, co_await schedule(asi.tool()).
/// Threads     the coroutine runs on the flow's loop only, as a step: on one thread at a time, which on a pool may be
///             another one after each co_await. An awaited operation may end on any thread.
/// Awaitables  those of this header; tasks, several at once by when_all() and when_any() of when_all.hpp, limited by
///             with_timeout() and sync() of the headers of these names; pop() and push() of queues: the step takes the
///             element in its turn, so that none is lost when it is cancelled or times out before. Awaitables of other
///             libraries that are rvalues are moved out of the frame and awaited on its behalf. When the step ends they
///             stay until they resume, so they must not refer to the frame; one that is awaited by name is not moved,
///             and must outlive the operation, so it must not be a local variable of the coroutine.
/// Memory      as task, and two steps and one stack() object.
template <class F>
auto co(F&& f) {
  using function = std::decay_t<F>;
  return detail::coroutine_step<function, typename steps::detail::wanted_results<function>::type>(std::forward<F>(f));
}

}  // namespace steps::inline v0_1::interop
