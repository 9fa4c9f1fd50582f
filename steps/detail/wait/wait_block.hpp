// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "async/detail/loop/loop_ref.hpp"            // for loop_ref
#include "steps/detail/flow/wait_state.hpp"          // for wait_state
#include "steps/detail/root/flow_control_block.hpp"  // for deliver

/// The wait of a step for something outside of its flow.
namespace steps::inline v0_1::detail {

/// The block that the tokens of one wait share with its step. The step's scope closes it when the step ends.
struct wait_block : async::detail::message {
  wait_block(message::function arrive, step& s, void (*d)(wait_block&) noexcept) noexcept
      : message(arrive), loop(*s.flow_->core), waiting(&s), destroy(d) {}

  void release() noexcept {
    if (wait.release()) destroy(*this);
  }
  /// The step does not wait any more. On the loop's thread.
  void close() noexcept {
    waiting = nullptr;
    wait.close();
    release();
  }
  /// Hands the winner's result, which is stored, to the step. At once on the loop's thread when no callback of the flow
  /// is on the stack, else by a message. False: the loop has gone.
  bool send() noexcept {
    wait.share();
    if (async::detail::current_loop == loop.get() && waiting != nullptr && waiting->flow_->is_waiting()) {
      deliver(*this, async::detail::delivery::on_loop);
      return true;
    }
    if (loop.push(*this)) return true;
    wait.refused();
    release();
    return false;
  }

  wait_state wait;
  const async::detail::loop_ref loop;
  step* waiting;  // the loop thread's; null: the step does not wait any more
  void (*const destroy)(wait_block&) noexcept;
};

/// The step's side of a wait_block.
struct wait_scope : scope {
  explicit wait_scope(wait_block& b) noexcept : block(b) {}
  static void left(scope& self) noexcept { static_cast<wait_scope&>(self).block.close(); }
  static constexpr scope_ops ops{scope_ops::kind::leave_first, nullptr, &left, nullptr, true};

  wait_block& block;
};

}  // namespace steps::inline v0_1::detail
