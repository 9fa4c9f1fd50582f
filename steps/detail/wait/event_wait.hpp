// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <optional>  // for optional
#include <utility>   // for forward

#include "async/event.hpp"                      // for event, event_call
#include "steps/detail/engine/callable.hpp"     // for call_handler
#include "steps/detail/engine/step_record.hpp"  // for discard_results
#include "steps/detail/wait/queue_wait.hpp"     // for attempt_or_wait, queue_line

namespace steps::inline v0_1::detail {

/// A step of await(event): rule 46.
template <class Face, class E>
struct event_step final : Face {
  template <class H>
  event_step(async::event& e, H&& h) : event(e), handler(std::forward<H>(h)) {}

  static void run(step& s) {
    auto& self = static_cast<event_step&>(s);
    s.flags_ |= record_flag::begun;
    discard_results(*s.flow_);
    if (!self.call) self.call.emplace(self.event);
    static_cast<void>(
        attempt_or_wait(*s.flow_, self.call->events(), self.line, [&self]() noexcept { return self.call->attempt(); }));
  }
  void fail(ErrorCode code) {
    line.leave();
    call_handler<Face>(handler, *this, code);
  }

  async::event& event;
  std::optional<async::detail::event_call> call;  // from the first run on
  queue_line line;
  [[no_unique_address]] E handler;
};

}  // namespace steps::inline v0_1::detail
