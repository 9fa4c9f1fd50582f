// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>      // for size_t
#include <limits>       // for numeric_limits
#include <string_view>  // for string_view

#include "steps/detail/wait/fair_semaphore.hpp"  // for fair_semaphore
#include "steps/isync.hpp"                       // for ISync

namespace steps::inline v0_1 {

/// Lets at most `permits` entries at a time into the steps that it guards. sync() takes a permit when the step begins,
/// and gives it back when the step has ended, in whatever way.
///
///   steps::Semaphore connections(8);   asi.sync(connections, [](steps::IAsyncSteps& asi) { … });
///
/// Use it for a resource of which each entry takes one: connections, buffers, licences. Do not use it for a section
/// that a flow may enter again while it is inside: a Mutex(n) lets that flow in at once, where a Semaphore takes
/// another permit, and a flow that holds the last one waits for itself.
///
/// Order       first come, first served.
/// Recursion   none: each entry takes a permit, also of a flow that is inside.
/// Full queue  more than `max_queue` flows waiting: DefenseRejected at the step of sync().
/// Threads     flows of any loops. A waiting flow is woken on its own loop, by one message; no thread ever blocks.
/// Memory      a flow that has to wait takes a recycled block.
/// Lifetime    outlives the flows that use it.
class Semaphore final : public ISync {
 public:
  /// max_queue for a queue of any length.
  static constexpr std::size_t unlimited = (std::numeric_limits<std::size_t>::max)();

  /// `permits` 0 lets no flow in.
  explicit Semaphore(std::size_t permits, std::size_t max_queue = unlimited) noexcept
      : semaphore_(permits, max_queue) {}

  entry try_enter(bool /*nested*/) noexcept override { return semaphore_.try_enter(); }
  entry enqueue(detail::sync_waiter& waiter, bool /*nested*/) noexcept override { return semaphore_.enqueue(waiter); }
  void leave(bool /*nested*/) noexcept override { semaphore_.leave(); }
  bool withdraw(detail::sync_waiter& waiter) noexcept override { return semaphore_.withdraw(waiter); }
  std::string_view explain(entry) const noexcept override {
    return "Semaphore: all permits are taken, and `max_queue` flows wait";
  }

 private:
  detail::fair_semaphore<detail::sync_waiter> semaphore_;
};

}  // namespace steps::inline v0_1
