// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "async/detail/base/atomics.hpp"  // for cpu_pause, yield_thread, under_model

namespace async::detail {

/// Waits `count` pauses of the core without touching memory; one step of the scheduler on a model checker.
inline void pause_for(unsigned count) noexcept {
  if constexpr (under_model) {
    cpu_pause();
  } else {
    for (; count != 0; --count) cpu_pause();
  }
}

/// Escalating wait for an event that another thread is about to cause: doubling rounds of pauses, then yields.
///
/// Use it in front of a sleep, when the event is usually nearer than a sleep and wake-up (microseconds). Do not use it
/// as the only way to wait: it never sleeps. Not thread-safe: one object belongs to one waiting thread.
class backoff {
 public:
  /// Waits one step. The caller looks at its condition before each.
  void wait() noexcept {
    if (step_ < pause_steps) {
      pause_for(1U << step_);
    } else {
      yield_thread();
    }
    ++step_;
  }

  /// True when the pauses and `yields` yields are spent and it is time to sleep.
  bool exhausted(unsigned yields = 16) const noexcept { return step_ >= (under_model ? 1 : pause_steps + yields); }

  void reset() noexcept { step_ = 0; }

 private:
  static constexpr unsigned pause_steps = 7;  // 1 + 2 + … + 64 pauses
  unsigned step_ = 0;
};

/// Whether to wait actively in front of a sleep: while that has found nothing, in ever fewer cases, down to one in 256.
/// Where work comes long after the last, the wait would only keep a processor from who is to bring it. Not thread-safe.
class adaptive_spin {
 public:
  /// Asked before each sleep. False: sleep at once.
  bool should_spin() noexcept {
    if (skipped_ != pause_) {
      ++skipped_;
      return false;
    }
    skipped_ = 0;
    pause_ = pause_ < longest ? 2 * pause_ + 1 : longest;
    return true;
  }
  /// The wait has made a sleep unnecessary: so may the next.
  void spin_succeeded() noexcept { skipped_ = pause_ = 0; }

 private:
  static constexpr unsigned longest = 255;
  unsigned skipped_ = 0;
  unsigned pause_ = 0;  // how many sleeps without a wait come before the next with one
};

}  // namespace async::detail
