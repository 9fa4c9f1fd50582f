// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <chrono>   // for microseconds
#include <utility>  // for exchange

#include "async/detail/base/atomics.hpp"  // for cpu_pause, yield_thread, under_model

namespace async::inline v0_1::detail {

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

/// Decides whether to spin before a sleep, and how long. While spins find nothing, it spins before ever fewer sleeps,
/// down to one in 256: where work comes at long intervals, a spin would take the CPU from the producer. When a spin of
/// some microseconds has just missed the work, the next one lasts `long_spin`: as long as a sleep and its wake-up cost
/// the two threads. Not thread-safe.
class adaptive_spin {
 public:
  using duration = wait_clock::duration;
  enum class length : unsigned char { none, some_steps, long_spin };
  static constexpr duration long_spin = std::chrono::microseconds(50);

  /// Call before each sleep.
  length next() noexcept {
    is_tried_ = skipped_ == pause_;
    if (!is_tried_) {
      ++skipped_;
      return length::none;
    }
    skipped_ = 0;
    pause_ = pause_ < longest ? 2 * pause_ + 1 : longest;
    return is_long_ ? length::long_spin : length::some_steps;
  }
  /// The spin has made the sleep unnecessary, so the next one may, too.
  void succeeded() noexcept { skipped_ = pause_ = 0; }
  /// Whether idle() wants to know how long this sleep and the spin before it take together.
  bool is_tried() const noexcept { return is_tried_; }
  void idle(duration time) noexcept {
    const bool was_long = std::exchange(is_long_, time < long_spin);
    if (is_long_ && !was_long) skipped_ = pause_;  // at once
  }

 private:
  static constexpr unsigned longest = 255;
  unsigned skipped_ = 0;
  unsigned pause_ = 0;  // sleeps without a spin before the next one with a spin
  bool is_tried_ = false;
  bool is_long_ = false;
};

}  // namespace async::inline v0_1::detail
