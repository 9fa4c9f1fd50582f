// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <coroutine>  // for coroutine_handle
#include <memory>     // for destroy_at
#include <new>        // for placement new

#include "async/detail/base/block_cache.hpp"        // for allocate_block, free_block
#include "async/detail/loop/loop_ref.hpp"           // for loop_ref
#include "async/detail/queue/queue_awaiter.hpp"     // for queue_awaiter
#include "async/detail/queue/queue_wait_block.hpp"  // for queue_wait, queue_wait_block
#include "steps/detail/engine/engine.hpp"           // for wake
#include "steps/interop/detail/operation.hpp"       // for host, host_of, operation_base

/// Waits of steps' coroutines for queues.
namespace steps::inline v0_1::interop::detail {

/// The block of a coroutine that is a step. A notification becomes a message to the loop, which wakes the step. The
/// step takes the element as it resumes the coroutine. If the coroutine is destroyed before, the element stays.
struct step_block final : async::detail::queue_wait_block, async::detail::message {
  static step_block& make(async::detail::queue_wait& w, host& h) {
    return *::new (async::detail::allocate_block(sizeof(step_block), alignof(step_block))) step_block(w, h);
  }

 private:
  step_block(async::detail::queue_wait& w, host& h) noexcept
      : queue_wait_block(w, to_loop), message(&arrived), loop_(*h.step->flow_->core), home_(h) {}

  static void send(async::detail::queue_wait_block& b) noexcept {
    auto& self = static_cast<step_block&>(b);
    if (async::detail::current_loop == self.loop_.get() && self.is_parked()) {
      return arrived(self, async::detail::delivery::on_loop);
    }
    if (!self.loop_.push(self)) arrived(self, async::detail::delivery::dropped);
  }
  static void arrived(async::detail::message& m, async::detail::delivery how) noexcept {
    auto& self = static_cast<step_block&>(m);
    if (!self.state.claim()) return self.destroy();
    // Otherwise the coroutine is about to be destroyed.
    if (how == async::detail::delivery::on_loop && self.is_parked()) {
      self.home_.next = self.wait.coroutine();
      self.home_.looks_at = &self.wait;
      steps::detail::wake(*self.home_.step->flow_, steps::detail::verdict::rerun);
    }
  }
  bool is_parked() const noexcept { return operation_base::is_parked(home_) && home_.step->flow_->has_no_verdict(); }
  static void freed(async::detail::queue_wait_block& b) noexcept {
    auto& self = static_cast<step_block&>(b);
    std::destroy_at(&self);
    async::detail::free_block(&self, sizeof(step_block), alignof(step_block));
  }
  static constexpr operations to_loop{&send, &freed};

  const async::detail::loop_ref loop_;
  host& home_;  // gone if the state is abandoned
};

/// Waits for a queue: in a step, or in a coroutine that is none.
template <class Call>
class step_queue_awaiter final : public async::detail::queue_awaiter<Call> {
 public:
  using async::detail::queue_awaiter<Call>::queue_awaiter;

  template <class P>
  bool await_suspend(std::coroutine_handle<P> suspending) {
    host* const home = host_of(suspending);
    if (home == nullptr) return async::detail::queue_awaiter<Call>::await_suspend(suspending);
    return this->begin(step_block::make(*this, *home), suspending);
  }
};

}  // namespace steps::inline v0_1::interop::detail
