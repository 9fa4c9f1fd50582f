// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <coroutine>    // for coroutine_handle
#include <cstddef>      // for byte
#include <exception>    // for rethrow_exception
#include <optional>     // for optional
#include <string_view>  // for string_view
#include <type_traits>  // for is_void_v
#include <utility>      // for exchange, move

#include "async/detail/loop/loop_core.hpp"      // for current_loop
#include "async/threadpool.hpp"                 // for threadpool
#include "steps/asyncsteps.hpp"                 // for AsyncSteps
#include "steps/interop/detail/awaiters.hpp"    // for flow_awaiter
#include "steps/interop/detail/child_task.hpp"  // for child_task, child_runner, ended_tasks
#include "steps/interop/detail/operation.hpp"   // for host, host_of, withdrawable
#include "steps/interop/task.hpp"               // for task, refuse_task

/// The wait for tasks that run in steps.
namespace steps::inline v0_1::interop::detail {

/// A flow for the tasks of a coroutine that is no step.
struct flow_of_tasks {
  explicit flow_of_tasks(async::event_loop& loop) : root(loop) {}
  explicit flow_of_tasks(async::threadpool& pool) : root(pool) {}

  AsyncSteps root;
  flow_awaiter<void> end{root};
};

/// The base of awaiters whose tasks run in steps below the coroutine's. Self has add_steps(IAsyncSteps& asi), which
/// adds one step to asi, unless asi is failing; and begins(), which tells whether there is any, or throws.
///
/// In a coroutine that is a step, the added step is a sub-step of this step. When it has ended, the engine runs the
/// step again (record_flag::resumes). An error from outside, such as a timeout, passes through it and ends the step.
template <class Self>
class inner_steps : withdrawable {
 public:
  inner_steps(const inner_steps&) = delete;
  inner_steps& operator=(const inner_steps&) = delete;

  bool await_ready() const noexcept { return false; }
  template <class P>
  bool await_suspend(std::coroutine_handle<P> coroutine) {
    if (!self().begins()) return false;
    if (host* const home = host_of(coroutine)) return begin_in_step(*home, coroutine), true;
    flow_of_tasks& own = make_flow();
    own.root.add([this](IAsyncSteps& asi) { self().add_steps(asi); });
    return own.end.await_suspend(coroutine);
  }

 protected:
  inner_steps() noexcept = default;
  ~inner_steps() = default;

  [[noreturn]] static void refuse(std::string_view why) { throw Error(errors::InternalError, why); }

  /// All have ended. Throws what has ended an own flow from outside.
  void collect() {
    if (own_.has_value()) own_->end.await_resume();
  }
  [[noreturn]] static void rethrow(std::exception_ptr& error) {
    if (error == nullptr) refuse("the step of a task has failed without an exception");
    std::rethrow_exception(std::exchange(error, nullptr));
  }

 private:
  Self& self() noexcept { return static_cast<Self&>(*this); }

  /// In the step's function. The coroutine is resumed by the step's next run.
  void begin_in_step(host& home, std::coroutine_handle<> coroutine) {
    auto& asi = static_cast<IAsyncSteps&>(*home.step);
    steps::detail::flow& f = *asi.flow_;
    // The step has succeeded and ends where the coroutine waits; or the coroutine has added steps, which is found
    // later.
    if (f.has_succeeded() || f.first != nullptr) return;
    try {
      self().add_steps(asi);
    } catch (...) {
      if (steps::detail::step* const added = f.first; added != nullptr) {
        steps::detail::destroy_added_steps(f);
        steps::detail::set_top(f, reinterpret_cast<std::byte*>(added));
      }
      throw;
    }
    if (f.first == nullptr) return;  // the step is failing or cancelled
    asi.flags_ |= steps::detail::record_flag::resumes;
    home.inner = f.first;
    home.next = coroutine;
  }
  flow_of_tasks& make_flow() {
    async::detail::loop_core* const here = async::detail::current_loop;
    async::threadpool* const pool = async::threadpool::current();
    if (here != nullptr && !(pool != nullptr && here->is_of_pool())) return own_.emplace(here->loop());
    if (pool != nullptr) return own_.emplace(*pool);
    refuse("a wait for tasks outside of loops and pools: co_await schedule(pool), or of a loop, before");
  }

  std::optional<flow_of_tasks> own_;  // of a coroutine that is no step; engaged when the wait begins
};

/// One task. A base in front of inner_steps, so that its flow ends before the task is destroyed.
template <class T>
class one_task {
 protected:
  explicit one_task(task<T>&& work) noexcept : child_(std::move(work)) {}

  child_task<T> child_;
  ended_tasks ended_;
};
/// The same for one task, whose coroutine runs in the step that add_steps() adds, or below it.
template <class T, class Self>
class inner_task : one_task<T>, public inner_steps<Self> {
 public:
  bool begins() {
    if (!this->child_.can_begin()) refuse_task();
    return true;
  }

 protected:
  explicit inner_task(task<T>&& work) noexcept : one_task<T>(std::move(work)) {}

  /// The function of a step that runs the task.
  child_runner<T> runner() noexcept { return child_runner<T>(this->child_, this->ended_); }
  /// True when it has a value or an exception.
  bool has_ended() const noexcept { return this->child_.value.has_value() || this->child_.error != nullptr; }
  /// Its value, or throws its exception.
  T outcome() {
    if (!this->child_.value.has_value()) this->rethrow(this->child_.error);
    if constexpr (!std::is_void_v<T>) return this->child_.take_value();
  }
};

}  // namespace steps::inline v0_1::interop::detail
