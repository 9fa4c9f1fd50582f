// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for byte
#include <utility>  // for exchange

#include "async/detail/loop/loop_core.hpp"      // for loop_core, loop_extension
#include "async/detail/trace/trace_points.hpp"  // for ASYNC_TRACE_INSTANT
#include "steps/detail/engine/scopes.hpp"       // for leave_scopes, cancel_scopes
#include "steps/detail/flow/promise.hpp"        // for promise_base

/// How steps and flows end by success or cancel. The end by error is in unwind.hpp.
namespace steps::detail {

/// The parked flows of a loop, which are cancelled when the loop is destroyed.
struct parked_flows final : async::detail::loop_extension {
  explicit parked_flows(async::detail::loop_core&) noexcept {}
  void close() noexcept override;

  flow* list = nullptr;
};

inline void enlist(flow& f) noexcept {
  try {
    flow*& list = f.core->extension<parked_flows>().list;
    f.list_next = list;
    f.list_prev = &list;
    if (list != nullptr) list->list_prev = &f.list_next;
    list = &f;
  } catch (...) {  // without memory for the list's head the flow waits for its owner to cancel it
    return;
  }
}
inline void unlist(flow& f) noexcept {
  if (f.list_prev == nullptr) return;
  *f.list_prev = f.list_next;
  if (f.list_next != nullptr) f.list_next->list_prev = f.list_prev;
  f.list_prev = nullptr;
}

/// Waits for something from outside.
inline void park(flow& f) noexcept {
  f.signal(signal::none);
  f.at = phase::parked;
  if (f.list_prev == nullptr && f.root.parent_ == nullptr) enlist(f);
}

/// Runs again as soon as its turn comes; `why` is what it does then.
[[gnu::always_inline]] inline void make_ready(flow& f, std::uint32_t why) noexcept {
  f.signal(why);
  f.at = phase::queued;
  f.core->ready().push(f);
}

/// The objects of the root have destructors, which are users' functions.
[[gnu::noinline]] inline void leave_root_scopes(flow& f) noexcept {
  const phase at = std::exchange(f.at, phase::running);
  leave_scopes(f, f.root);
  f.at = at;
}
[[gnu::noinline, gnu::cold]] inline bool refuse_to_begin(flow& f) noexcept {
  set_error(f, errors::InternalError, "an object of the last execution uses the flow in its destructor");
  return false;
}

/// Forgets a finished execution before the flow's end.
inline void clear_remains(flow& f) noexcept {
  if (f.scopes != nullptr) [[unlikely]]
    leave_root_scopes(f);
  f.ended = false;
  set_top(f, f.root.sub_end_ = arena_of(f));
}
/// The same before the next execution. False, and the mistake is known: called by one of these destructors.
inline bool begin_anew(flow& f) noexcept {
  if (!f.ended) return true;
  if (f.at == phase::running) [[unlikely]]
    return refuse_to_begin(f);
  clear_remains(f);
  return true;
}

[[gnu::noinline]] inline void hand_back_and_tell(flow& f) noexcept {
  promise_base* const promise = std::exchange(f.promise, nullptr);
  f.detached ? f.ops->release(f) : f.active.clear();
  if (promise != nullptr) promise->drop();
}

/// Gives back what the flow has of its loop.
inline void leave_loop(flow& f) noexcept {
  ASYNC_TRACE_INSTANT(flow_end, signal::ending(f.signal()), async::detail::trace_id(&f));
  clear_results(f);
  unlist(f);
  if (std::exchange(f.has_place, false)) f.core->ready().unreserve(1);
}

/// The end of an execution: the flow is idle, and belongs to whoever has the root; or it is released.
inline void settle(flow& f) noexcept {
  leave_loop(f);
  f.signal(signal::none);
  f.first = nullptr;
  f.ended = true;
  f.at = phase::idle;
  if (f.detached || f.promise != nullptr) [[unlikely]]
    return hand_back_and_tell(f);
  f.active.clear();
}

/// Destroys a step that will not run, or whose end has come.
inline void destroy_step(flow& f, step& s) noexcept {
  if (s.ops_->destroy != nullptr) s.ops_->destroy(s);
  if (f.limit != nullptr) [[unlikely]]
    ++f.limit->steps;
}

/// Destroys its functors only; returns what lies behind it.
[[gnu::noinline]] inline std::byte* destroyed(step& s) noexcept {
  std::byte* const end = reinterpret_cast<std::byte*>(&s) + s.size_;
  s.ops_->destroy(s);
  return end;
}

/// Destroys the steps between two places of the arena, which have not run.
inline void drop_steps(flow& f, std::byte* from, const std::byte* to) noexcept {
  for (step* s = next_step(from, to); s != nullptr;) {
    std::byte* const next = reinterpret_cast<std::byte*>(s) + s->size_;
    destroy_step(f, *s);
    s = next_step(next, to);
  }
}

/// Destroys the steps of the root, none of which has run; the flow has started.
inline void drop_root_steps(flow& f) noexcept {
  drop_steps(f, arena_of(f), std::exchange(f.root.sub_end_, arena_of(f)));
  f.cur = &f.root;
}
/// The same before the start.
inline void drop_built(flow& f) noexcept {
  f.root.sub_end_ = f.top;
  drop_root_steps(f);
}

/// The steps that the function or handler that has just returned has added, if any, are not to run.
inline void drop_added(flow& f) noexcept {
  if (step* const first = std::exchange(f.first, nullptr)) drop_steps(f, reinterpret_cast<std::byte*>(first), f.top);
}

/// The step is over, with its siblings to come; returns its parent.
inline step* leave_level(flow& f, step& s) noexcept {
  step* const parent = s.parent_;
  std::byte* const next = reinterpret_cast<std::byte*>(&s) + s.size_;
  leave_scopes(f, s);
  destroy_step(f, s);
  drop_steps(f, next, parent->sub_end_);
  set_top(f, parent->sub_end_);
  return parent;
}

/// A step has succeeded. Returns what is to run next; null: the flow has ended, and may be gone.
[[gnu::always_inline]] inline step* end_run(flow& f, step& ended) noexcept(false) {
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
      if ((s->flags_ & record_flag::destroys) != 0) next = destroyed(*s);
    }
    if (step* const sibling = next_step(next, parent->sub_end_)) return sibling;
    s = parent;
    if (s == &f.root) break;
  }
  f.cur = s;
  if (f.signal() == signal::cancel) [[unlikely]] {
    settle(f);
  } else {
    f.ops->end(f);
  }
  return nullptr;
}

