// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>      // for size_t
#include <tuple>        // for tuple, tuple_element_t
#include <type_traits>  // for is_invocable_v, invoke_result_t, is_void_v, decay_t
#include <utility>      // for index_sequence, make_index_sequence

#include "async/detail/select/select_case.hpp"     // for is_select_case
#include "async/detail/select/select_handler.hpp"  // for handler_call, handler_calls
#include "steps/detail/engine/callable.hpp"        // for IAsyncSteps, ErrorCode

/// Compile-time messages for the arguments of select().
namespace steps::inline v0_1::detail {

template <class Call>
inline constexpr bool is_step_call = false;
template <class F, class... V>
inline constexpr bool is_step_call<async::detail::handler_call<F, V...>> = [] {
  if constexpr (std::is_invocable_v<F&, IAsyncSteps&, V...>) {
    return std::is_void_v<std::invoke_result_t<F&, IAsyncSteps&, V...>>;
  } else if constexpr (std::is_invocable_v<F&, IAsyncSteps&>) {
    return std::is_void_v<std::invoke_result_t<F&, IAsyncSteps&>>;
  } else {
    return false;
  }
}();
template <class Calls>
inline constexpr bool are_step_calls = false;
template <class... Calls>
inline constexpr bool are_step_calls<async::detail::handler_calls<Calls...>> = (is_step_call<Calls> && ...);

/// True, or a compile-time message, for a case of a flow's select(). C: the deduced type of the argument.
template <class C>
struct check_flow_case {
  static constexpr bool is_case = async::detail::is_select_case<C>;
  static_assert(is_case,
                "asi.select() takes cases that are made in the call, async::on_pop(), on_push(), on_ready(), "
                "..., and then, if wanted, one error handler");
  static constexpr bool ok = [] {
    if constexpr (is_case) {
      constexpr bool calls_steps = are_step_calls<typename C::calls>;
      static_assert(calls_steps,
                    "asi.select() calls the handlers of its cases as step functions: void f(IAsyncSteps&, element) of "
                    "on_pop(), void f(IAsyncSteps&, future&) of on_ready(), void f(IAsyncSteps&) of the others");
      return calls_steps;
    } else {
      return false;
    }
  }();
};

/// The arguments of select(): cases, and an error handler behind them or none.
template <class... A>
struct select_arguments {
  static constexpr std::size_t count = sizeof...(A);
  template <std::size_t Index>
  using at = std::tuple_element_t<Index, std::tuple<A...>>;
  static constexpr bool has_handler = [] {
    if constexpr (count > 1) {
      return !async::detail::is_select_case<at<count - 1>> &&
             std::is_invocable_v<std::decay_t<at<count - 1>>&, IAsyncSteps&, ErrorCode>;
    } else {
      return false;
    }
  }();
  using indices = std::make_index_sequence<has_handler ? count - 1 : count>;
  static constexpr bool ok = []<std::size_t... Index>(std::index_sequence<Index...>) {
    static_assert(sizeof...(Index) != 0, "asi.select() takes at least one case");
    return sizeof...(Index) != 0 && (check_flow_case<at<Index>>::ok && ...);
  }(indices());
};

}  // namespace steps::inline v0_1::detail
