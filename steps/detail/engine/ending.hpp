// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for byte
#include <utility>  // for exchange

#include "async/detail/base/config.hpp"         // for ASYNCSTEPS_FUNCTION
#include "async/detail/trace/trace_points.hpp"  // for ASYNCSTEPS_TRACE_INSTANT, ASYNCSTEPS_TRACE_SPAN
#include "steps/detail/engine/waiting.hpp"      // for unlist
#include "steps/detail/flow/arena.hpp"          // for next_step, set_top, clear_results
#include "steps/detail/flow/pending.hpp"        // for guarded, report_exception, forget_error
#include "steps/detail/flow/promise.hpp"        // for promise_base

/// The end of steps, by success (end_step), error (unwind_error) and cancel (unwind_cancel), and of the execution.
///
/// destroy_* run destructors of users, which may cancel the flow: callers look at is_cancelled() afterwards.
namespace steps::inline v0_1::detail {

// --- scopes ---

/// Destroys the coroutine of a step that has ended.
void destroy_coroutine(flow& f, const step& owner) noexcept;

/// Leaves all scopes of a step that has ended.
inline void leave_scopes(flow& f, const step& owner) noexcept {
  if ((owner.flags_ & record_flag::coroutine) != 0) [[unlikely]]
    destroy_coroutine(f, owner);
  while (f.scopes != nullptr && f.scopes->holder == &owner) {
    scope& s = *f.scopes;
    f.scopes = s.outer;
    if (s.ops != nullptr) s.ops->leave(s);
  }
}

/// For a step in error or cancelled: leaves the scopes of kind leave_first (timers, waits), then calls the cancel
/// handlers, newest first. Errors of the handlers are reported. Other scopes stay.
void run_cancel_handlers(flow& f, const step& owner, scope* newest) noexcept;
/// The same for the innermost step.
inline void run_cancel_handlers(flow& f, const step& owner) noexcept { run_cancel_handlers(f, owner, f.scopes); }

// --- the execution ---

void hand_back_or_release(flow& f) noexcept;

/// Gives back the flow's place in its loop: its results, its entry in the list of waiting flows, the place that is
/// reserved in the ready queue, and its spare chunk.
inline void withdraw_from_loop(flow& f) noexcept {
  ASYNCSTEPS_TRACE_INSTANT(flow_end, ending(f.current_verdict()), async::detail::trace_id(&f));
  clear_results(f);
  unlist(f);
  drop_spare_chunk(f);
  if (f.remove_place()) f.core->ready().unreserve(1);
}

/// The part of end_execution() before the flow goes to its owner, or is released.
inline void finish_execution(flow& f) noexcept {
  withdraw_from_loop(f);
  f.finish();
  f.first = nullptr;
}
/// Ends the execution: the flow is idle and belongs to the owner of its root, or is released when there is none.
void end_execution(flow& f) noexcept;

// --- steps that are destroyed without having run ---

/// Destroys a step that will not run, or has ended.
inline void destroy_step(flow& f, step& s) noexcept {
  if (s.ops_->destroy != nullptr) s.ops_->destroy(s);
  if (f.limit != nullptr) [[unlikely]]
    ++f.limit->steps;
}

/// Destroys the steps between two places of the arena.
inline void destroy_steps(flow& f, std::byte* from, const std::byte* to) noexcept {
  for (step* s = next_step(from, to); s != nullptr;) {
    std::byte* const next = reinterpret_cast<std::byte*>(s) + s->size_;
    destroy_step(f, *s);
    s = next_step(next, to);
  }
}

/// Destroys the root's steps, none of which has run, after the start.
inline void destroy_root_steps(flow& f) noexcept {
  destroy_steps(f, arena_of(f), std::exchange(f.root.sub_end_, arena_of(f)));
  f.cur = &f.root;
}
/// Destroys the root's steps before the start.
inline void destroy_built_steps(flow& f) noexcept {
  f.root.sub_end_ = f.top;
  destroy_root_steps(f);
}

/// Destroys the steps that the function or handler that has just returned has added, if any.
inline void destroy_added_steps(flow& f) noexcept {
  if (step* const first = std::exchange(f.first, nullptr)) destroy_steps(f, reinterpret_cast<std::byte*>(first), f.top);
}

/// Ends a step that has not succeeded, and destroys its siblings to come. Returns its parent.
inline step* abandon_level(flow& f, step& s) noexcept {
  step* const parent = s.parent_;
  std::byte* const next = reinterpret_cast<std::byte*>(&s) + s.size_;
  leave_scopes(f, s);
  destroy_step(f, s);
  destroy_steps(f, next, parent->sub_end_);
  set_top(f, parent->sub_end_);
  return parent;
}

// --- success ---

/// Destroys the functors of a step; returns the address behind it.
[[gnu::noinline]] inline std::byte* destroy_functors(step& s) noexcept {
  std::byte* const end = reinterpret_cast<std::byte*>(&s) + s.size_;
  s.ops_->destroy(s);
  return end;
}

/// A step has succeeded. Returns the step to run next; null: the flow has ended, and may be gone. A step that resumes
/// runs next with its scopes, and with the memory of its sub-step on top.
[[gnu::always_inline]] inline step* end_step_inline(flow& f, step& ended) noexcept(false) {
  step* s = &ended;
  for (;;) {
    if (f.scopes != nullptr && f.scopes->holder == s) leave_scopes(f, *s);
    step* const parent = s->parent_;
    set_top(f, parent->sub_end_);
    std::byte* next = reinterpret_cast<std::byte*>(s) + s->size_;
    constexpr std::uint16_t more = record_flag::again | record_flag::destroys | record_flag::counted;
    if ((s->flags_ & more) != 0) {
      if ((s->flags_ & record_flag::again) != 0) return s;
      if ((s->flags_ & record_flag::counted) != 0) ++f.limit->steps;
      if ((s->flags_ & record_flag::destroys) != 0) next = destroy_functors(*s);
    }
    if (step* const sibling = next_step(next, parent->sub_end_)) return sibling;
    f.cur = s = parent;
    if (s == &f.root) break;
    if ((s->flags_ & record_flag::resumes) != 0) [[unlikely]]
      return s;
  }
  if (f.is_cancelled()) [[unlikely]] {
    end_execution(f);
  } else {
    f.ops().end(f);
  }
  return nullptr;
}

/// The same, out of line: for all but the common case.
step* end_step(flow& f, step& ended) noexcept(false);

// --- cancel ---

/// Takes a cancel outwards from `s`, the innermost active step: its timers are disarmed, its cancel handlers run, its
/// memory is released; then its parent's, until the execution has ended. The flow may be gone then. Or the cancel is
/// held until branches have ended, and unblock_end() goes on.
void unwind_cancel(flow& f, step* s) noexcept;

// --- error ---

enum class handled : std::uint8_t { passes, recovers, cancelled };

/// Calls the error handler of a step. passes: the error goes outwards. recovers: `next` is the step to run; null: the
/// flow has ended, and may be gone. cancelled: the handler has cancelled the flow.
inline handled run_error_handler(flow& f, step& s, step*& next) {
  const pending_error error = f.pending;
  f.clear_verdict();
  f.first = nullptr;
  f.run_by = &s;
  s.flags_ &= static_cast<std::uint16_t>(~record_flag::resumes);  // no sub-step is left
  s.flags_ |= record_flag::handles;
  guarded(f, [&] {
    ASYNCSTEPS_TRACE_SPAN(handler, s.ops_->name, async::detail::trace_id(&f));
    s.ops_->on_error(s, error.code);
  });
  s.flags_ &= static_cast<std::uint16_t>(~record_flag::handles);
  f.run_by = nullptr;
  switch (f.current_verdict()) {
    case verdict::cancel:
      destroy_added_steps(f);
      return handled::cancelled;
    case verdict::error:  // the handler's error replaces the one that it was called for
      if (error.target != nullptr && f.pending.target == nullptr && f.pending.code == error.code) {
        f.pending.target = error.target;
      }
      destroy_added_steps(f);
      return handled::passes;
    case verdict::success:
      f.clear_verdict();
      forget_error(f);
      next = end_step(f, s);
      return handled::recovers;
    default:
      break;
  }
  if (f.first != nullptr) {  // the steps that the handler has added take the step's place, without the handler
    f.clear_verdict();
    forget_error(f);
    s.sub_end_ = f.top;
    next = f.first;
    return handled::recovers;
  }
  ::new (static_cast<void*>(&f.pending)) pending_error{error};
  return handled::passes;
}

/// Takes the pending error outwards from `s`, the innermost active step, whose sub-steps are gone (FTN12 1.2, 2.1). Per
/// step: its sub-steps are destroyed, its timer is disarmed, its cancel handlers run, its error handler runs. Returns
/// the step to run next; null: the flow has ended, and may be gone, or the error is held until branches have ended.
step* unwind_error(flow& f, step* s);

#if ASYNCSTEPS_DEFINED
[[gnu::noinline]] ASYNCSTEPS_FUNCTION void destroy_coroutine(flow& f, const step& owner) noexcept {
  for (scope* s = f.scopes; s != nullptr && s->holder == &owner; s = s->outer) {
    if (s->ops != nullptr && s->ops->what == scope_ops::kind::coroutine) std::exchange(s->ops, nullptr)->leave(*s);
  }
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION void run_cancel_handlers(flow& f, const step& owner, scope* newest) noexcept {
  for (scope* s = newest; s != nullptr && s->holder == &owner; s = s->outer) {
    if (s->ops != nullptr && s->ops->what == scope_ops::kind::leave_first) std::exchange(s->ops, nullptr)->leave(*s);
  }
  for (scope* s = newest; s != nullptr && s->holder == &owner; s = s->outer) {
    if (s->ops == nullptr || s->ops->what != scope_ops::kind::cancel) continue;
    const scope_ops* const ops = std::exchange(s->ops, nullptr);
    try {
      ops->cancel(*s);
    } catch (...) {
      report_exception(f, true);
    }
    ops->leave(*s);
  }
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION void hand_back_or_release(flow& f) noexcept {
  promise_base* const promise = std::exchange(f.promise, nullptr);
  f.is_detached() ? f.ops().release(f) : f.active.clear();
  if (promise != nullptr) promise->cancelled();
}

ASYNCSTEPS_FUNCTION void end_execution(flow& f) noexcept {
  finish_execution(f);
  if (f.is_detached() || f.promise != nullptr) [[unlikely]]
    return hand_back_or_release(f);
  f.active.clear();
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION step* end_step(flow& f, step& ended) noexcept(false) {
  return end_step_inline(f, ended);
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION void unwind_cancel(flow& f, step* s) noexcept {
  while (s != &f.root) {
    f.cur = s;
    run_cancel_handlers(f, *s);
    if (f.has_end_blockers()) [[unlikely]]
      return f.hold_cancel();
    s = abandon_level(f, *s);
  }
  f.cur = s;
  end_execution(f);
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION step* unwind_error(flow& f, step* s) {
  while (s != &f.root) {
    f.cur = s;
    f.clear_verdict();
    if (f.scopes != nullptr && f.scopes->holder == s) {
      const pending_error error = f.pending;
      run_cancel_handlers(f, *s);
      if (f.is_cancelled()) return s;
      ::new (static_cast<void*>(&f.pending)) pending_error{error};
      if (f.has_end_blockers()) [[unlikely]]
        return f.hold_error(), nullptr;
    }
    if (f.pending.target == s) {
      if (f.pending.code == errors::LoopBreak) s->flags_ &= static_cast<std::uint16_t>(~record_flag::again);
      forget_error(f);
      return end_step(f, *s);
    }
    if ((s->flags_ & record_flag::handler) != 0) {
      s->flags_ &= static_cast<std::uint16_t>(~record_flag::handler);
      step* next = s;
      if (run_error_handler(f, *s, next) != handled::passes) return next;
    }
    s = abandon_level(f, *s);
    if (f.is_cancelled()) [[unlikely]]
      return s != &f.root ? s : (unwind_cancel(f, s), nullptr);
  }
  f.cur = s;
  f.mark_error();
  f.ops().end(f);
  return nullptr;
}
#endif

}  // namespace steps::inline v0_1::detail
