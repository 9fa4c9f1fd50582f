// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "async/detail/base/atomics.hpp"  // for cpu_pause, yield_thread, under_model

namespace async::detail {

/// Waits `count` pauses of the core without touching memory. On a model checker: one step of the scheduler.
inline void pause_for(unsigned count) noexcept {
  if constexpr (under_model) {
    cpu_pause();
  } else {
    for (; count != 0; --count) cpu_pause();
  }
}

/// Escalating wait for an event that another thread is about to cause: doubling rounds of pauses, then yields.
///
/// Use it before a sleep, when the event usually comes sooner than a sleep and wake-up take (microseconds). Do not use
/// it as the only way to wait: it never sleeps. Not thread-safe: one object belongs to one waiting thread.
class backoff {
 public:
  /// Waits one step. The caller tests its condition before each step.
  void wait() noexcept {
    if (step_ < pause_steps) {
      pause_for(1U << step_);
    } else {
      yield_thread();
    }
    ++step_;
  }

  /// True when all pauses and `yields` yields are spent and it is time to sleep.
  bool exhausted(unsigned yields = 16) const noexcept { return step_ >= (under_model ? 1 : pause_steps + yields); }

  void reset() noexcept { step_ = 0; }

 private:
  static constexpr unsigned pause_steps = 7;  // 1 + 2 + … + 64 pauses
  unsigned step_ = 0;
};

/// Decides whether to spin before a sleep. While spins find nothing, it spins before ever fewer sleeps, down to one in
/// 256: where work comes at long intervals, a spin would take the CPU from the producer. Not thread-safe.
class adaptive_spin {
 public:
  /// Call before each sleep. False: sleep at once.
  bool should_spin() noexcept {
    if (skipped_ != pause_) {
      ++skipped_;
      return false;
    }
    skipped_ = 0;
    pause_ = pause_ < longest ? 2 * pause_ + 1 : longest;
    return true;
  }
  /// The spin has made the sleep unnecessary, so the next one may, too.
  void spin_succeeded() noexcept { skipped_ = pause_ = 0; }

 private:
  static constexpr unsigned longest = 255;
  unsigned skipped_ = 0;
  unsigned pause_ = 0;  // sleeps without a spin before the next one with a spin
};

}  // namespace async::detail
