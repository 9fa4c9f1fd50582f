// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <coroutine>    // for coroutine_handle
#include <cstddef>      // for byte
#include <cstdint>      // for uint16_t
#include <memory>       // for addressof
#include <tuple>        // for tuple, apply
#include <type_traits>  // for invoke_result_t, is_same_v, remove_cvref_t
#include <utility>      // for exchange, forward, move

#include "async/detail/base/invoke.hpp"  // for invoke
#include "steps/iasyncsteps.hpp"         // for IAsyncSteps
#include "steps/interop/task.hpp"        // for task

/// Coroutines as steps. The coroutine belongs to an inner step, whose function the engine calls again each time a wait
/// of the coroutine has ended. The frame is a stack() object of that step.
namespace steps::inline v0_1::interop::detail {

/// Runs the coroutine of a step, in the step's function, until it waits or ends. True: it has ended.
inline bool run_until_wait(IAsyncSteps& asi, host& home, std::coroutine_handle<> coroutine) {
  steps::detail::flow& f = *asi.flow_;
  const std::coroutine_handle<> next = std::exchange(home.next, nullptr);
  if (steps::detail::step* const ended = std::exchange(home.inner, nullptr)) {
    steps::detail::set_top(f, reinterpret_cast<std::byte*>(ended));
  }
  home.ready_left = host::ready_limit;
  asi.flags_ &= static_cast<std::uint16_t>(~steps::detail::record_flag::resumes);
  if (async::detail::coroutine_wait* const wait = std::exchange(home.looks_at, nullptr)) {
    if (!wait->look_again()) {
      f.mark_wait();
      return false;
    }
  }
  if (next) next.resume();
  if (coroutine.done()) return true;
  if (std::exchange(home.gives_way, false) && f.may_complete()) {
    asi.flags_ |= steps::detail::record_flag::resumes;
    f.mark_yield();
    return false;
  }
  if (f.current_verdict() == steps::detail::verdict::yield) {
    steps::detail::misuse(f, "a coroutine gives way by relinquish() and waits: co_await schedule(asi.tool())");
  } else if (f.first != home.inner) {
    steps::detail::misuse(f, "a coroutine adds steps to its own step: await a flow with execute()");
  } else {
    f.mark_wait();
  }
  return false;
}

/// A coroutine with its step, as a stack() object of the step.
template <class T>
struct step_frame {
  /// Throws Error for a task that cannot begin.
  step_frame(IAsyncSteps& asi, task<T>&& t) : home(asi), coroutine(std::move(t)) {
    if (!coroutine.can_begin()) refuse_task();
    auto& promise = coroutine.coroutine_.promise();
    promise.home = &home;
    home.next = coroutine.coroutine_;
  }

  /// Runs the coroutine until it waits or ends. In the step's function.
  void resume(IAsyncSteps& asi) {
    if (!detail::run_until_wait(asi, home, coroutine.coroutine_)) return;
    if constexpr (std::is_void_v<T>) {
      coroutine.coroutine_.promise().get();
      if (asi.flow_->may_complete()) asi.success();
    } else {
      asi.success(coroutine.coroutine_.promise().get());
    }
  }

  host home;
  task<T> coroutine;
};

}  // namespace steps::inline v0_1::interop::detail

namespace steps::inline v0_1::detail {
template <class T>
inline constexpr bool is_coroutine<interop::detail::step_frame<T>> = true;
}  // namespace steps::inline v0_1::detail

namespace steps::inline v0_1::interop::detail {

template <class T>
struct task_value;
template <class T>
struct task_value<task<T>> {
  using type = T;
};

/// The function of the inner step: called when the step begins, and each time the coroutine can resume.
template <class F, class... P>
class coroutine_runner {
 public:
  coroutine_runner(F& f, P&&... results) : function_(std::addressof(f)), results_(std::move(results)...) {}

  void operator()(IAsyncSteps& asi) {
    if (frame_ == nullptr) {
      asi.flags_ |= steps::detail::record_flag::begun | steps::detail::record_flag::coroutine;
      frame_ = &asi.stack<step_frame<value>>(
          asi, std::apply([&](P&... p) { return async::detail::invoke(*function_, asi, std::move(p)...); }, results_));
    }
    frame_->resume(asi);
  }

 private:
  using value = typename task_value<std::invoke_result_t<F&, IAsyncSteps&, P...>>::type;

  F* function_;  // the outer step's
  std::tuple<P...> results_;
  step_frame<value>* frame_ = nullptr;
};

template <class R>
inline constexpr bool is_task = false;
template <class T>
inline constexpr bool is_task<task<T>> = true;

template <class F, class List>
class coroutine_step;
template <class F>
class coroutine_step<F, steps::detail::unknown_parameters> {
  static_assert(async::detail::never<F>,
                "co(f) calls f(IAsyncSteps&, results...): asi comes first, what follows needs types (not auto), and it "
                "must not be overloaded; a task<> itself is made inside: co([](IAsyncSteps&) { return f(); })");

 public:
  explicit coroutine_step(const F&);
  void operator()(IAsyncSteps&);
};
template <class F, class... P>
class coroutine_step<F, steps::detail::type_list<P...>> {
  static_assert((!std::is_reference_v<P> && ...),
                "a coroutine step takes results by value: its frame keeps values only, and they are used after a wait");
  static_assert(std::is_invocable_v<F&, IAsyncSteps&, P...>,
                "a coroutine step is called as f(IAsyncSteps&, results...)");
  static_assert(is_task<std::invoke_result_t<F&, IAsyncSteps&, P...>>,
                "a coroutine step returns steps::interop::task<T>");

 public:
  static constexpr bool is_coroutine_step = true;
  template <class G>
    requires(!std::is_same_v<std::remove_cvref_t<G>, coroutine_step>)
  explicit coroutine_step(G&& g) : function_(std::forward<G>(g)) {}

  void operator()(IAsyncSteps& asi, P... results) {
    asi.add(coroutine_runner<F, P...>(function_, std::move(results)...));
  }

 private:
  F function_;
};

}  // namespace steps::inline v0_1::interop::detail
