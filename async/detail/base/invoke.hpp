// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <concepts>     // for same_as
#include <tuple>        // for apply, forward_as_tuple
#include <type_traits>  // for invoke_result_t, remove_cv_t, remove_cvref_t, true_type
#include <utility>      // for forward

#include "async/detail/base/config.hpp"  // for ASYNCSTEPS_FUNCTION
#if ASYNCSTEPS_DEFINED
#include "async/detail/base/functional.hpp"  // for bad_function_call
#endif

namespace async::inline v0_1::detail {

/// std::invoke without `<functional>`, which takes a tenth of the time that files of users take to compile.
template <class F, class... A>
[[gnu::always_inline]] constexpr std::invoke_result_t<F, A...> invoke(F&& f, A&&... arguments) {
  if constexpr (sizeof...(A) == 0) {
    return std::forward<F>(f)();
  } else {  // which converts arguments in a header of the system, where compilers do not warn
    return std::apply(std::forward<F>(f), std::forward_as_tuple(std::forward<A>(arguments)...));
  }
}

/// The type of a static member `is_task` of coroutines that begin when they are awaited, such as steps::interop::task.
struct lazy_mark : std::true_type {};
template <class R>
concept lazy_coroutine = std::same_as<std::remove_cv_t<decltype(std::remove_cvref_t<R>::is_task)>, lazy_mark>;

/// To be asserted of the result of a user's function that is called, not awaited.
template <class R>
consteval bool has_begun() {
  static_assert(
      !lazy_coroutine<R>,
      "the function is a coroutine, which begins when it is awaited: nobody awaits it here. Write start(f()), "
      "or make it a step by co(f)");
  return true;
}

/// Calls a function of the user whose result nobody gets.
template <class F, class... A>
[[gnu::always_inline]] constexpr void invoke_and_drop(F&& f, A&&... arguments) {
  static_assert(has_begun<std::invoke_result_t<F, A...>>());
  static_cast<void>(detail::invoke(std::forward<F>(f), std::forward<A>(arguments)...));
}

/// Throws std::bad_function_call.
[[noreturn]] void throw_bad_function_call();

#if ASYNCSTEPS_DEFINED
[[noreturn, gnu::noinline]] ASYNCSTEPS_FUNCTION void throw_bad_function_call() { throw std::bad_function_call(); }
#endif

}  // namespace async::inline v0_1::detail
