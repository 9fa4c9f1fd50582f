// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <coroutine>    // for coroutine_handle
#include <cstddef>      // for byte
#include <exception>    // for rethrow_exception
#include <optional>     // for optional
#include <string_view>  // for string_view
#include <utility>      // for exchange

#include "async/detail/loop/loop_core.hpp"      // for current_loop
#include "async/threadpool.hpp"                 // for threadpool
#include "steps/asyncsteps.hpp"                 // for AsyncSteps
#include "steps/interop/detail/awaiters.hpp"    // for flow_awaiter
#include "steps/interop/detail/child_task.hpp"  // for child_task, child_runner, ended_tasks
#include "steps/interop/detail/operation.hpp"   // for host, host_of, withdrawable

/// The wait for several tasks.
namespace steps::inline v0_1::interop::detail {

/// A flow for the tasks of a coroutine that is no step.
struct flow_of_tasks {
  explicit flow_of_tasks(async::event_loop& loop) : root(loop) {}
  explicit flow_of_tasks(async::threadpool& pool) : root(pool) {}

  AsyncSteps root;
  flow_awaiter<void> end{root};
};

/// The base of awaiters for several tasks. Self has each(f), which calls f(child_task&) in order; is_race, and `call`,
/// its name in errors.
///
/// In a coroutine that is a step, the tasks become branches of a parallel() or race() that is a sub-step of this step.
/// When they have ended, the engine runs the step again (record_flag::resumes). An error from outside, such as a
/// timeout, passes through the group and ends the step.
template <class Self>
class group_awaiter : withdrawable {
 public:
  group_awaiter(const group_awaiter&) = delete;
  group_awaiter& operator=(const group_awaiter&) = delete;

  bool await_ready() const noexcept { return false; }
  template <class P>
  bool await_suspend(std::coroutine_handle<P> coroutine) {
    if (!is_any_left()) return false;
    if (host* const home = host_of(coroutine)) return begin_in_step(*home, coroutine), true;
    make_flow();
    own_->root.add([this](IAsyncSteps& asi) { add_branches(add_group(asi)); });
    return own_->end.await_suspend(coroutine);
  }

 protected:
  group_awaiter() noexcept = default;
  ~group_awaiter() = default;

  /// All have ended. Throws what has ended an own flow from outside.
  void collect() {
    if (own_.has_value() && began_) own_->end.await_resume();
  }
  [[noreturn]] static void rethrow(std::exception_ptr& error) {
    if (error == nullptr) throw Error(errors::InternalError, "a branch of tasks has failed without an exception");
    std::rethrow_exception(std::exchange(error, nullptr));
  }

 private:
  Self& self() noexcept { return static_cast<Self&>(*this); }
  [[noreturn]] static void refuse(std::string_view why) { throw Error(errors::InternalError, why); }

  /// Throws Error for misuse.
  bool is_any_left() {
    bool any = false;
    bool complete = !std::exchange(began_, true);
    self().each([&](auto& child) {
      any = true;
      complete = complete && child.can_begin();
    });
    if (!any && Self::is_race) refuse("when_any() of no tasks would never end");
    if (!complete) refuse("when_all() or when_any() of a task that has been moved from or awaited");
    return any;
  }
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
  void add_branches(IAsyncSteps& group) {
    self().each([&]<class T>(child_task<T>& child) { group.add(child_runner<T>(child, ended_)); });
  }
  /// In the step's function. The coroutine is resumed by the step's next run.
  void begin_in_step(host& home, std::coroutine_handle<> coroutine) {
    auto& asi = static_cast<IAsyncSteps&>(*home.step);
    steps::detail::flow& f = *asi.flow_;
    if (f.first != nullptr) return;  // the coroutine has added steps, which is found when this has returned
    IAsyncSteps& group = add_group(asi);
    if (&group == &asi) return;  // the step is failing or cancelled
    try {
      add_branches(group);
    } catch (...) {
      steps::detail::destroy_added_steps(f);
      steps::detail::set_top(f, reinterpret_cast<std::byte*>(static_cast<steps::detail::step*>(&group)));
      throw;
    }
    asi.flags_ |= steps::detail::record_flag::resumes;
    home.group = &group;
    home.next = coroutine;
  }
  void make_flow() {
    async::detail::loop_core* const here = async::detail::current_loop;
    async::threadpool* const pool = async::threadpool::current();
    if (here != nullptr && !(pool != nullptr && here->is_of_pool())) {
      own_.emplace(here->loop());
    } else if (pool != nullptr) {
      own_.emplace(*pool);
    } else {
      refuse("when_all() or when_any() outside of loops and pools: co_await schedule(pool) before");
    }
  }

  ended_tasks ended_;
  bool began_ = false;
  std::optional<flow_of_tasks> own_;  // of a coroutine that is no step
};

}  // namespace steps::inline v0_1::interop::detail
