// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>      // for size_t
#include <cstdint>      // for uint64_t, uintptr_t
#include <exception>    // for current_exception, exception, exception_ptr, rethrow_exception
#include <optional>     // for optional
#include <string_view>  // for string_view
#include <type_traits>  // for decay_t, is_invocable_v, remove_cvref_t
#include <utility>      // for declval, forward, move

#include "async/detail/base/chrono.hpp"                // for steady_clock
#include "async/detail/base/invoke.hpp"                // for invoke
#include "async/select.hpp"                            // for after, selection
#include "steps/detail/flow/pending.hpp"               // for convert_exceptions, unwinding
#include "steps/detail/wait/retry_step.hpp"            // for pauses
#include "steps/errors.hpp"                            // for Error, ErrorCode
#include "steps/interop/coroutine.hpp"                 // for is_destroyed_once
#include "steps/interop/detail/refused_awaitable.hpp"  // for refused
#include "steps/interop/task.hpp"                      // for kept_t, task
#include "steps/retry.hpp"                             // for Retry

/// Attempts of coroutines, until one succeeds.
namespace steps::inline v0_1::interop {

namespace detail {

/// Calls the function of retry(), without the number of the attempt where it can be called so.
template <class F>
decltype(auto) attempt(F& f, std::size_t number) {
  if constexpr (std::is_invocable_v<F&>) {
    return async::detail::invoke(f);
  } else {
    return async::detail::invoke(f, number);
  }
}

/// Whether F can be called so, and what it returns is awaited.
template <class F>
concept attempt_function = (std::is_invocable_v<F&> || std::is_invocable_v<F&, std::size_t>) &&
                           requires(F& f) { typename kept_t<decltype(detail::attempt(f, 0))>; };
template <class F>
using attempt_result = std::remove_cvref_t<kept_t<decltype(detail::attempt(std::declval<F&>(), 0))>>;

/// Whether the filter of a Retry lets this exception be retried. The errors of `asi` are those of its step.
template <class Filter>
bool is_worth_another(const std::exception_ptr& error, Filter& filter) {
  std::optional<ErrorCode> thrown;  // as a code, not in an exception
  bool is_worth = false;
  const auto unless_known = [&error, &thrown] {
    try {
      std::rethrow_exception(error);
    } catch (const steps::detail::unwinding&) {
    } catch (const ErrorCode& code) {
      thrown = code;
    }
  };
  steps::detail::convert_exceptions(
      unless_known,
      [&is_worth, &filter](ErrorCode code, std::string_view, const std::exception*) { is_worth = filter(code); });
  return thrown ? filter(*thrown) : is_worth;
}

template <class T, class Filter, class F>
task<T> make_attempts(steps::detail::filtered_retry<Filter> policy, F f) {
  if (policy.policy.attempts == 0) throw Error(errors::InternalError, "retry() with Retry::attempts of 0");
  steps::detail::pauses pause(policy.policy);
  for (std::size_t failed = 0;;) {
    std::exception_ptr error;
    try {
      co_return co_await detail::attempt(f, failed);
    } catch (...) {
      error = std::current_exception();
    }
    if (++failed >= policy.policy.attempts || !detail::is_worth_another(error, policy.filter))
      std::rethrow_exception(error);
    error = nullptr;  // which may hold much
    const auto now = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
    co_await async::selection(async::after(pause.next(now ^ reinterpret_cast<std::uintptr_t>(&pause))));
  }
}

}  // namespace detail

/// A task that makes attempts until one succeeds: it awaits what f() or, where that is no call, f(std::size_t attempt)
/// returns, from 0 on, such as a task or a future. It has the value of the attempt that succeeds, or throws the
/// exception of the last one, or one that the filter of the Retry refuses.
///
///   std::string text = co_await steps::interop::retry({.attempts = 5}, [&] { return ask(server); });
///
/// Use it for operations that may be repeated and that fail now and then. Do not use it for errors that another attempt
/// does not mend: name those that it may, by on() or when(). In a flow without coroutines it is asi.retry().
///
/// Filter      Retry::on() and when() see the code that a step would have: that of an Error, the text of another
///             exception, Stopped, QueueFull and BrokenPromise. An exception of the predicate takes the error's place.
///             What functions of `asi` throw, which is an error of its step, is not retried.
/// Time        the pause is a wait by async::after() alone: by the clock of the flow's loop in a coroutine that is a
///             step; elsewhere the coroutine may resume on another thread. with_timeout() around retry() limits all
///             attempts and pauses, inside of `f` each attempt.
/// Exceptions  those of the last attempt; Error (InternalError) if Retry::attempts is 0; std::bad_alloc.
/// Lifetime    the task owns a copy of `f`, so captures of a lambda that is a coroutine last as long as the attempts.
/// Memory      a frame, and what an attempt takes.
template <class Filter, class F>
auto retry(steps::detail::filtered_retry<Filter> policy, F&& f) {
  using function = std::decay_t<F>;
  static_assert(detail::attempt_function<function>,
                "the function of retry() is called as f() or f(std::size_t attempt), and returns what is awaited: a "
                "task, a future of this library");
  static_assert(detail::is_destroyed_once<F>(),
                "g++ 12 destroys a lambda with such captures twice when it is made inside a co_await expression: name "
                "the lambda before, and pass it without std::move(): it is copied");
  if constexpr (detail::attempt_function<function>) {
    return detail::make_attempts<detail::attempt_result<function>, Filter, function>(std::move(policy),
                                                                                     std::forward<F>(f));
  } else {
    return detail::refused();
  }
}
template <class F>
auto retry(const Retry& policy, F&& f) {
  return interop::retry(steps::detail::filtered_retry<steps::detail::any_error>{policy, {}}, std::forward<F>(f));
}

}  // namespace steps::inline v0_1::interop
