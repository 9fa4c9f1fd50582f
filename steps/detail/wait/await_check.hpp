// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <future>       // for future
#include <type_traits>  // for is_invocable_v, is_lvalue_reference_v, is_same_v, remove_cvref_t, remove_reference_t

#include "async/detail/base/durations.hpp"      // for is_duration
#include "async/detail/select/select_case.hpp"  // for is_select_case
#include "async/event.hpp"                      // for event
#include "async/future.hpp"                     // for future

/// What await() refuses, and why.
namespace steps::inline v0_1::detail {

template <class T>
inline constexpr bool is_future = false;
template <class T>
inline constexpr bool is_future<async::future<T>> = true;
template <class T>
inline constexpr bool is_future<std::future<T>> = true;

template <class T>
inline constexpr bool are_futures = false;
template <class T>
  requires(requires { typename T::value_type; })
inline constexpr bool are_futures<T> = is_future<typename T::value_type>;

template <class T>
concept never_awaited =
    async::detail::is_duration<T> || async::detail::is_select_case<T> || are_futures<T> || std::is_invocable_v<T&>;

template <class What>
concept refused_by_await = (std::is_lvalue_reference_v<What> && is_future<std::remove_reference_t<What>>) ||
                           std::is_same_v<What, async::event> || never_awaited<std::remove_cvref_t<What>>;

template <class What>
struct refusal {
  using type = std::remove_cvref_t<What>;
  static constexpr bool ok = true;
  static_assert(!async::detail::is_duration<type>,
                "a pause is a select() with a time only: write select(async::after(duration))");
  static_assert(!async::detail::is_select_case<type>, "a case is for select(): write select(case)");
  static_assert(!are_futures<type>, "await() takes one future: write await(async::when_all(std::move(futures)))");
  static_assert(!std::is_invocable_v<type&>, "a call needs threads: write await(pool, f, arguments...)");
  static_assert(!is_future<std::remove_reference_t<What>>,
                "await() takes the future away: write await(std::move(future))");
  static_assert(!std::is_same_v<What, async::event>,
                "a flow refers to its event, which outlives it: pass no temporary");
};
template <class What>
inline constexpr bool explain_refusal = refusal<What>::ok;

}  // namespace steps::inline v0_1::detail
