// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "async/detail/base/atomics.hpp"  // for atomic, light_fence, heavy_fence
#include "async/detail/base/chrono.hpp"   // for milliseconds

namespace async::inline v0_1::detail {

/// Saves wake-ups for loops that wake each other: a worker that queues a single loop wakes nobody while another worker
/// watches. The watcher sleeps for at most `interval`, then takes what it finds, except a single loop that is about to
/// be turned (brief_look). So the loop runs next on the worker that has woken it or, if that worker is inside a
/// function that takes long, soon on another one.
///
/// Why no loop is left alone: a watcher that wakes calls end() (heavy fence), then looks at all queues, as a searcher
/// or before it sleeps again. If it goes on with a function instead, it looks, too, and wakes another worker if there
/// is a loop. A worker queues the loop, then calls is_on() (light fence). So the watcher sees the loop, or the worker
/// sees that nobody watches. The fence of announce() would not do: a thread that finds the sleepers watched makes none.
///
/// Threads     is_on(): any. begin(), end(): workers.
/// Progress    wait-free.
class loop_watch {
 public:
  static constexpr std::chrono::milliseconds interval{1};

  /// By a worker that has queued a loop.
  bool is_on() const noexcept {
    light_fence();                                  // pairs with the heavy fence of end()
    return is_on_.load(std::memory_order_relaxed);  // relaxed: ordered by the fence
  }
  /// By a worker that is about to announce its sleep. False: another one watches.
  bool begin() noexcept {
    // relaxed, both: two watchers at a time are harmless
    if (is_on_.load(std::memory_order_relaxed)) return false;
    is_on_.store(true, std::memory_order_relaxed);
    return true;
  }
  /// By the watcher, when it wakes. Then it looks for loops.
  void end() noexcept {
    is_on_.store(false, std::memory_order_relaxed);  // relaxed: ordered by the fence
    heavy_fence();                                   // pairs with the light fence of is_on()
  }

 private:
  atomic<bool> is_on_{false};
};

}  // namespace async::inline v0_1::detail
