// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <memory>   // for addressof, destroy_at
#include <utility>  // for move

#include "steps/iasyncsteps.hpp"  // for step, scope, flow

namespace steps::inline v0_1 {

namespace detail {

/// Calls function() when the step ends by an error, a timeout or cancel(), before its cancel handlers; not on success.
template <class F>
struct abort_scope : scope {
  explicit abort_scope(F&& f) noexcept : function(std::move(f)) {}
  static void left(scope& self) noexcept {
    auto& s = static_cast<abort_scope&>(self);
    if (self.ops == nullptr) s.function();  // by error or cancel: the scope has been taken off first
    std::destroy_at(std::addressof(s.function));
  }
  // As for timers: left before the cancel handlers run, and not replaced by setCancel().
  static constexpr scope_ops ops{scope_ops::kind::leave_first, nullptr, &left};

  F function;
};

/// Makes one for a step whose function runs.
template <class F>
void on_abort(step& s, F function) {
  flow& f = *s.flow_;
  if (!has_room(f, sizeof(abort_scope<F>))) throw unwinding(errors::InternalError, info_of(f));
  make_scope<abort_scope<F>>(f, s, std::move(function));
}

}  // namespace detail

}  // namespace steps::inline v0_1