/// The same where it is not the common case.
[[gnu::noinline]] inline step* end_step(flow& f, step& ended) noexcept(false) { return end_run(f, ended); }

/// A cancelled flow whose end waits for that of a branch, which is in a callback further up the stack.
inline bool is_held(const flow& f) noexcept { return f.at == phase::parked && f.signal() == signal::cancel; }

/// The same, or an error on its way outwards that waits so.
inline bool is_halfway(const flow& f) noexcept {
  return f.end_blockers != 0 && f.at == phase::parked && (f.signal() == signal::cancel || f.signal() == signal::error);
}

/// Ends everything from the innermost step `s` on: timers, cancel handlers, memory; innermost first. The flow may be
/// gone then; or it is held.
[[gnu::noinline]] inline void finish_cancel(flow& f, step* s) noexcept {
  while (s != &f.root) {
    f.cur = s;
    cancel_scopes(f, *s);
    if (f.end_blockers != 0) [[unlikely]] {
      f.signal(signal::cancel);
      f.at = phase::parked;
      return;
    }
    s = leave_level(f, *s);
  }
  f.cur = s;
  settle(f);
}

/// One reason less to hold the end of a flow.
inline void let_go(flow& f) noexcept {
  const bool waits = is_halfway(f);
  if (--f.end_blockers != 0 || !waits) return;
  if (f.signal() == signal::error) return make_ready(f, signal::error);
  f.at = phase::running;
  finish_cancel(f, f.cur);
}

/// Cancels a flow that executes, from outside its callbacks, on the loop's thread.
inline void cancel_now(flow& f) noexcept {
  if (is_held(f)) return;
  f.core->ready().erase(f);
  const std::uint32_t was = f.signal();
  f.at = phase::running;
  f.signal(signal::cancel);
  f.end_wait();
  if (was == signal::start || f.cur == &f.root) {
    drop_root_steps(f);
  }
  finish_cancel(f, f.cur);
}

/// Cancels a flow from a callback of its own: cancel handlers run at once, the rest ends when the callback has
/// returned.
[[gnu::noinline]] inline void cancel_running(flow& f) noexcept {
  if (f.signal() == signal::cancel) return;
  clear_results(f);
  f.signal(signal::cancel);
  for (scope* s = f.scopes; s != nullptr;) {
    const step& owner = *s->holder;
    cancel_scopes(f, owner, s);
    if (f.run_by == nullptr) return;  // a step is just being ended: those around it follow when that is done
    while (s != nullptr && s->holder == &owner) s = s->outer;
  }
}

/// Those whose end waits for branches on other loops stay.
inline void parked_flows::close() noexcept {
  for (flow* f = list; f != nullptr;) {
    if (is_held(*f)) {
      f = f->list_next;
    } else {
      cancel_now(*f);
      f = list;
    }
  }
}

}  // namespace steps::detail
