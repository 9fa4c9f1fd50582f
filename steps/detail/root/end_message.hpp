// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "async/detail/loop/inbox.hpp"         // for message, delivery
#include "async/detail/loop/loop_core.hpp"     // for loop_core, current_loop
#include "steps/detail/engine/ending.hpp"      // for flow, is_held
#include "steps/detail/flow/branch_state.hpp"  // for branch_state

/// What threads do that wait for the end of a flow, so that no two of them wait for each other.
namespace steps::detail {

/// A message that the end of a flow may depend on. A thread that waits for such an end within a callback goes on to
/// deliver these to its own loops: whoever it waits for may itself wait for what they ask for.
class end_message : public async::detail::message {
 public:
  /// True when the flow whose end it serves is on its way there; others wait for their turn.
  static bool is_urgent(const async::detail::message& m) noexcept {
    if (m.deliver == &arrived) {
      const auto& self = static_cast<const end_message&>(m);
      return self.parent_ == nullptr || self.parent_->is_cancel_held();
    }
    return m.deliver == &branch_told && branch_state(branch(m).active.of_branch()).is_bound();
  }
  /// The message in a branch: it is to begin or, when it has begun, to end.
  static void branch_told(async::detail::message& m, async::detail::delivery) {
    flow& b = branch(m);
    b.ops->on_message(b);
  }

 protected:
  using function = void (*)(end_message&);

  /// `parent`: a parallel() step's flow, whose end it serves when that has been cancelled; null: it always does.
  explicit end_message(function act, const flow* parent = nullptr) noexcept
      : message(&arrived), act_(act), parent_(parent) {}

 private:
  static void arrived(message& m, async::detail::delivery) {
    auto& self = static_cast<end_message&>(m);
    self.act_(self);
  }
  static flow& branch(const message& m) noexcept { return const_cast<flow&>(static_cast<const flow&>(m)); }

  const function act_;
  const flow* const parent_;
};

/// Delivers the end_messages of all loops that the calling thread is in, as far as they are urgent.
inline void attend_own_loops() noexcept {
  for (async::detail::loop_core* c = async::detail::current_loop; c != nullptr; c = c->around()) {
    c->deliver_those(&end_message::is_urgent);
  }
}

}  // namespace steps::detail
