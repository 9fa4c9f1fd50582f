// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <chrono>   // for duration, nanoseconds
#include <utility>  // for forward

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

/// A timer that covers a step and its sub-steps, and raises an error in them.
struct timer_scope : scope, async::detail::timer_node {
  explicit timer_scope(function at_expiry) noexcept : timer_node(at_expiry) {}

  /// Raises the error at the innermost active step of the owner's subtree. While another error is under way there, the
  /// timer waits: a handler inside the subtree may recover from that error. True: the error is on its way, or the flow
  /// has gone.
  bool raise_in_step(ErrorCode code) {
    flow& f = *holder->flow_;
    if (f.core->closing()) return false;
    if (f.has_succeeded() && f.cur == holder) return false;  // the step has succeeded in time
    if (raise(f, code)) return true;
    auto& timers = f.core->timers();
    f.is_waiting() ? timers.arm_after(*this, std::chrono::milliseconds(1)) : timers.arm_now(*this);
    return false;
  }
  static void left(scope& self) noexcept {
    flow& f = *self.holder->flow_;
    if (f.limit != nullptr) ++f.limit->timeouts;
    f.core->timers().disarm(static_cast<timer_scope&>(self));
  }
};

struct timeout_scope : timer_scope {
  timeout_scope() noexcept : timer_scope(&expired) {}

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
  ASYNCSTEPS_SHARED static void raise_timeout(timer_node& node) {
    static_cast<timeout_scope&>(node).raise_in_step(errors::Timeout);
  }
  ASYNCSTEPS_SHARED static constexpr scope_ops ops{scope_ops::kind::leave_first, nullptr, &left};
};

/// Makes a timer_scope of the step whose function runs, and arms it. False: the flow's memory has no room for it, and
/// the mistake is known. Throws std::bad_alloc.
template <class Scope, class... Args>
bool add_timer(step& s, nanoseconds limit, Args&&... args) {
  flow& f = *s.flow_;
  limit_claim place;
  if (!place.take(f, &limits::timeouts, round_up(sizeof(Scope), granule), "the flow exceeds nitro::MaxTimeouts")) {
    return false;
  }
  Scope& timer = make_scope<Scope>(f, s, std::forward<Args>(args)...);
  place.keep();
  f.core->timers().arm_after(timer, limit);
  return true;
}

/// True when the function of `s` is running and may still make the step wait. Else the mistake is known. A branch on
/// another loop may make it; then this may throw std::bad_alloc.
inline bool may_wait(step& s, std::string_view literal) {
  flow& f = *s.flow_;
  const bool runs = runs_here(s);
  if (runs && f.is_open() && (s.flags_ & record_flag::handles) == 0) [[likely]]
    return true;
  if (!runs) {
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
  f.mark_wait();
  for (scope* old = f.scopes; old != nullptr && old->holder == &s; old = old->outer) {
    if (old->ops != &timeout_scope::ops) continue;
    return static_cast<timeout_scope&>(*old).rearm_after(limit);
  }
  add_timer<timeout_scope>(s, limit);
}

}  // namespace steps::inline v0_1::detail
