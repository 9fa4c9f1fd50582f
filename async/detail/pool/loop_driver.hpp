// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "async/detail/base/atomics.hpp"  // for atomic

namespace async::detail {

/// Who drives a loop that changes hands, and is to be woken for it.
///
/// Threads     whom_to_wake(): any. All others: under the lock of who hands the loop on.
template <class Worker>
class loop_driver {
 public:
  void set(Worker& w) noexcept { word_.store(&w, std::memory_order_release); }  // [W31] release, pairs with [W30]
  void clear() noexcept { word_.store(nullptr, std::memory_order_relaxed); }  // who does not see it wakes one too many
  Worker* get() const noexcept { return word_.load(std::memory_order_relaxed); }

  /// Null: nobody.
  Worker* whom_to_wake() const noexcept {
    return word_.load(std::memory_order_acquire);  // [W30] acquire, pairs with [W31]: the worker, and its parking_slot
  }

 private:
  atomic<Worker*> word_{nullptr};
};

}  // namespace async::detail
