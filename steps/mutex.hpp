// SPDX-License-Identifier: BSL-1.0
// floor: 12
#pragma once
#include <cstddef>  // for size_t
#include <limits>   // for numeric_limits
#include <mutex>    // for lock_guard

#include "steps/detail/spin_lock.hpp"     // for spin_lock
#include "steps/detail/ticket_queue.hpp"  // for ticket_queue
#include "steps/isync.hpp"                // for ISync

namespace steps {

/// Lets at most `max` flows at a time into the steps that it guards (FTN12 1.11.1).
///
///   asi.sync(mutex, [](steps::IAsyncSteps& asi) { … sub-steps, waits, … });
///
/// Use it for a section that spans several steps: a flow that waits for it gives its loop to others. Do not use it for
/// a few instructions inside one step function (std::mutex), and not at all between flows of one loop whose sections
/// have no sub-steps and do not wait: those cannot interrupt each other.
///
/// Order       first come, first served.
/// Recursion   a flow that is inside enters again at once, to any depth. Each branch of parallel() is a flow of its
///             own and inherits nothing.
/// Full queue  more than `max_queue` flows waiting: DefenseRejected at the step of sync().
/// Threads     flows of any loops. A waiting flow is woken on its own loop, by one message; no thread ever blocks.
/// Memory      a flow that has to wait takes a recycled block.
/// Lifetime    outlives the flows that use it.
class Mutex final : public ISync {
 public:
  static constexpr std::size_t unlimited = (std::numeric_limits<std::size_t>::max)();

  Mutex() noexcept : Mutex(1) {}
  /// `max` 0: nobody is ever let in.
  explicit Mutex(std::size_t max, std::size_t max_queue = unlimited) noexcept : max_(max), max_queue_(max_queue) {}

  entry try_enter(bool nested) noexcept override {
    if (nested) return entry::entered;
    const std::lock_guard lock(lock_);
    if (takes_place()) return entry::entered;
    return waiting_.size() >= max_queue_ ? entry::rejected : entry::must_queue;
  }
  entry enqueue(detail::sync_ticket& ticket, bool nested) noexcept override {
    if (nested) return entry::entered;
    const std::lock_guard lock(lock_);
    if (takes_place()) return entry::entered;
    if (waiting_.size() >= max_queue_) return entry::rejected;
    waiting_.push(ticket);
    return entry::queued;
  }
  void leave(bool nested) noexcept override {
    if (nested) return;
    detail::sync_ticket* next = nullptr;
    {
      const std::lock_guard lock(lock_);
      next = waiting_.pop();
      if (next == nullptr) --inside_;
    }
    if (next != nullptr) next->grant();
  }
  bool withdraw(detail::sync_ticket& ticket) noexcept override {
    const std::lock_guard lock(lock_);
    return waiting_.remove(ticket);
  }

 private:
  bool takes_place() noexcept {
    if (inside_ >= max_) return false;
    ++inside_;
    return true;
  }

  const std::size_t max_;
  const std::size_t max_queue_;
  detail::spin_lock lock_;
  std::size_t inside_ = 0;  // guarded by lock_, as is the queue
  detail::ticket_queue waiting_;
};

}  // namespace steps
