// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "steps/detail/flow/arena.hpp"       // for drop_spare_chunk
#include "steps/detail/flow/flow.hpp"        // for flow
#include "steps/detail/flow/flow_state.hpp"  // for verdict

/// Flows that wait: suspend() and wake(), and the list by which a loop finds them at its end.
namespace steps::inline v0_1::detail {

/// The root flows of a loop that have waited. They are cancelled when the loop is destroyed.
struct waiting_flows {
  void close() noexcept;

  flow* list = nullptr;
};

inline void enlist(flow& f) noexcept {
  flow*& list = f.core->extension<waiting_flows>().list;
  f.list_next = list;
  f.list_prev = &list;
  if (list != nullptr) list->list_prev = &f.list_next;
  list = &f;
}
inline void unlist(flow& f) noexcept {
  if (f.list_prev == nullptr) return;
  *f.list_prev = f.list_next;
  if (f.list_next != nullptr) f.list_next->list_prev = f.list_prev;
  f.list_prev = nullptr;
}

/// The step waits for an event. The flow stays in the list until its end, although it is woken.
inline void suspend(flow& f) noexcept {
  f.suspend();
  drop_spare_chunk(f);
  if (f.list_prev == nullptr && f.root.parent_ == nullptr) enlist(f);
}

/// Puts a waiting flow into the ready queue; its turn begins with `why`.
[[gnu::always_inline]] inline void wake(flow& f, verdict why) noexcept {
  f.wake(why);
  f.core->ready().push(f);
}

}  // namespace steps::inline v0_1::detail
