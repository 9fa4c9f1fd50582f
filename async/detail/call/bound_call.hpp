// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <functional>   // for invoke
#include <tuple>        // for tuple, apply
#include <type_traits>  // for decay_t
#include <utility>      // for forward, move

namespace async::detail {

/// A callable that calls f(arguments...) once, with copies of both as rvalues, and drops the result.
template <class F, class... A>
auto bound_call(F&& f, A&&... arguments) {
  return [f = std::decay_t<F>(std::forward<F>(f)),
          held = std::tuple<std::decay_t<A>...>(std::forward<A>(arguments)...)]() mutable {
    std::apply([&f](auto&... a) { static_cast<void>(std::invoke(std::move(f), std::move(a)...)); }, held);
  };
}

}  // namespace async::detail
