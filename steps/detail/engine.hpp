// SPDX-License-Identifier: BSL-1.0
// floor: 8
#pragma once
#include <chrono>       // for milliseconds
#include <cstdint>      // for uint32_t
#include <string_view>  // for string_view

#include "async/detail/trace_points.hpp"  // for ASYNC_TRACE_SPAN
#include "steps/detail/unwind.hpp"        // for unwind, end_step

/// Running a flow: from the loop's ready queue until it waits, ends, or has had its turn.
namespace steps::detail {

/// A step's function has returned with a signal that is not the common one.
[[gnu::noinline]] inline step* after_signal(flow& f, step& s) {
  switch (f.signal()) {
    case signal::wait:
      park(f);
      return nullptr;
    case signal::error:
      drop_added(f);
      return unwind(f, &s);
    default:  // cancelled by its own function
      drop_added(f);
      finish_cancel(f, &s);
      return nullptr;
  }
}

/// relinquish() came before all sub-steps: the step ends, or they run, when its turn comes again.
inline void give_way(flow& f, step& s) noexcept {
  if (f.first == nullptr) return make_ready(f, signal::done);
  s.sub_end_ = f.top;
  f.cur = f.first;
  make_ready(f, signal::rerun);
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
    f.signal(signal::none);
    s.sub_end_ = f.top;
    return f.first;
  }
  if (said == signal::none || said == signal::done) [[likely]] {
    f.signal(signal::none);
    return end_run(f, s);
  }
  if (said == signal::yield) {
    give_way(f, s);
    return nullptr;
  }
  return after_signal(f, s);
}

/// What a queued flow begins its turn with.
inline step* enter(flow& f, std::uint32_t why) {
  if (why == signal::start) [[likely]] {
    if (f.first != nullptr) [[likely]]
      return f.first;
    f.ops->end(f);
    return nullptr;
  }
  return why == signal::done ? end_step(f, *f.cur) : unwind(f, f.cur);  // error
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

/// Gets a flow ready for its first turn, on the loop's thread; returns what that begins with. Throws std::bad_alloc.
inline std::uint32_t prepare(flow& f) {
  f.core->ready().reserve(1);
  f.has_place = true;
  f.root.sub_end_ = f.top;
  ASYNC_TRACE_INSTANT(flow_start, "flow", async::detail::trace_id(&f));
  f.cur = &f.root;
  const bool broken = f.signal() == signal::error;  // by a mistake in building it
  if (broken) drop_root_steps(f);
  return broken ? signal::error : signal::start;
}

/// Starts an execution on the loop's thread. Throws std::bad_alloc.
inline void start(flow& f) { make_ready(f, prepare(f)); }

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

/// Drops the results of a flow that waits, or is queued; their destructors are users' functions. False: the flow has
/// been cancelled by one of them, and may be gone.
[[gnu::noinline]] inline bool drop_results(flow& f) noexcept {
  const std::uint32_t was = f.signal();
  const phase at = std::exchange(f.at, phase::running);
  destroy_results(f);
  f.at = at;
  const bool goes_on = f.signal() != signal::cancel;
  f.signal(was);
  if (!goes_on) cancel_now(f);
  return goes_on;
}

/// Raises an error at the innermost active step from outside the flow's callbacks, or at the step that runs. False: an
/// error or a cancel is under way already. True also when the destructor of a result has cancelled the flow, which may
/// be gone then. On the loop's thread.
[[gnu::noinline]] inline bool raise(flow& f, ErrorCode code, std::string_view info = {},
                                    step* target = nullptr) noexcept {
  const std::uint32_t was = f.signal();
  if (was == signal::error || was == signal::cancel || (f.at == phase::running && f.run_by == nullptr)) return false;
  if (f.tag != nullptr && f.at != phase::running && !drop_results(f)) return true;
  set_error(f, code, info, target);
  if (f.at == phase::parked) {
    if (!is_halted(f)) make_ready(f, signal::error);
  } else if (f.at == phase::queued) {
    if (was == signal::start) {
      drop_root_steps(f);
    } else if (was == signal::rerun && (f.cur->flags_ & record_flag::begun) == 0) {
      // cur is the next step, which has not run: it is none of the active ones
      step* const parent = f.cur->parent_;
      drop_steps(f, reinterpret_cast<std::byte*>(f.cur), parent->sub_end_);
      set_top(f, parent->sub_end_);
      f.cur = parent;
    }
  }
  return true;
}

/// A call that the state of the flow does not allow: InternalError at the step that runs, or waits, or at the start of
/// the next execution. Not in cancel handlers and destructors, whose flow is ending anyway.
[[gnu::noinline]] inline void misuse(flow& f, std::string_view what) noexcept {
  switch (f.at) {
    case phase::idle:
      if (f.signal() != signal::error) set_error(f, errors::InternalError, what);
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
