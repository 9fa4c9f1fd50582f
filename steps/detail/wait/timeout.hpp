// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <chrono>  // for duration, nanoseconds

#include "async/detail/base/config.hpp"              // for ASYNCSTEPS_SHARED
#include "async/detail/base/durations.hpp"           // for to_nanoseconds
#include "async/detail/base/min_max.hpp"             // for max_of
#include "async/detail/loop/timer_queue.hpp"         // for timer_node
#include "steps/detail/engine/engine.hpp"            // for raise, misuse
#include "steps/detail/engine/limit_claim.hpp"       // for limit_claim
#include "steps/detail/engine/scopes.hpp"            // for make_scope
#include "steps/detail/root/flow_control_block.hpp"  // for misuse_anywhere

/// setTimeout(): a timer in the arena that covers a step and its sub-steps.
namespace steps::inline v0_1::detail {

using nanoseconds = std::chrono::nanoseconds;

/// Any duration as nanoseconds, rounded up. One that does not fit means for ever, a negative one zero.
template <class Rep, class Period>
constexpr nanoseconds to_nanoseconds(std::chrono::duration<Rep, Period> d) noexcept {
  return async::detail::max_of(async::detail::to_nanoseconds(d), nanoseconds::zero());
}

struct timeout_scope : scope, async::detail::timer_node {
  timeout_scope() noexcept : timer_node(&expired) {}

  /// The limit is another one.
  void rearm_after(nanoseconds limit) noexcept {
    fire = &expired;
    holder->flow_->core->timers().rearm_after(*this, limit);
  }
  /// Whether the limit has passed at `now`, even if the loop has not noticed. After settle() of the loop's timers.
  bool has_passed(async::detail::loop_core::time_point now) const noexcept {
    return !armed() || fire == &raise_timeout || holder->flow_->core->timers().is_due(*this, now);
  }

  static void expired(timer_node& node) {
    node.fire = &raise_timeout;
    raise_timeout(node);
  }
  /// Raises Timeout at the innermost active step of the owner's subtree. While another error is under way there, the
  /// timer waits: a handler inside the subtree may recover from that error.
  ASYNCSTEPS_SHARED static void raise_timeout(timer_node& node) {
    auto& self = static_cast<timeout_scope&>(node);
    flow& f = *self.holder->flow_;
    if (f.core->closing()) return;
    if (f.has_succeeded() && f.cur == self.holder) return;  // the step has succeeded in time
    if (raise(f, errors::Timeout)) return;
    auto& timers = f.core->timers();
    f.is_waiting() ? timers.arm_after(node, std::chrono::milliseconds(1)) : timers.arm_now(node);
  }
  static void left(scope& self) noexcept {
    flow& f = *self.holder->flow_;
    if (f.limit != nullptr) ++f.limit->timeouts;
    f.core->timers().disarm(static_cast<timeout_scope&>(self));
  }
  ASYNCSTEPS_SHARED static constexpr scope_ops ops{scope_ops::kind::leave_first, nullptr, &left};
};

/// True when the function of `s` is running and may still make the step wait. Else the mistake is known. A branch on
/// another loop may make it; then this may throw std::bad_alloc.
inline bool may_wait(step& s, std::string_view literal) {
  flow& f = *s.flow_;
  if (f.run_by == &s && f.is_open() && (s.flags_ & record_flag::handles) == 0) [[likely]]
    return true;
  if (f.run_by != &s) {
    misuse_anywhere(f, literal);
  } else if ((s.flags_ & record_flag::handles) != 0 || f.has_succeeded()) {
    misuse(f, literal);
  }
  return false;
}

/// asi.setTimeout(). Throws std::bad_alloc.
inline void set_timeout(step& s, nanoseconds limit) {
  if (!may_wait(s, "setTimeout() outside a step function, or after success()")) return;
  flow& f = *s.flow_;
  auto& timers = f.core->timers();
  f.mark_wait();
  for (scope* old = f.scopes; old != nullptr && old->holder == &s; old = old->outer) {
    if (old->ops != &timeout_scope::ops) continue;
    return static_cast<timeout_scope&>(*old).rearm_after(limit);
  }
  limit_claim place;
  if (!place.take(f, &limits::timeouts, round_up(sizeof(timeout_scope), granule),
                  "the flow exceeds nitro::MaxTimeouts")) {
    return;
  }
  timeout_scope& timer = make_scope<timeout_scope>(f, s);
  place.keep();
  timers.arm_after(timer, limit);
}

}  // namespace steps::inline v0_1::detail
