// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <future>       // for future
#include <type_traits>  // for is_lvalue_reference_v, is_same_v, remove_reference_t

#include "async/event.hpp"   // for event
#include "async/future.hpp"  // for future

/// What await() refuses, and why.
namespace steps::inline v0_1::detail {

template <class T>
inline constexpr bool is_future = false;
template <class T>
inline constexpr bool is_future<async::future<T>> = true;
template <class T>
inline constexpr bool is_future<std::future<T>> = true;

template <class What>
concept refused_by_await = (std::is_lvalue_reference_v<What> && is_future<std::remove_reference_t<What>>) ||
                           std::is_same_v<What, async::event>;

template <class What>
struct refusal {
  static constexpr bool ok = true;
  static_assert(!is_future<std::remove_reference_t<What>>,
                "await() takes the future away: write await(std::move(future))");
  static_assert(!std::is_same_v<What, async::event>,
                "a flow refers to its event, which outlives it: pass no temporary");
};
template <class What>
inline constexpr bool explain_refusal = refusal<What>::ok;

}  // namespace steps::inline v0_1::detail
