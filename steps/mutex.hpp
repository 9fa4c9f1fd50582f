// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>      // for size_t
#include <limits>       // for numeric_limits
#include <string_view>  // for string_view

#include "steps/detail/wait/fair_semaphore.hpp"  // for fair_semaphore
#include "steps/isync.hpp"                       // for ISync

namespace steps::inline v0_1 {

/// Lets at most `max` flows at a time into the steps that it guards (FTN12 1.11.1).
///
///   asi.sync(mutex, [](steps::IAsyncSteps& asi) { … sub-steps, waits, … });
///
/// Use it for a section that spans several steps: a flow that waits for it lets its loop run others. Do not use it for
/// a few instructions inside one step function (std::mutex). Flows of one loop need none for a section without
/// sub-steps and waits: they cannot interrupt each other there. Flows of a pool have a loop each, and need it.
///
/// Order       first come, first served.
/// Recursion   a flow that is inside enters again at once, to any depth. Each branch of parallel() counts as another
///             flow and inherits nothing.
/// Full queue  more than `max_queue` flows waiting: DefenseRejected at the step of sync().
/// Threads     flows of any loops. A waiting flow is woken on its own loop, by one message; no thread ever blocks.
/// Memory      a flow that has to wait takes a recycled block.
/// Lifetime    outlives the flows that use it.
class Mutex final : public ISync {
 public:
  /// max_queue for a queue of any length.
  static constexpr std::size_t unlimited = (std::numeric_limits<std::size_t>::max)();

  Mutex() noexcept : Mutex(1) {}
  /// `max` 0 lets no flow in.
  explicit Mutex(std::size_t max, std::size_t max_queue = unlimited) noexcept : semaphore_(max, max_queue) {}

  entry try_enter(bool nested) noexcept override { return nested ? entry::entered : semaphore_.try_enter(); }
  entry enqueue(detail::sync_waiter& waiter, bool nested) noexcept override {
    return nested ? entry::entered : semaphore_.enqueue(waiter);
  }
  void leave(bool nested) noexcept override {
    if (!nested) semaphore_.leave();
  }
  bool withdraw(detail::sync_waiter& waiter) noexcept override { return semaphore_.withdraw(waiter); }
  std::string_view explain(entry) const noexcept override {
    return "Mutex: `max` flows are inside, and `max_queue` flows wait";
  }

 private:
  detail::fair_semaphore<detail::sync_waiter> semaphore_;
};

}  // namespace steps::inline v0_1
