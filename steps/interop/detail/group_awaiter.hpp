// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <utility>  // for exchange

#include "steps/iasyncsteps.hpp"                 // for IAsyncSteps
#include "steps/interop/detail/child_task.hpp"   // for child_task, child_runner, ended_tasks
#include "steps/interop/detail/inner_steps.hpp"  // for inner_steps

/// The wait for several tasks.
namespace steps::inline v0_1::interop::detail {

/// The base of awaiters for several tasks, which become branches of a parallel() or race(). Self has each(f), which
/// calls f(child_task&) in order, and is_race.
template <class Self>
class group_awaiter : public inner_steps<Self> {
 public:
  /// Throws Error for misuse.
  bool begins() {
    bool any = false;
    bool complete = !std::exchange(began_, true);
    self().each([&](auto& child) {
      any = true;
      complete = complete && child.can_begin();
    });
    if (!any && Self::is_race) this->refuse("when_any() of no tasks would never end");
    if (!complete) this->refuse("when_all() or when_any() of a task that has been moved from or awaited");
    return any;
  }
  void add_steps(IAsyncSteps& asi) {
    IAsyncSteps& group = add_group(asi);
    if (&group == &asi) return;
    self().each([&]<class T>(child_task<T>& child) { group.add(child_runner<T>(child, ended_)); });
  }

 protected:
  group_awaiter() noexcept = default;
  ~group_awaiter() = default;

 private:
  Self& self() noexcept { return static_cast<Self&>(*this); }

  static IAsyncSteps& add_group(IAsyncSteps& asi) {
    const auto recover = [](IAsyncSteps& group, ErrorCode code) {
      if (code == task_failed) group.success();
    };
    if constexpr (Self::is_race) {
      return asi.race(recover);
    } else {
      return asi.parallel(recover);
    }
  }

  ended_tasks ended_;
  bool began_ = false;
};

}  // namespace steps::inline v0_1::interop::detail
