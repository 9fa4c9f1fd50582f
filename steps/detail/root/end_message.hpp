// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "async/detail/base/config.hpp"        // for ASYNCSTEPS_SHARED
#include "async/detail/loop/inbox.hpp"         // for message, delivery
#include "async/detail/loop/loop_core.hpp"     // for loop_core, current_loop
#include "steps/detail/flow/branch_state.hpp"  // for branch_state
#include "steps/detail/flow/flow.hpp"          // for flow

/// Messages that a thread goes on to deliver while it waits for the end of a flow, so that no two threads wait for each
/// other.
namespace steps::inline v0_1::detail {

/// A message that the end of a flow may depend on. A thread that waits for such an end within a callback goes on to
/// deliver these to its own loops, since the thread that it waits for may wait for one of them.
class end_message : public async::detail::message {
 public:
  /// True when the flow whose end the message serves is being cancelled. Other messages wait for a turn of the loop.
  static bool is_urgent(const async::detail::message& m) noexcept {
    if (m.deliver == &arrived) {
      const auto& self = static_cast<const end_message&>(m);
      return self.parent_ == nullptr || self.parent_->is_cancel_held();
    }
    return m.deliver == &branch_told && branch_state(branch(m).active.of_branch()).is_bound();
  }
  /// The message that a branch itself is: the branch begins or, when it has begun, ends.
  ASYNCSTEPS_SHARED static void branch_told(async::detail::message& m, async::detail::delivery) {
    flow& b = branch(m);
    b.ops().on_message(b);
  }

 protected:
  using function = void (*)(end_message&);

  /// `parent`: the flow of a parallel() step, whose end the message serves once it is cancelled; null: always urgent.
  explicit end_message(function act, const flow* parent = nullptr) noexcept
      : message(&arrived), act_(act), parent_(parent) {}
  ~end_message() = default;

 private:
  ASYNCSTEPS_SHARED static void arrived(message& m, async::detail::delivery) {
    auto& self = static_cast<end_message&>(m);
    self.act_(self);
  }
  static flow& branch(const message& m) noexcept { return const_cast<flow&>(static_cast<const flow&>(m)); }

  const function act_;
  const flow* const parent_;
};

/// Delivers the urgent end_messages of all loops that the calling thread is in.
inline void deliver_urgent_messages() noexcept {
  for (async::detail::loop_core* c = async::detail::current_loop; c != nullptr; c = c->around()) {
    c->deliver_those(&end_message::is_urgent);
  }
}

}  // namespace steps::inline v0_1::detail
