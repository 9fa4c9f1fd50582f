// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <utility>  // for forward

#include "async/detail/base/invoke.hpp"  // for invoke_and_drop

/// The handlers of the cases of select().
namespace async::inline v0_1::detail {

/// The handler that is used where none is given.
struct no_handler {
  template <class... A>
  void operator()(A&&...) const noexcept {}
};
/// In place of a handler for a closed queue: the case is passed over.
struct passed_over : no_handler {};
template <class F>
inline constexpr bool handles_closing = true;
template <>
inline constexpr bool handles_closing<passed_over> = false;

/// Calls a handler as a thread does.
struct thread_call {
  template <class F, class... V>
  void operator()(F& handler, V&&... values) const {
    detail::invoke_and_drop(handler, std::forward<V>(values)...);
  }
};

/// That a case calls a handler F with V.
template <class F, class... V>
struct handler_call {};
template <class... Calls>
struct handler_calls {};

}  // namespace async::inline v0_1::detail
