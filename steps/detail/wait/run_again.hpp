// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "async/detail/base/chrono.hpp"       // for nanoseconds
#include "async/detail/loop/timer_queue.hpp"  // for timer_node
#include "steps/detail/engine/waiting.hpp"    // for wake

namespace steps::inline v0_1::detail {

/// Runs the step again if its flow still waits in it. On the loop's thread.
inline void run_again(step& s) {
  flow& f = *s.flow_;
  if (f.is_waiting() && f.has_no_verdict() && f.cur == &s) wake(f, verdict::rerun);
}

/// A timer that runs a step again. Its owner stops it before the step does anything else that waits.
struct run_timer : async::detail::timer_node {
  run_timer() noexcept : timer_node(&due) {}

  void start(step& s, std::chrono::nanoseconds time) noexcept {
    waiting = &s;
    s.flow_->core->timers().arm_after(*this, time);
  }
  void start(step& s, async::detail::loop_core::time_point time) noexcept {
    waiting = &s;
    s.flow_->core->timers().arm(*this, time);
  }
  void stop() noexcept {
    if (armed()) waiting->flow_->core->timers().disarm(*this);
  }

  static void due(timer_node& node) {
    step& s = *static_cast<run_timer&>(node).waiting;
    if (!s.flow_->core->closing()) run_again(s);
  }

  step* waiting = nullptr;
};

}  // namespace steps::inline v0_1::detail
