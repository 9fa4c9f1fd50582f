// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "async/detail/base/config.hpp"            // for ASYNCSTEPS_FUNCTION
#include "async/detail/future/broken_promise.hpp"  // for broken_promise, dropped_promise
#include "async/errors.hpp"                        // for dropped_call
#include "steps/detail/engine/ending.hpp"          // for unwind_cancel, run_cancel_handlers
#include "steps/detail/flow/promise.hpp"           // for set_reason

/// Cancels on the flow's loop. A request from another thread arrives there as a message, see root/root.hpp.
namespace steps::inline v0_1::detail {

/// One reason less to hold the end of a flow. When it was the last, the held error or cancel goes on.
inline void unblock_end(flow& f) noexcept {
  switch (f.unblock_end()) {
    case flow::unblocked::nothing:
      return;
    case flow::unblocked::error:
      return wake(f, verdict::error);
    case flow::unblocked::cancel:
      return unwind_cancel(f, f.cur);
  }
}

/// Cancels a flow that executes and is in none of its callbacks. It has ended then, and may be gone, unless the cancel
/// is held.
void cancel_outside_turn(flow& f) noexcept;

/// Cancels a flow from a callback of its own: cancel handlers run at once, the rest ends when the callback has
/// returned.
void cancel_in_turn(flow& f) noexcept;

/// Before the flow is cancelled because its loop or pool ends: its promise gets the reason.
void note_loop_end(const flow& f) noexcept;

/// Flows whose end waits for branches on other loops stay.
inline void waiting_flows::close() noexcept {
  for (flow* f = list; f != nullptr;) {
    if (f->is_cancel_held()) {
      f = f->list_next;
    } else {
      f->core->note_cancelled_flow();
      note_loop_end(*f);
      cancel_outside_turn(*f);
      f = list;
    }
  }
}

#if ASYNCSTEPS_DEFINED
[[gnu::noinline, gnu::cold]] ASYNCSTEPS_FUNCTION void note_loop_end(const flow& f) noexcept {
  if (f.promise == nullptr) return;
  const bool is_of_pool = f.pool != nullptr || f.core->is_of_pool();
  f.promise->set_reason(is_of_pool ? async::detail::dropped_promise(async::dropped_call::reason::stopped)
                                   : async::detail::broken_promise());
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION void cancel_in_turn(flow& f) noexcept {
  if (f.is_cancelled()) return;
  clear_results(f);
  f.mark_cancel();
  for (scope* s = f.scopes; s != nullptr;) {
    const step& owner = *s->holder;
    run_cancel_handlers(f, owner, s);
    if (f.run_by == nullptr) return;  // this step is being ended by its caller, which goes on with the steps around it
    while (s != nullptr && s->holder == &owner) s = s->outer;
  }
}

ASYNCSTEPS_FUNCTION void cancel_outside_turn(flow& f) noexcept {
  if (f.is_cancel_held()) return;
  f.core->ready().erase(f);
  const verdict was = f.begin_cancel();
  f.end_wait();
  if (was == verdict::start || f.cur == &f.root) destroy_root_steps(f);
  unwind_cancel(f, f.cur);
}
#endif

}  // namespace steps::inline v0_1::detail
