// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <utility>  // for exchange

#include "async/detail/base/config.hpp"         // for ASYNCSTEPS_FUNCTION
#include "async/detail/trace/trace_points.hpp"  // for ASYNCSTEPS_TRACE_SPAN
#include "steps/detail/engine/cancel.hpp"       // for cancel_outside_turn, note_loop_end, unwind_error, end_step

/// A turn of a flow: from the loop's ready queue until it waits, ends, or has run as many steps, or as long, as a turn
/// may.
namespace steps::inline v0_1::detail {

/// Ends the turn; the flow goes to the end of the ready queue, and its next turn begins with `why`.
[[gnu::always_inline]] inline void end_turn(flow& f, verdict why) noexcept {
  f.end_turn(why);
  f.core->ready().push(f);
}

/// A step's function has returned with error or cancel.
[[gnu::noinline]] inline step* after_rare_verdict(flow& f, step& s) {
  const bool has_failed = f.is_failing();
  if (has_failed && f.first == nullptr) return unwind_error(f, &s);
  destroy_added_steps(f);  // whose destructors may cancel the flow
  if (has_failed && !f.is_cancelled()) return unwind_error(f, &s);
  unwind_cancel(f, &s);
  return nullptr;
}

/// The scope that the step waits for, of a completion; null: none.
inline scope* awaited_by(const flow& f, const step& s) noexcept {
  scope* at = f.scopes;
  while (at != nullptr && at->holder == &s && !(at->ops != nullptr && at->ops->awaited)) at = at->outer;
  return at != nullptr && at->holder == &s ? at : nullptr;
}

/// The step has sub-steps, and so does not wait for completions. False: a destructor has cancelled the flow.
[[gnu::noinline]] inline bool leave_awaited(flow& f, const step& s) noexcept {
  while (scope* const wait = awaited_by(f, s)) std::exchange(wait->ops, nullptr)->leave(*wait);
  return !f.is_cancelled();
}

[[gnu::noinline]] inline step* give_way_before_sub_steps(flow& f, step& s) {
  if (!leave_awaited(f, s)) return after_rare_verdict(f, s);
  s.sub_end_ = f.top;
  f.cur = f.first;
  end_turn(f, verdict::rerun);
  return nullptr;
}
[[gnu::noinline, gnu::cold]] inline step* refuse_to_give_way(flow& f, step& s) {
  set_error(f, errors::InternalError, "relinquish() of a step that waits for its completion()");
  return after_rare_verdict(f, s);
}
/// relinquish() came before all sub-steps: the step ends, or they run, in the next turn. A step that resumes runs
/// again.
inline step* give_way(flow& f, step& s) {
  if ((s.flags_ & record_flag::resumes) != 0) return end_turn(f, verdict::rerun), nullptr;
  if (f.first != nullptr) return give_way_before_sub_steps(f, s);
  if (awaited_by(f, s) != nullptr) [[unlikely]]
    return refuse_to_give_way(f, s);
  end_turn(f, verdict::success);
  return nullptr;
}

/// Runs one step. Returns the step to run next; null: the flow waits or is queued, or has ended and may be gone.
[[gnu::always_inline]] inline step* advance(flow& f, step& s) {
  f.cur = &s;
  f.run_by = &s;
  f.first = nullptr;
  guarded_inline(f, [&] {
    ASYNCSTEPS_TRACE_SPAN(step, s.ops_->name, async::detail::trace_id(&f));
    s.ops_->run(s);
  });
  f.run_by = nullptr;
  const verdict said = f.current_verdict();
  if (said <= verdict::wait && f.first != nullptr) {
    if (said != verdict::none && !leave_awaited(f, s)) [[unlikely]]
      return after_rare_verdict(f, s);
    f.clear_verdict();
    s.sub_end_ = f.top;
    return f.first;
  }
  if (said == verdict::none || said == verdict::success) [[likely]] {
    f.clear_verdict();
    return end_step_inline(f, s);
  }
  if (said == verdict::wait) return suspend(f), nullptr;
  return said == verdict::yield ? give_way(f, s) : after_rare_verdict(f, s);
}

/// The first step of a turn that begins with `why`; null: there is none, the flow waits, or has ended and may be gone.
inline step* first_of_turn(flow& f, verdict why) {
  if (why == verdict::start) [[likely]] {
    if (f.first != nullptr) [[likely]]
      return f.first;
    f.ops().end(f);
    return nullptr;
  }
  if (why == verdict::success) return end_step(f, *f.cur);
  if (f.cur == &f.root) {
    destroy_root_steps(f);  // of a branch that misuse has ended before its start; else there are none
    if (f.is_cancelled()) return unwind_cancel(f, &f.root), nullptr;
  }
  return unwind_error(f, f.cur);
}

/// Returns how many steps are left when the turn is to look again; turn_pace::is_up: it has taken long.
[[gnu::noinline]] inline unsigned look_at_clock(flow& f, unsigned left,
                                                async::detail::loop_core::time_point& since) noexcept {
  return f.core->look_at_clock(f.burst - left, left, since);
}

void cancel_at_close(flow& f) noexcept;

/// Called by the loop's ready queue.
void resume(async::detail::runnable& r);

#if ASYNCSTEPS_DEFINED
ASYNCSTEPS_FUNCTION void resume(async::detail::runnable& r) {
  flow& f = static_cast<flow&>(r);
  if (f.core->closing()) [[unlikely]]
    return cancel_at_close(f);
  const verdict why = f.begin_turn();
  f.end_wait();
  unsigned left = f.burst;  // read first, for the flow may end below
  async::detail::loop_core::time_point since{};
  unsigned look = f.core->begin_steps(left, since);
  step* s = why == verdict::rerun ? f.cur : first_of_turn(f, why);
  for (const step_ops* ran = nullptr; s != nullptr; --left) {
    if (!f.has_no_verdict()) [[unlikely]]
      return unwind_cancel(f, s);  // a destructor or handler has cancelled it
    if (left <= look && (left == 0 || (look = look_at_clock(f, left, since)) == async::detail::turn_pace::is_up))
        [[unlikely]] {
      if (ran == nullptr || !ran->hands_over || f.tag == nullptr) {
        f.cur = s;
        return end_turn(f, verdict::rerun);
      }
      left = 1;
    }
    ran = s->ops_;
    s = advance(f, *s);
  }
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION void cancel_at_close(flow& f) noexcept {
  if (f.root.parent_ == nullptr && !f.is_cancel_held()) {
    f.core->note_cancelled_flow();
    note_loop_end(f);
  }
  cancel_outside_turn(f);
}
#endif

}  // namespace steps::inline v0_1::detail
