// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>      // for uint16_t
#include <iterator>     // for begin, end
#include <type_traits>  // for decay_t, is_invocable_v

#include "async/detail/base/functional.hpp"  // for reference_wrapper
#include "steps/detail/flow/flow.hpp"        // for record_flag
#include "steps/detail/flow/result.hpp"      // for stored_t
#include "steps/errors.hpp"                  // for ErrorCode

/// The parameter types of step functions, and compile-time messages for functions that cannot be a step.
namespace steps::inline v0_1 {
class IAsyncSteps;
}

namespace steps::inline v0_1::detail {

template <class... T>
struct type_list {};

/// A parameter list could not be determined: the function is overloaded, or a parameter after `asi` has no type.
struct unknown_parameters {};

template <class S>
struct parameters_of_signature {
  using type = unknown_parameters;
};
#define ASYNCSTEPS_SIGNATURE_(qualifiers)                        \
  template <class C, class R, class A, class... P>               \
  struct parameters_of_signature<R (C::*)(A, P...) qualifiers> { \
    using type = type_list<P...>;                                \
  };
ASYNCSTEPS_SIGNATURE_()
ASYNCSTEPS_SIGNATURE_(const)
ASYNCSTEPS_SIGNATURE_(noexcept)
ASYNCSTEPS_SIGNATURE_(const noexcept)
ASYNCSTEPS_SIGNATURE_(&)
ASYNCSTEPS_SIGNATURE_(const&)
ASYNCSTEPS_SIGNATURE_(& noexcept)
ASYNCSTEPS_SIGNATURE_(const& noexcept)
#undef ASYNCSTEPS_SIGNATURE_
template <class R, class A, class... P>
struct parameters_of_signature<R (*)(A, P...)> {
  using type = type_list<P...>;
};
template <class R, class A, class... P>
struct parameters_of_signature<R (*)(A, P...) noexcept> {
  using type = type_list<P...>;
};

/// The parameters after `asi` of a callable that cannot be called with `asi` and `Fixed...` alone.
template <class F>
struct declared_parameters {
  using type = unknown_parameters;
};
template <class F>
  requires std::is_pointer_v<F>
struct declared_parameters<F> : parameters_of_signature<F> {};
template <class F>
  requires requires { &F::operator(); }
struct declared_parameters<F> : parameters_of_signature<decltype(&F::operator())> {};
template <class F>  // a lambda whose only generic parameter is `auto& asi`
  requires requires { &F::template operator()<IAsyncSteps>; }
struct declared_parameters<F> : parameters_of_signature<decltype(&F::template operator()<IAsyncSteps>)> {};
template <class F>
struct declared_parameters<std::reference_wrapper<F>> : declared_parameters<F> {};

/// Drops the first N types.
template <std::size_t N, class L>
struct drop_types;
template <class... T>
struct drop_types<0, type_list<T...>> {
  using type = type_list<T...>;
};
template <std::size_t N, class T, class... R>
  requires(N > 0)
struct drop_types<N, type_list<T, R...>> : drop_types<N - 1, type_list<R...>> {};
template <std::size_t N>
  requires(N > 0)
struct drop_types<N, type_list<>> {
  using type = unknown_parameters;
};
template <std::size_t N>
struct drop_types<N, unknown_parameters> {
  using type = unknown_parameters;
};

/// The results that a callable takes when it is called with `asi` and the values `Fixed...` in front of them.
template <class F, class... Fixed>
struct wanted_results : drop_types<sizeof...(Fixed), typename declared_parameters<F>::type> {};
template <class F, class... Fixed>
  requires std::is_invocable_v<F&, IAsyncSteps&, Fixed...>
struct wanted_results<F, Fixed...> {
  using type = type_list<>;
};

/// The type of the index that the body F of a loop gets: the integral type that it names, else std::size_t.
template <class F>
struct index_parameter {
  using type = std::size_t;
};
template <class P>
concept index_like = std::is_integral_v<std::remove_cvref_t<P>> && !std::is_same_v<std::remove_cvref_t<P>, bool>;
template <class F>
  requires requires { &F::operator(); }
struct index_parameter<F> {
  template <class L>
  struct first {
    using type = std::size_t;
  };
  template <index_like P, class... Rest>
  struct first<type_list<P, Rest...>> {
    using type = std::remove_cvref_t<P>;
  };
  using type = typename first<typename parameters_of_signature<decltype(&F::operator())>::type>::type;
};
/// Converts the index here, since a conversion in the call would cause a warning.
template <class F>
constexpr auto index_for(std::size_t i) noexcept {
  return static_cast<typename index_parameter<F>::type>(i);
}

/// The type of the result that a step parameter of type P takes.
template <class P>
using wanted_value = std::remove_cvref_t<P>;

template <class P>
inline constexpr bool is_result_parameter =
    !std::is_lvalue_reference_v<P> || std::is_const_v<std::remove_reference_t<P>>;
template <class P>
inline constexpr bool is_storable_parameter = std::is_same_v<stored_t<wanted_value<P>>, wanted_value<P>>;

/// Hands a tuple element to a parameter of type P: moved for values and P&&, as a view for const P&.
template <class P, class T>
constexpr decltype(auto) hand_over(T& value) noexcept {
  if constexpr (std::is_lvalue_reference_v<P>) {
    return static_cast<const T&>(value);
  } else {
    return static_cast<T&&>(value);
  }
}

/// False when F is called with A and returns something, which would be lost.
template <class F, class... A>
constexpr bool returns_nothing() noexcept {
  if constexpr (std::is_invocable_v<F&, A...>) {
    return std::is_void_v<std::invoke_result_t<F&, A...>>;
  } else {
    return true;
  }
}

template <class F, class List, class... Fixed>
struct check_results;
template <class F, class... Fixed>
struct check_results<F, unknown_parameters, Fixed...> {
  static constexpr bool ok = false;
  static_assert(
      sizeof...(Fixed) != 0,
      "a step function is called as f(IAsyncSteps&, results...): asi comes first, what follows needs types (not "
      "auto), and it must not be overloaded");
  static_assert(
      sizeof...(Fixed) != 1,
      "the body of repeat() is called as f(IAsyncSteps&, std::size_t index, results...): what follows the index "
      "needs types (not auto), and it must not be overloaded");
  static_assert(
      sizeof...(Fixed) != 2,
      "the body of forEach() is called as f(IAsyncSteps&, index or key, element&, results...): what follows the "
      "element needs types (not auto), and it must not be overloaded");
};
template <class F, class... P, class... Fixed>
struct check_results<F, type_list<P...>, Fixed...> {
  static_assert((is_result_parameter<P> && ...),
                "a step takes results by value, T&& or const T&, not by T&: they belong to nobody else");
  static_assert((is_storable_parameter<P> && ...),
                "a text passed to success() arrives as std::string: take std::string, not a pointer to characters");
  static constexpr bool is_called = std::is_invocable_v<F&, IAsyncSteps&, Fixed..., P...>;
  static_assert(is_called || sizeof...(Fixed) != 0, "a step function is called as f(IAsyncSteps&, results...)");
  static_assert(is_called || sizeof...(Fixed) != 1,
                "the body of repeat() is called as f(IAsyncSteps&, std::size_t index, results...)");
  static_assert(is_called || sizeof...(Fixed) != 2,
                "the body of forEach() is called as f(IAsyncSteps&, index or key, element&, results...)");
  static_assert(
      returns_nothing<F, IAsyncSteps&, Fixed..., P...>(),
      "a step function returns void: hand results to the next step with asi.success(...); a coroutine is made a "
      "step by co()");
  static constexpr bool ok = true;
};

/// True, or a compile-time message, for a callable used as step. Fixed are the values that loops pass in front of the
/// results.
template <class F, class... Fixed>
inline constexpr bool is_step_function = check_results<F, typename wanted_results<F, Fixed...>::type, Fixed...>::ok;

/// F: the deduced type of the argument, a reference where it was no temporary.
template <class F>
struct check_kept {
  static_assert(std::is_constructible_v<std::decay_t<F>, F>,
                "a step keeps its function: one that cannot be copied is moved in, as add(std::move(f))");
  static constexpr bool ok = true;
};
/// True, or a compile-time message, for a callable that a step stores.
template <class F>
inline constexpr bool is_kept = check_kept<F>::ok;

/// A: the deduced types of the results, references where they were no temporaries.
template <class... A>
struct check_result_values {
  static constexpr bool ok =
      ((std::is_constructible_v<stored_t<A>, A> && std::is_move_constructible_v<stored_t<A>>) && ...);
  static_assert(ok, "results are copied or moved to the next step: what cannot be copied as success(std::move(value))");
};
/// True, or a compile-time message, for the arguments of success().
template <class... A>
inline constexpr bool are_results = check_result_values<A...>::ok;

/// C: the deduced type of the container.
template <class C>
struct check_elements {
  static constexpr bool ok =
      requires(std::remove_reference_t<std::unwrap_reference_t<std::decay_t<C>>>& c) { std::begin(c) == std::end(c); };
  static_assert(ok, "forEach() goes over a container, or over the one that a std::ref() is to");
};
/// True, or a compile-time message, for the container of forEach().
template <class C>
inline constexpr bool has_elements = check_elements<C>::ok;

/// True, or a compile-time message, for the type of a future.
template <class T>
struct check_future {
  static constexpr bool ok = std::is_void_v<T> || (std::is_object_v<T> && std::is_move_constructible_v<T>);
  static_assert(ok, "the future of a flow has a type that can be moved, or void: no reference");
  static_assert(!ok || is_storable_parameter<T>, "flows pass text as std::string: promise<std::string>()");
};
template <class T>
inline constexpr bool is_future_type = check_future<T>::ok;

template <class E>
struct check_handler {
  static_assert(std::is_invocable_v<E&, IAsyncSteps&, ErrorCode>,
                "an error handler is called as f(IAsyncSteps&, steps::ErrorCode)");
  static_assert(returns_nothing<E, IAsyncSteps&, ErrorCode>(),
                "an error handler returns void: recover with asi.success(...), replace the error with asi.error(...)");
  static constexpr bool ok = true;
};
template <class E>
inline constexpr bool is_error_handler = check_handler<E>::ok;

/// No error handler.
struct no_handler {};
template <class E>
inline constexpr bool is_handler_or_none = is_error_handler<E>;
template <>
inline constexpr bool is_handler_or_none<no_handler> = true;
template <class Face, class E>
void call_handler(E& handler, Face& asi, ErrorCode code) {
  if constexpr (!std::is_same_v<E, no_handler>) handler(asi, code);
}
/// The record_flag of a step with that handler.
template <class E>
inline constexpr std::uint16_t flag_of = record_flag::handler;
template <>
inline constexpr std::uint16_t flag_of<no_handler> = 0;

}  // namespace steps::inline v0_1::detail
