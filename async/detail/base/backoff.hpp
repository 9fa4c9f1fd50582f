// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint32_t
#include <utility>  // for exchange

#include "async/detail/base/atomics.hpp"   // for atomic, cpu_pause, yield_thread, wait_on_word, under_model, wait_clock
#include "async/detail/base/chrono.hpp"    // for microseconds, nanoseconds
#include "async/detail/base/config.hpp"    // for ASYNCSTEPS_SHARED
#include "async/detail/base/min_max.hpp"   // for min_of
#include "async/detail/base/platform.hpp"  // for pause_between_looks, process_cpu_time

namespace async::inline v0_1::detail {

/// Waits `count` pauses of the core without touching memory, also what the caller looks at next. On a model checker:
/// one step of the scheduler.
inline void pause_for(unsigned count) noexcept {
  if constexpr (under_model) {
    cpu_pause();
  } else {
    for (; count != 0; --count) cpu_pause();
    pause_between_looks();
  }
}

/// Escalating wait for an event that another thread is about to cause: doubling rounds of pauses, then yields, then
/// naps. Not thread-safe: one object belongs to one waiting thread.
///
/// Progress    a yield does not let threads of a lower real-time priority run. The other thread may be one that has
///             lost its processor to this thread: the naps give it back.
class backoff {
 public:
  /// Waits one step, where nothing wakes this thread. The caller tests its condition before each step.
  void wait() noexcept {
    if (under_model || step_ < pause_steps + most_yields) {
      spin();
    } else {
      nap(step_++ - (pause_steps + most_yields));
    }
  }
  /// The same without naps: before a sleep, when the event usually comes sooner than a sleep and wake-up take
  /// (microseconds).
  void spin() noexcept {
    if (step_ < pause_steps) {
      pause_for(1U << step_);
    } else {
      yield_thread();
    }
    ++step_;
  }

  /// True when all pauses and `yields` yields are spent and it is time to sleep.
  bool exhausted(unsigned yields) const noexcept { return step_ >= (under_model ? 1 : pause_steps + yields); }

 private:
  static constexpr unsigned pause_steps = 7;    // 1 + 2 + … + 64 pauses
  static constexpr unsigned most_yields = 100;  // some 50 us if no other thread wants the processor

  /// Sleeps for 50 us, 100 us, 200 us, 400 us, then 800 us. On a word that nobody changes: a function of the C library
  /// that sleeps may end the thread, by pthread_cancel().
  [[gnu::noinline, gnu::cold]] static void nap(unsigned number) noexcept {
    atomic<std::uint32_t> word{0};
    const auto until = wait_clock::now() + std::chrono::microseconds(50U << min_of(number, 4U));
    static_cast<void>(wait_on_word(word, 0, &until));
  }

  unsigned step_ = 0;
};

/// Decides whether a thread yields before it sleeps. Where other processes keep every processor busy, a yield gives
/// away a time slice, milliseconds, and a thread that sleeps is woken sooner. After yields that took too long there are
/// none before the next sleeps: before one, three, seven, and so on, up to 255. Where threads of this process have used
/// the time, the yields have done what they are for. Not thread-safe.
class yield_habit {
 public:
  using duration = wait_clock::duration;
  static constexpr duration too_long = std::chrono::microseconds(100);

  /// Call before each sleep.
  bool pays() noexcept {
    if (skipped_ != pause_) {
      ++skipped_;
      return false;
    }
    skipped_ = 0;
    return true;
  }
  /// Whether add() needs the CPU time of the process, which costs a system call: some yields took too long lately.
  bool is_suspect() const noexcept { return is_suspect_; }
  /// Call after the yields, with the time that they took and the CPU time of the process meanwhile.
  void add(duration time, duration of_process) noexcept {
    if (time > too_long) {
      quick_ = 0;
      if (std::exchange(is_suspect_, true)) {
        pause_ = of_process < time / 4 ? min_of(2 * pause_ + 1, longest) : pause_ / 2;
      }
    } else if (++quick_ == 4) {  // on a busy processor some are quick
      quick_ = 0;
      pause_ /= 2;
      is_suspect_ = pause_ != 0;
    }
  }

 private:
  static constexpr unsigned longest = 255;
  unsigned skipped_ = 0;
  unsigned pause_ = 0;  // sleeps without yields before the next one with some
  unsigned quick_ = 0;  // in a row
  bool is_suspect_ = false;
};
ASYNCSTEPS_SHARED inline constinit thread_local yield_habit habit_of_yields{};

/// The yields of the calling thread before a sleep, while this lives.
class yield_phase {
 public:
  yield_phase() noexcept : of_process_(cpu_time()), begin_(wait_clock::now()) {}
  yield_phase(const yield_phase&) = delete;
  yield_phase& operator=(const yield_phase&) = delete;
  ~yield_phase() {
    const wait_clock::time_point end = wait_clock::now();
    wait_clock::duration of_process = cpu_time() - of_process_;
    // With thousands of threads the system takes long to tell, at each look: such yields had better be few.
    if (habit_of_yields.is_suspect() && wait_clock::now() - end > slow_answer) of_process = {};
    habit_of_yields.add(end - begin_, of_process);
  }

 private:
  static constexpr std::chrono::microseconds slow_answer{20};

  static std::chrono::nanoseconds cpu_time() noexcept {
    return habit_of_yields.is_suspect() ? platform::process_cpu_time() : std::chrono::nanoseconds();
  }

  const std::chrono::nanoseconds of_process_;
  const wait_clock::time_point begin_;
};

/// Asks found() after each pause, until `pause` has none left. Whether it has been found.
template <class Found>
bool pause_until(Found& found, backoff& pause) noexcept {
  while (!pause.exhausted(0)) {
    pause.spin();
    if (found()) return true;
  }
  return false;
}

/// Spins before a sleep: asks found() after pauses, and after `yields` yields if that pays. False: it is time to sleep.
template <class Found>
bool spin_before_sleep(unsigned yields, Found found) noexcept {
  backoff pause;
  if (pause_until(found, pause)) return true;
  if constexpr (!under_model) {
    if (yields == 0 || !habit_of_yields.pays()) return false;
    const yield_phase yielding;
    while (!pause.exhausted(yields)) {
      pause.spin();
      if (found()) return true;
    }
  }
  return false;
}
/// The same until a time.
template <class Found>
bool spin_before_sleep_until(wait_clock::time_point limit, Found found) noexcept {
  backoff pause;
  if (pause_until(found, pause)) return true;
  const auto until_limit = [&](auto wait) noexcept {
    do {
      wait();
      if (found()) return true;
    } while (wait_clock::now() < limit);
    return false;
  };
  if (!habit_of_yields.pays()) return until_limit([] { pause_for(64); });
  const yield_phase yielding;
  return until_limit([&pause] { pause.spin(); });
}

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
  unsigned pause_ = 1;  // sleeps without a spin before the next one with a spin: none before a thread's first sleep
  bool is_tried_ = false;
  bool is_long_ = false;
};

}  // namespace async::inline v0_1::detail
