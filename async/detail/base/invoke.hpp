// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <tuple>        // for apply, forward_as_tuple
#include <type_traits>  // for invoke_result_t
#include <utility>      // for forward

#include "async/detail/base/config.hpp"          // for ASYNCSTEPS_FUNCTION
#include "async/detail/base/lazy_coroutine.hpp"  // for has_begun
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
