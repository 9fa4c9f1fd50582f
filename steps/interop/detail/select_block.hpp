// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <coroutine>  // for coroutine_handle

#include "async/detail/loop/loop_ref.hpp"            // for loop_ref
#include "async/detail/select/select_awaiter.hpp"    // for select_awaiter
#include "async/detail/select/select_coroutine.hpp"  // for select_coroutine
#include "steps/detail/engine/engine.hpp"            // for wake
#include "steps/interop/detail/operation.hpp"        // for host, host_of, operation_base

/// Waits of steps' coroutines for the first of several things.
namespace steps::inline v0_1::interop::detail {

/// A coroutine that is a step. A wake-up becomes a message to the loop, which wakes the step; the step looks at the
/// cases as it resumes the coroutine.
class selecting_step : public async::detail::select_coroutine, async::detail::message {
 public:
  selecting_step(action to_free, async::detail::coroutine_wait& w, host& h) noexcept
      : select_coroutine(&woken, to_free, w), message(&arrived), loop_(*h.step->flow_->core), home_(h) {}

 private:
  static void woken(async::detail::select_waiter& w) noexcept {
    auto& self = static_cast<selecting_step&>(w);
    if (!self.state.notify()) return self.release();
    if (async::detail::current_loop == self.loop_.get() && self.is_parked()) {
      return arrived(self, async::detail::delivery::on_loop);
    }
    if (!self.loop_.push(self)) arrived(self, async::detail::delivery::dropped);
  }
  static void arrived(async::detail::message& m, async::detail::delivery how) noexcept {
    auto& self = static_cast<selecting_step&>(m);
    // A coroutine that is not parked is about to be destroyed.
    if (self.state.claim() && how == async::detail::delivery::on_loop && self.is_parked()) {
      self.home_.next = self.wait.coroutine();
      self.home_.looks_at = &self.wait;
      steps::detail::wake(*self.home_.step->flow_, steps::detail::verdict::rerun);
    }
    self.release();
  }
  bool is_parked() const noexcept { return operation_base::is_parked(home_) && home_.step->flow_->has_no_verdict(); }

  const async::detail::loop_ref loop_;
  host& home_;  // gone if the state is abandoned
};

/// Waits for the first of several cases: in a step, or in a coroutine that is none.
template <class... Cases>
class step_select_awaiter final : public async::detail::select_awaiter<Cases...> {
  using base = async::detail::select_awaiter<Cases...>;

 public:
  using base::base;

  template <class P>
  bool await_suspend(std::coroutine_handle<P> suspending) {
    host* const home = host_of(suspending);
    if (home == nullptr) return base::await_suspend(suspending);
    async::detail::loop_core& core = *home->step->flow_->core;
    this->start_alarm(this->template make_waiter<selecting_step>(*home),
                      [&core]() -> async::event_loop& { return core.loop(); });
    return this->begin(suspending);
  }
};

}  // namespace steps::inline v0_1::interop::detail
