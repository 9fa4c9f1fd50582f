// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "async/detail/base/atomics.hpp"  // for atomic

namespace async::detail {

/// The worker that drives a loop, or none. A message for the loop wakes this worker.
///
/// Threads     to_wake(): any. All others: under the crew's mutex.
template <class Worker>
class loop_driver {
 public:
  void set(Worker& w) noexcept { word_.store(&w, std::memory_order_release); }  // [W31] release, pairs with [W30]
  void clear() noexcept {
    word_.store(nullptr, std::memory_order_relaxed);
  }  // relaxed: an old value only causes a needless wake-up
  Worker* get() const noexcept { return word_.load(std::memory_order_relaxed); }

  /// Null: no worker drives the loop.
  Worker* to_wake() const noexcept {
    return word_.load(std::memory_order_acquire);  // [W30] acquire, pairs with [W31]: the worker, and its parking_slot
  }

 private:
  atomic<Worker*> word_{nullptr};
};

}  // namespace async::detail
