// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>      // for byte
#include <cstdint>      // for uint32_t
#include <string_view>  // for string_view
#include <vector>       // for vector

#include "async/detail/base/config.hpp"         // for ASYNCSTEPS_FUNCTION
#include "async/detail/trace/trace_points.hpp"  // for ASYNCSTEPS_TRACE_INSTANT
#include "steps/detail/engine/turn.hpp"         // for cancel_outside_turn, wake

/// Events from outside of a flow's turns, on its loop's thread: its start, and errors that are raised at it.
namespace steps::inline v0_1::detail {

/// Calls functions of users, such as destructors, for a flow that is in none of its turns. False: one of them has
/// cancelled the flow, which may be gone.
template <class Call>
bool call_outside(flow& f, Call&& call) noexcept {
  const flow::interrupted before = f.enter_callback();
  call();
  if (f.leave_callback(before) == flow::callback_end::unchanged) return true;
  cancel_outside_turn(f);
  return false;
}

/// Gets a flow ready for its first turn; returns what that begins with. none: the flow has ended, and may be gone.
/// Throws std::bad_alloc.
verdict prepare(flow& f);

/// Starts an execution. Throws std::bad_alloc.
inline void start(flow& f) {
  const verdict why = prepare(f);
  if (why == verdict::none) return;
  f.start(why);
  f.core->ready().push(f);
}

/// The same for a flow without an error, whose place in the ready queue is reserved.
inline void start_with_place(flow& f) noexcept {
  f.add_place();
  f.root.sub_end_ = f.top;
  f.cur = &f.root;
  ASYNCSTEPS_TRACE_INSTANT(flow_start, "flow", async::detail::trace_id(&f));
  f.start(verdict::start);
  f.core->ready().push(f);
}

/// For a flow whose step `s` is current: when it is queued to run the coroutine of that step, it waits again. False: it
/// is not.
bool recall(flow& f, const step& s) noexcept;

/// True when the flow waits in `s`; the caller ends the wait then. A coroutine waits until it runs: also while its turn
/// is queued.
inline bool ends_wait_of(flow& f, const step& s) noexcept { return f.cur == &s && (f.is_waiting() || recall(f, s)); }

/// True when a scope of the waiting step holds an error back, and wakes the flow later.
inline bool is_halted(flow& f) noexcept {
  scope* const s = f.scopes;
  return s != nullptr && s->holder == f.cur && s->ops != nullptr && s->ops->halt != nullptr && s->ops->halt(*s);
}

/// Destroys the results of a flow that waits or is queued. Returns as call_outside() does.
bool destroy_results_outside(flow& f) noexcept;

/// Destroys the next step of a queued flow, which has not run, and its siblings: none of them is active.
void destroy_next_steps(flow& f) noexcept;

/// Raises an error at the innermost active step from outside the flow's callbacks, or at the step that runs. False: an
/// error or a cancel is under way already. True also when the destructor of a result or step has cancelled the flow,
/// which may be gone then.
bool raise(flow& f, ErrorCode code, std::string_view info = {}, step* target = nullptr) noexcept;

/// A call that the state of the flow does not allow: InternalError at the step that runs, or waits, or at the start of
/// the next execution. Ignored in cancel handlers and destructors, since the flow is ending anyway.
void misuse(flow& f, std::string_view what) noexcept;

/// Takes one of what a flow with fixed memory has, and makes sure of room for a record. False, and the error is known:
/// there is none left.
bool take_limited(flow& f, std::uint32_t limits::* what, std::size_t size, std::string_view exceeded) noexcept;

#if ASYNCSTEPS_DEFINED
/// The types of the functions of the active steps, innermost first.
ASYNCSTEPS_FUNCTION std::vector<std::string_view> stack_of(const flow& f) {
  std::vector<std::string_view> names;
  for (const step* s = f.cur; s != nullptr; s = s->parent_) {
    if (s != &s->flow_->root) names.push_back(s->ops_->name);
  }
  return names;
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION bool recall(flow& f, const step& s) noexcept {
  if (!f.is_queued() || f.current_verdict() != verdict::rerun || (s.flags_ & record_flag::coroutine) == 0) return false;
  f.core->ready().erase(f);
  f.recall();
  return true;
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION bool destroy_results_outside(flow& f) noexcept {
  return call_outside(f, [&f] { destroy_results(f); });
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION void destroy_next_steps(flow& f) noexcept {
  std::byte* const next = reinterpret_cast<std::byte*>(f.cur);
  step* const parent = f.cur->parent_;
  std::byte* const end = parent->sub_end_;
  if (parent == &f.root) parent->sub_end_ = arena_of(f);  // none is left
  f.cur = parent;
  call_outside(f, [&f, next, end] {
    destroy_steps(f, next, end);
    set_top(f, end);
  });
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION bool raise(flow& f, ErrorCode code, std::string_view info,
                                                 step* target) noexcept {
  const verdict was = f.current_verdict();
  if (f.is_failing() || f.is_cancelled() || (f.is_running() && f.run_by == nullptr)) return false;
  if (f.tag != nullptr && !f.is_running() && !destroy_results_outside(f)) return true;
  set_error(f, code, info, target);
  if (f.is_waiting()) {
    if (!is_halted(f)) wake(f, verdict::error);
  } else if (f.is_queued() && was == verdict::start) {
    call_outside(f, [&f] { destroy_root_steps(f); });
  } else if (f.is_queued() && was == verdict::rerun && (f.cur->flags_ & record_flag::begun) == 0) {
    destroy_next_steps(f);
  }
  return true;
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION void misuse(flow& f, std::string_view what) noexcept {
  if (!f.is_idle() && !f.is_running()) {
    raise(f, errors::InternalError, what);
  } else if (!f.is_failing() && !f.is_cancelled() && (f.is_idle() || f.run_by != nullptr)) {
    set_error(f, errors::InternalError, what);
  }
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION bool take_limited(flow& f, std::uint32_t limits::* what, std::size_t size,
                                                        std::string_view exceeded) noexcept {
  if (f.limit->*what == 0) {
    misuse(f, exceeded);
    return false;
  }
  if (static_cast<std::size_t>(f.end - f.top) < size && !may_allocate(f)) {
    misuse(f, arena_exceeded(f));
    return false;
  }
  --(f.limit->*what);
  return true;
}

ASYNCSTEPS_FUNCTION verdict prepare(flow& f) {
  f.core->ready().reserve(1);
  f.add_place();
  f.root.sub_end_ = f.top;
  ASYNCSTEPS_TRACE_INSTANT(flow_start, "flow", async::detail::trace_id(&f));
  f.cur = &f.root;
  if (!f.is_failing()) return verdict::start;
  // Misuse while it was built. A branch destroys its steps in its first turn: this turn is its parent's.
  const bool goes_on = f.root.parent_ != nullptr || call_outside(f, [&f] { destroy_root_steps(f); });
  return goes_on ? verdict::error : verdict::none;
}
#endif

}  // namespace steps::inline v0_1::detail
