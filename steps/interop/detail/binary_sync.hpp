// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <tuple>    // for apply, make_tuple
#include <utility>  // for forward, move

#include "steps/iasyncsteps.hpp"                  // for IAsyncSteps, scope
#include "steps/interop/binary.h"                 // for FutoInSync
#include "steps/interop/detail/binary_steps.hpp"  // for binary_steps

/// Flows of this library in synchronisation objects behind FTN12's functions (2.7.3).
namespace steps::inline v0_1::interop::detail {

/// A place of a flow in such an object, or its wait for one. It ends with the step of sync_with().
class foreign_place {
 public:
  foreign_place(IAsyncSteps& owner, FutoInSync& object, const FutoInAsyncStepsAPI& functions,
                steps::detail::passed_results&& r)
      : owner_(owner), object_(object), face_(&functions, &owner), results_(std::move(r)) {}
  foreign_place(const foreign_place&) = delete;
  foreign_place& operator=(const foreign_place&) = delete;
  ~foreign_place() {
    if (!is_locked_) return;
    face_.asi = &owner_;
    object_.api->unlock(&face_, &object_);
  }

  /// In a step, which ends with the place.
  void lock(IAsyncSteps& asi) {
    steps::detail::make_scope<outcome>(*asi.flow_, asi, is_locked_);
    face_.asi = &asi;
    object_.api->lock(&face_, &object_);
  }
  /// In the next step: passes the results from before sync_with() on.
  void pass_on(IAsyncSteps& asi) {
    results_.pass_on(*asi.flow_);
    asi.flow_->mark_success();
  }

 private:
  /// Whether the step of lock() has succeeded.
  struct outcome : steps::detail::scope {
    explicit outcome(bool& to) noexcept : has_succeeded(to) {}
    static void left(scope& self) noexcept {
      static_cast<outcome&>(self).has_succeeded = self.ops != nullptr;  // else taken off, by an error or cancel
    }
    static constexpr steps::detail::scope_ops ops{steps::detail::scope_ops::kind::leave_first, nullptr, &left};

    bool& has_succeeded;
  };

  IAsyncSteps& owner_;
  FutoInSync& object_;
  binary_steps face_;
  steps::detail::passed_results results_;
  bool is_locked_ = false;
};

/// asi.sync() with such an object.
template <class F, class... E>
void sync_with(IAsyncSteps& asi, FutoInSync& object, const FutoInAsyncStepsAPI& functions, F&& f, E&&... e) {
  asi.add([&object, &functions, step = std::make_tuple(std::forward<F>(f), std::forward<E>(e)...)](
              IAsyncSteps& outer, steps::detail::passed_results&& results) mutable {
    auto& place = outer.stack<foreign_place>(outer, object, functions, std::move(results));
    outer.add([&place](IAsyncSteps& inner) { place.lock(inner); });
    outer.add([&place](IAsyncSteps& inner) { place.pass_on(inner); });
    std::apply([&outer](auto&... parts) { outer.add(std::move(parts)...); }, step);
  });
}

}  // namespace steps::inline v0_1::interop::detail
