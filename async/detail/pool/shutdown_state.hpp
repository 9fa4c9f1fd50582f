// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "async/detail/base/atomics.hpp"  // for atomic, light_fence, heavy_fence

namespace async::inline v0_1::detail {

/// The shutdown of a pool, as seen by threads that post tasks from outside.
///
/// A posting thread looks at has_begun(), publishes the task, and then asks is_over(): light fence, look. The stopping
/// thread calls begin(), lets the pool's threads run all tasks, ends them, calls finish(): store, heavy fence; and
/// looks for tasks once more. So either this last look finds the task, or the posting thread sees the end and runs the
/// tasks itself.
///
/// A pool that discards its tasks says so before begin().
///
/// Threads     any; finish() by one at a time.
/// Progress    wait-free.
class shutdown_state {
 public:
  /// Tasks that have not begun are to be dropped from here on, until end_discard(). Before begin().
  void discard() noexcept {
    auto before = discarding::not_yet;
    discards_.compare_exchange_strong(before, discarding::on, std::memory_order_relaxed);  // relaxed, all: a hint
  }
  bool discards() const noexcept { return discards_.load(std::memory_order_relaxed) == discarding::on; }
  /// To be called when nothing is left: later tasks, which run on the threads that make them, are not dropped.
  void end_discard() noexcept { discards_.store(discarding::over, std::memory_order_relaxed); }

  void begin() noexcept { begun_.store(true, std::memory_order_release); }  // [W2] release, pairs with [W1]
  /// True: only tasks of the pool may post. All that happened before begin() is visible.
  bool has_begun() const noexcept { return begun_.load(std::memory_order_acquire); }  // [W1] acquire, pairs with [W2]
  /// The same, but possibly late. Relaxed: a hint.
  bool is_closing() const noexcept { return begun_.load(std::memory_order_relaxed); }

  /// From here on, stand-ins and lookouts that start call no hook and do nothing. The caller then makes sure that those
  /// which have not seen this are done.
  void end_starts() noexcept {
    starts_are_over_.store(true, std::memory_order_relaxed);  // relaxed, both: ordered by the count of helpers
  }
  /// To be asked by a thread that counts as a helper.
  bool are_starts_over() const noexcept { return starts_are_over_.load(std::memory_order_relaxed); }

  /// To be called when the threads have ended.
  void finish() noexcept {
    over_.store(true, std::memory_order_relaxed);  // relaxed: ordered by the fence
    heavy_fence();                                 // pairs with is_over()'s light fence
  }
  /// To be asked after a task was published. True: the caller has to run it, for no other thread may.
  bool is_over() const noexcept {
    light_fence();                                 // pairs with finish()'s heavy fence
    return over_.load(std::memory_order_relaxed);  // relaxed: ordered by the fence
  }

 private:
  enum class discarding : unsigned char { not_yet, on, over };

  atomic<bool> begun_{false};
  atomic<bool> over_{false};
  atomic<bool> starts_are_over_{false};
  atomic<discarding> discards_{discarding::not_yet};
};

}  // namespace async::inline v0_1::detail
