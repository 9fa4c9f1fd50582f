// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for size_t
#include <mutex>    // for lock_guard

#include "async/detail/base/spin_lock.hpp"     // for spin_lock
#include "async/detail/base/waiter_queue.hpp"  // for waiter_queue
#include "steps/detail/wait/sync_waiter.hpp"   // for sync_entry

namespace steps::inline v0_1::detail {

/// The core of Mutex and Semaphore: places, and a queue of waiters for them. Its functions are those of ISync.
///
/// A place that is given back goes to the first waiter at once, under the lock. So no flow overtakes another, and
/// `inside_` counts the places that are held or on their way.
template <class Waiter>
class fair_semaphore {
 public:
  fair_semaphore(std::size_t max, std::size_t max_queue) noexcept : max_(max), max_queue_(max_queue) {}

  sync_entry try_enter() noexcept {
    const std::lock_guard lock(lock_);
    return enter();
  }
  sync_entry enqueue(Waiter& waiter) noexcept {
    const std::lock_guard lock(lock_);
    const sync_entry result = enter();
    if (result != sync_entry::must_queue) return result;
    waiting_.push(waiter);
    return sync_entry::queued;
  }
  void leave() noexcept {
    Waiter* next = nullptr;
    {
      const std::lock_guard lock(lock_);
      next = waiting_.pop();
      if (next == nullptr) --inside_;
    }
    if (next != nullptr) next->grant();
  }
  bool withdraw(Waiter& waiter) noexcept {
    const std::lock_guard lock(lock_);
    return waiting_.remove(waiter);
  }

 private:
  sync_entry enter() noexcept {
    if (inside_ < max_) {
      ++inside_;
      return sync_entry::entered;
    }
    return waiting_.size() >= max_queue_ ? sync_entry::rejected : sync_entry::must_queue;
  }

  const std::size_t max_;
  const std::size_t max_queue_;
  async::detail::spin_lock lock_;
  std::size_t inside_ = 0;  // guarded by lock_, as is the queue
  async::detail::waiter_queue<Waiter> waiting_;
};

}  // namespace steps::inline v0_1::detail
