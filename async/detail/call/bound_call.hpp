// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <tuple>        // for tuple, apply
#include <type_traits>  // for decay_t
#include <utility>      // for forward, in_place, move

#include "async/detail/base/invoke.hpp"  // for invoke_and_drop

namespace async::inline v0_1::detail {

/// A callable that calls f(arguments...) once, with copies of both as rvalues, and drops the result.
template <class... Parts>
class bound_call {
 public:
  template <class... From>
  explicit bound_call(std::in_place_t, From&&... from) : parts_(std::forward<From>(from)...) {}

  void operator()() {
    std::apply([](auto&... part) { detail::invoke_and_drop(std::move(part)...); }, parts_);
  }

 private:
  std::tuple<Parts...> parts_;
};

/// Hands such a call to the core of a pool. Throws what that throws, and what copying throws.
template <class Core, class... Parts>
void submit_bound(Core& core, Parts&&... parts) {
  core.template submit<bound_call<std::decay_t<Parts>...>>(std::in_place, std::forward<Parts>(parts)...);
}

}  // namespace async::inline v0_1::detail
