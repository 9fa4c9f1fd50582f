// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>      // for uint32_t
#include <string_view>  // for string_view

#include "async/detail/trace/trace_points.hpp"  // for ASYNC_TRACE_SPAN
#include "steps/detail/engine/unwind.hpp"       // for unwind, end_step

/// Running a flow: from the loop's ready queue until it waits, ends, or has had its turn.
namespace steps::detail {

/// A step's function has returned with a signal that is not the common one.
[[gnu::noinline]] inline step* after_signal(flow& f, step& s) {
  switch (f.signal()) {
    case signal::wait:
      park(f);
      return nullptr;
    case signal::error:
      if (f.first == nullptr) return unwind(f, &s);
      drop_added(f);  // whose destructors may cancel the flow
      if (f.signal() == signal::error) return unwind(f, &s);
      break;
    default:  // cancelled by its own function
      drop_added(f);
  }
  finish_cancel(f, &s);
  return nullptr;
}

/// What the step waits for, a completion; null: nothing.
inline scope* awaited_by(const flow& f, const step& s) noexcept {
  scope* at = f.scopes;
  while (at != nullptr && at->holder == &s && !(at->ops != nullptr && at->ops->awaited)) at = at->outer;
  return at != nullptr && at->holder == &s ? at : nullptr;
}

/// The step has sub-steps, so it waits for nothing else.
[[gnu::noinline]] inline void leave_waits(flow& f, const step& s) noexcept {
  while (scope* const wait = awaited_by(f, s)) std::exchange(wait->ops, nullptr)->leave(*wait);
}

/// relinquish() came before all sub-steps: the step ends, or they run, when its turn comes again.
inline step* give_way(flow& f, step& s) {
  if (f.first != nullptr) {
    leave_waits(f, s);
    s.sub_end_ = f.top;
    f.cur = f.first;
    make_ready(f, signal::rerun);
    return nullptr;
  }
  if (awaited_by(f, s) != nullptr) [[unlikely]] {
    set_error(f, errors::InternalError, "relinquish() of a step that waits for its completion()");
    return after_signal(f, s);
  }
  make_ready(f, signal::done);
  return nullptr;
}

/// Runs one step. Returns what is to run next; null: nothing, the flow waits, or has ended and may be gone.
[[gnu::always_inline]] inline step* advance(flow& f, step& s) {
  f.cur = &s;
  f.run_by = &s;
  f.first = nullptr;
  guarded(f, [&] {
    ASYNC_TRACE_SPAN(step, s.ops_->name, async::detail::trace_id(&f));
    s.ops_->run(s);
  });
  f.run_by = nullptr;
  const std::uint32_t said = f.signal();
  if (said <= signal::wait && f.first != nullptr) {
    if (said != signal::none) [[unlikely]]
      leave_waits(f, s);
    f.signal(signal::none);
    s.sub_end_ = f.top;
    return f.first;
  }
  if (said == signal::none || said == signal::done) [[likely]] {
    f.signal(signal::none);
    return end_run(f, s);
  }
  return said == signal::yield ? give_way(f, s) : after_signal(f, s);
}

/// What a queued flow begins its turn with.
inline step* enter(flow& f, std::uint32_t why) {
  if (why == signal::start) [[likely]] {
    if (f.first != nullptr) [[likely]]
      return f.first;
    f.ops->end(f);
    return nullptr;
  }
  if (why == signal::done) return end_step(f, *f.cur);
  if (f.cur == &f.root) {
    drop_root_steps(f);  // of a branch that a mistake has ended before its start; else there are none
    if (f.signal() == signal::cancel) return finish_cancel(f, &f.root), nullptr;
  }
  return unwind(f, f.cur);
}

/// Called by the loop's ready queue.
inline void resume(async::detail::runnable& r) {
  flow& f = static_cast<flow&>(r);
  if (f.core->closing()) [[unlikely]]
    return cancel_now(f);
  const std::uint32_t why = f.signal();
  f.signal(signal::none);
  f.at = phase::running;
  f.end_wait();
  unsigned left = f.burst;  // enter() may end the flow
  step* s = why == signal::rerun ? f.cur : enter(f, why);
  for (; s != nullptr; --left) {
    if (f.signal() != signal::none) [[unlikely]]
      return finish_cancel(f, s);
    if (left == 0) {
      f.cur = s;
      return make_ready(f, signal::rerun);
    }
    s = advance(f, *s);
  }
}

/// Calls users' functions, such as destructors, for a flow that is in none of its turns. False: one of them has
/// cancelled the flow, which may be gone.
template <class Call>
bool call_outside(flow& f, Call&& call) noexcept {
  const std::uint32_t was = f.signal();
  const phase at = std::exchange(f.at, phase::running);
  call();
  f.at = at;
  if (f.signal() != signal::cancel) return true;
  f.signal(was);
  cancel_now(f);
  return false;
}

/// Gets a flow ready for its first turn, on the loop's thread; returns what that begins with. None: the flow has ended,
/// and may be gone. Throws std::bad_alloc.
inline std::uint32_t prepare(flow& f) {
  f.core->ready().reserve(1);
  f.has_place = true;
  f.root.sub_end_ = f.top;
  ASYNC_TRACE_INSTANT(flow_start, "flow", async::detail::trace_id(&f));
  f.cur = &f.root;
  if (f.signal() != signal::error) return signal::start;
  // By a mistake in building it. A branch drops its steps in its first turn: this one is its parent's.
  const bool goes_on = f.root.parent_ != nullptr || call_outside(f, [&f] { drop_root_steps(f); });
  return goes_on ? signal::error : signal::none;
}

/// Starts an execution on the loop's thread. Throws std::bad_alloc.
inline void start(flow& f) {
  const std::uint32_t why = prepare(f);
  if (why != signal::none) make_ready(f, why);
}

/// The same for a flow that nothing is wrong with, whose place is reserved.
inline void start_with_place(flow& f) noexcept {
  f.has_place = true;
  f.root.sub_end_ = f.top;
  f.cur = &f.root;
  ASYNC_TRACE_INSTANT(flow_start, "flow", async::detail::trace_id(&f));
  make_ready(f, signal::start);
}

/// True when a scope of the waiting step holds an error back, and makes the flow ready later.
inline bool is_halted(flow& f) noexcept {
  scope* const s = f.scopes;
  return s != nullptr && s->holder == f.cur && s->ops != nullptr && s->ops->halt != nullptr && s->ops->halt(*s);
}

/// Drops the results of a flow that waits, or is queued. Returns as call_outside() does.
[[gnu::noinline]] inline bool drop_results(flow& f) noexcept {
  return call_outside(f, [&f] { destroy_results(f); });
}

/// Drops the next step of a queued flow, which has not run, and those behind it: none of them is active.
[[gnu::noinline]] inline void drop_next(flow& f) noexcept {
  std::byte* const next = reinterpret_cast<std::byte*>(f.cur);
  step* const parent = f.cur->parent_;
  std::byte* const end = parent->sub_end_;
  if (parent == &f.root) parent->sub_end_ = arena_of(f);  // none is left
  f.cur = parent;
  call_outside(f, [&f, next, end] {
    drop_steps(f, next, end);
    set_top(f, end);
  });
}

/// Raises an error at the innermost active step from outside the flow's callbacks, or at the step that runs. False: an
/// error or a cancel is under way already. True also when the destructor of a result or step has cancelled the flow,
/// which may be gone then. On the loop's thread.
[[gnu::noinline]] inline bool raise(flow& f, ErrorCode code, std::string_view info = {},
                                    step* target = nullptr) noexcept {
  const std::uint32_t was = f.signal();
  if (was == signal::error || was == signal::cancel || (f.at == phase::running && f.run_by == nullptr)) return false;
  if (f.tag != nullptr && f.at != phase::running && !drop_results(f)) return true;
  set_error(f, code, info, target);
  if (f.at == phase::parked) {
    if (!is_halted(f)) make_ready(f, signal::error);
  } else if (f.at == phase::queued && was == signal::start) {
    call_outside(f, [&f] { drop_root_steps(f); });
  } else if (f.at == phase::queued && was == signal::rerun && (f.cur->flags_ & record_flag::begun) == 0) {
    drop_next(f);
  }
  return true;
}

/// A call that the state of the flow does not allow: InternalError at the step that runs, or waits, or at the start of
/// the next execution. Not in cancel handlers and destructors, whose flow is ending anyway.
[[gnu::noinline]] inline void misuse(flow& f, std::string_view what) noexcept {
  switch (f.at) {
    case phase::idle:
      if (f.signal() != signal::error && f.signal() != signal::cancel) set_error(f, errors::InternalError, what);
      return;
    case phase::running:
      if (f.run_by == nullptr || f.signal() == signal::error || f.signal() == signal::cancel) return;
      set_error(f, errors::InternalError, what);
      return;
    default:
      raise(f, errors::InternalError, what);
      return;
  }
}

/// Takes one of what a flow with fixed memory has, and makes sure of room for a record. False, and the error is known:
/// there is none left.
[[gnu::noinline]] inline bool take_limited(flow& f, std::uint32_t limits::* what, std::size_t size,
                                           std::string_view exceeded) noexcept {
  if (f.limit->*what == 0) {
    misuse(f, exceeded);
    return false;
  }
  if (static_cast<std::size_t>(f.end - f.top) < size) {
    misuse(f, arena_exceeded(f));
    return false;
  }
  --(f.limit->*what);
  return true;
}

/// The types of the functions of the active steps.
inline std::vector<std::string_view> stack_of(const flow& f) {
  std::vector<std::string_view> names;
  for (const step* s = f.cur; s != nullptr; s = s->parent_) {
    if (s->ops_ != nullptr) names.push_back(s->ops_->name);
  }
  return names;
}

}  // namespace steps::detail
