// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <string_view>  // for string_view
#include <utility>      // for forward

#include "async/detail/base/chrono.hpp"              // for duration, nanoseconds, ceil
#include "async/detail/base/config.hpp"              // for ASYNCSTEPS_SHARED
#include "async/detail/base/durations.hpp"           // for to_nanoseconds
#include "async/detail/base/min_max.hpp"             // for max_of
#include "async/detail/loop/timer_queue.hpp"         // for timer_node
#include "steps/detail/engine/engine.hpp"            // for raise, misuse
#include "steps/detail/engine/limit_claim.hpp"       // for limit_claim
#include "steps/detail/engine/scopes.hpp"            // for make_scope
#include "steps/detail/root/flow_control_block.hpp"  // for misuse_anywhere

/// setTimeout() and setDeadline(): a timer in the arena that covers a step and its sub-steps.
namespace steps::inline v0_1::detail {

using nanoseconds = std::chrono::nanoseconds;

/// Any duration as nanoseconds, rounded up. One that does not fit means for ever, a negative one zero.
template <class Rep, class Period>
constexpr nanoseconds nonnegative_nanoseconds(std::chrono::duration<Rep, Period> d) noexcept {
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

  /// Sets another limit, which counts from the end of the turn.
  void rearm_after(nanoseconds limit) noexcept {
    fire = &expired;
    holder->flow_->core->timers().rearm_after(*this, limit);
  }
  /// Sets a deadline as the limit. One that has passed needs no tick to come.
  void rearm(async::detail::loop_core::time_point deadline) noexcept {
    async::detail::loop_core& core = *holder->flow_->core;
    fire = &expired;
    core.timers().disarm(*this);
    when = 0;  // not that of the old limit: see has_passed()
    deadline <= core.now() ? core.timers().arm_now(*this) : core.timers().arm(*this, deadline);
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

/// Makes a timer_scope of the step whose function runs; it is not armed. Null: the flow's memory has no room for it,
/// and the mistake is known. Throws std::bad_alloc.
template <class Scope, class... Args>
Scope* make_timer(step& s, Args&&... args) {
  flow& f = *s.flow_;
  limit_claim place;
  if (!place.take(f, &limits::timeouts, round_up(sizeof(Scope), granule), "the flow exceeds nitro::MaxTimeouts")) {
    return nullptr;
  }
  Scope& timer = make_scope<Scope>(f, s, std::forward<Args>(args)...);
  place.keep();
  return &timer;
}
/// The same, and arms it. False: there is none.
template <class Scope, class... Args>
bool add_timer(step& s, nanoseconds limit, Args&&... args) {
  Scope* const timer = make_timer<Scope>(s, std::forward<Args>(args)...);
  if (timer != nullptr) s.flow_->core->timers().arm_after(*timer, limit);
  return timer != nullptr;
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

/// The time limit of the step, which waits from here on; made if there is none. Null: the mistake is known. Throws
/// std::bad_alloc.
inline timeout_scope* limit_of(step& s, std::string_view literal) {
  if (!may_wait(s, literal)) return nullptr;
  flow& f = *s.flow_;
  const auto is_of_step = [&s](const scope* each) noexcept { return each != nullptr && each->holder == &s; };
  scope* old = f.scopes;
  while (is_of_step(old) && old->ops != &timeout_scope::ops) old = old->outer;
  timeout_scope* const limit = is_of_step(old) ? static_cast<timeout_scope*>(old) : make_timer<timeout_scope>(s);
  f.mark_wait();
  return limit;
}

/// asi.setTimeout(). Throws std::bad_alloc.
inline void set_timeout(step& s, nanoseconds limit) {
  timeout_scope* const of_step = limit_of(s, "setTimeout() outside a step function, or after success()");
  if (of_step != nullptr) of_step->rearm_after(limit);
}

/// asi.setDeadline(). `since_epoch`: of the clock of the flow's loop. Throws std::bad_alloc.
inline void set_deadline(step& s, nanoseconds since_epoch) {
  timeout_scope* const of_step = limit_of(s, "setDeadline() outside a step function, or after success()");
  if (of_step == nullptr) return;
  using time_point = async::detail::loop_core::time_point;
  of_step->rearm(time_point(std::chrono::ceil<time_point::duration>(since_epoch)));
}

}  // namespace steps::inline v0_1::detail
