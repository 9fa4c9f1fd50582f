// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "async/detail/trace/trace_points.hpp"  // for ASYNC_TRACE_SPAN
#include "steps/detail/engine/ending.hpp"       // for end_step, leave_level, drop_added

/// The way of an error from the innermost active step outwards (FTN12 1.2, 2.1). Per step: its sub-steps are dropped,
/// its timer is disarmed, its cancel handler runs, its error handler runs.
namespace steps::detail {

/// Calls the error handler of a step. Returns true when the error is over: `next` is what to run (null: the flow has
/// ended and may be gone; or it was cancelled, then it is the step).
inline bool handled(flow& f, step& s, step*& next) {
  const pending_error error = f.pending;
  f.signal(signal::none);
  f.first = nullptr;
  f.run_by = &s;
  s.flags_ |= record_flag::handles;
  guarded(f, [&] {
    ASYNC_TRACE_SPAN(handler, s.ops_->name, async::detail::trace_id(&f));
    s.ops_->on_error(s, error.code);
  });
  s.flags_ &= static_cast<std::uint16_t>(~record_flag::handles);
  f.run_by = nullptr;
  switch (f.signal()) {
    case signal::cancel:
      drop_added(f);
      next = &s;
      return true;
    case signal::error:  // the same or another: the handler's wins
      if (error.target != nullptr && f.pending.target == nullptr && f.pending.code == error.code) {
        f.pending.target = error.target;
      }
      drop_added(f);
      return false;
    case signal::done:
      f.signal(signal::none);
      forget_error(f);
      next = end_step(f, s);
      return true;
    default:
      break;
  }
  if (f.first != nullptr) {  // the handler is gone, its steps take the step's place
    f.signal(signal::none);
    forget_error(f);
    s.sub_end_ = f.top;
    next = f.first;
    return true;
  }
  ::new (static_cast<void*>(&f.pending)) pending_error{error};
  return false;
}

/// The error waits until a branch has ended, which waits for its own on other loops; see let_go().
[[gnu::noinline, gnu::cold]] inline step* hold_error(flow& f) noexcept {
  f.signal(signal::error);
  f.at = phase::parked;
  return nullptr;
}

/// Takes the pending error outwards from `s`, the innermost active step, whose sub-steps are gone. Returns what is to
/// run next; null: the flow has ended, and may be gone.
[[gnu::noinline]] inline step* unwind(flow& f, step* s) {
  while (s != &f.root) {
    f.cur = s;
    f.signal(signal::none);
    if (f.scopes != nullptr && f.scopes->holder == s) {
      const pending_error error = f.pending;
      cancel_scopes(f, *s);
      if (f.signal() == signal::cancel) return s;
      ::new (static_cast<void*>(&f.pending)) pending_error{error};
      if (f.end_blockers != 0) [[unlikely]]
        return hold_error(f);
    }
    if (f.pending.target == s) {
      if (f.pending.code == errors::LoopBreak) s->flags_ &= static_cast<std::uint16_t>(~record_flag::again);
      forget_error(f);
      return end_step(f, *s);
    }
    if ((s->flags_ & record_flag::handler) != 0) {
      s->flags_ &= static_cast<std::uint16_t>(~record_flag::handler);
      step* next;
      if (handled(f, *s, next)) return next;
    }
    s = leave_level(f, *s);
    if (f.signal() == signal::cancel) [[unlikely]]
      return s != &f.root ? s : (finish_cancel(f, s), nullptr);
  }
  f.cur = s;
  f.signal(signal::error);
  f.ops->end(f);
  return nullptr;
}

}  // namespace steps::detail
