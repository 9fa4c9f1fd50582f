// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <condition_variable>  // for condition_variable
#include <cstddef>             // for size_t
#include <mutex>               // for mutex

#include "async/detail/base/atomics.hpp"  // for atomic, light_fence, heavy_fence

namespace async::inline v0_1::detail {

/// A condition variable for a condition that other threads make true without a lock.
///
/// The waiter counts itself, heavy fence, looks at the condition. A thread that may have made the condition true: light
/// fence, looks at the count. So either the waiter sees the condition, or the other thread sees the waiter and wakes
/// it.
template <class Mutex = std::mutex, class Variable = std::condition_variable>
class basic_idle_condition {
 public:
  template <class Condition>
  void wait(Condition condition) {
    if (condition()) return;  // saves the fence
    wait_with([this, &condition](auto& lock) { changed_.wait(lock, condition); });
  }
  /// The same for a limited time. Returns the condition.
  template <class Moment, class Condition>
  bool wait_until(Moment deadline, Condition condition) {
    bool is_true = condition();
    if (is_true) return true;
    wait_with([&](auto& lock) { is_true = changed_.wait_until(lock, deadline, condition); });
    return is_true;
  }

  /// To be called after a change that may have made the condition true.
  void notify() noexcept {
    light_fence();                                              // pairs with wait_with()'s heavy fence
    if (waiters_.load(std::memory_order_relaxed) == 0) return;  // relaxed: ordered by the fence
    {
      const std::lock_guard lock(mutex_);
    }  // a waiter is not between its look and its sleep any more
    changed_.notify_all();
  }

  /// In a child of fork(), where none of the waiting threads exists.
  void forget() noexcept { waiters_.store(0, std::memory_order_relaxed); }  // relaxed: there is one thread

 private:
  template <class Wait>
  void wait_with(Wait wait) {
    std::unique_lock lock(mutex_);
    waiters_.fetch_add(1, std::memory_order_relaxed);  // relaxed: ordered by the fence
    heavy_fence();                                     // pairs with notify()'s light fence
    wait(lock);
    waiters_.fetch_sub(1, std::memory_order_relaxed);  // relaxed: a needless wake-up is harmless
  }

  Mutex mutex_;
  Variable changed_;
  atomic<std::size_t> waiters_{0};
};

using idle_condition = basic_idle_condition<>;

}  // namespace async::inline v0_1::detail
