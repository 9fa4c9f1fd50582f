// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "async/detail/base/atomics.hpp"  // for atomic, light_fence, heavy_fence

namespace async::detail {

/// The end of a pool, as those see it who post tasks from outside.
///
/// Who posts looks at has_begun(), publishes the task, and then asks is_over(): light fence, look. Who stops the pool
/// calls begin(), lets the threads run what there is, ends them, calls finish(), which is over by a heavy fence, and
/// looks for tasks once more. So either that look finds the task, or who has posted it runs what there is.
///
/// Threads     any; begin() and finish() by one at a time.
/// Progress    wait-free.
class shutdown_state {
 public:
  void begin() noexcept { begun_.store(true, std::memory_order_release); }  // [W2] release, pairs with [W1]
  /// True: only tasks of the pool may post. What happened before begin() can be seen.
  bool has_begun() const noexcept { return begun_.load(std::memory_order_acquire); }  // [W1] acquire, pairs with [W2]
  /// The same, in time. Relaxed: a hint.
  bool is_closing() const noexcept { return begun_.load(std::memory_order_relaxed); }

  /// The threads have gone.
  void finish() noexcept {
    over_.store(true, std::memory_order_relaxed);  // relaxed: ordered by the fence
    heavy_fence();                                 // pairs with is_over()'s light fence
  }
  /// After a task was published. True: it may be that nobody else runs it.
  bool is_over() const noexcept {
    light_fence();                                 // pairs with finish()'s heavy fence
    return over_.load(std::memory_order_relaxed);  // relaxed: ordered by the fence
  }

 private:
  atomic<bool> begun_{false};
  atomic<bool> over_{false};
};

}  // namespace async::detail
