// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <chrono>   // for nanoseconds, seconds
#include <cstddef>  // for size_t

#include "async/event_loop.hpp"  // for event_loop
#include "steps/mutex.hpp"       // for Mutex
#include "steps/throttle.hpp"    // for Throttle

namespace steps {

/// Limits how many flows are inside at the same time and how many enter per period: Mutex, then Throttle, in one step
/// (FTN12 1.11.3).
///
///   steps::Limiter::Params params;
///   params.concurrent = 10;
///   params.rate = 1'000;
///   steps::Limiter limiter{params};   asi.sync(limiter, [](steps::IAsyncSteps& asi) { … });
///
/// Use it in front of a resource that fails under load. Order, recursion, full queues, timers, threads, memory and
/// lifetime are as those of Mutex and Throttle.
class Limiter final : public ISync {
 public:
  /// The limits.
  struct Params {
    std::size_t concurrent = 1;                                 ///< flows inside at the same time
    std::size_t max_queue = 0;                                  ///< flows that wait for one of these places
    std::size_t rate = 1;                                       ///< entries per period
    std::chrono::nanoseconds period = std::chrono::seconds(1);  ///< length of a period
    std::size_t burst = 0;  ///< flows with a place that may wait for the next period
  };

  Limiter() noexcept : Limiter(Params{}) {}
  /// A limiter with these limits.
  explicit Limiter(const Params& p) noexcept
      : mutex_(p.concurrent, p.max_queue), throttle_(p.rate, p.period, p.burst) {}
  /// Ignores the loop: for code written for implementations that need one.
  Limiter(async::event_loop&, const Params& p) noexcept : Limiter(p) {}

  entry try_enter(bool nested) noexcept override {
    entry result = mutex_.try_enter(nested);
    if (result != entry::entered) return result;
    result = throttle_.try_enter(nested);
    if (result != entry::entered) mutex_.leave(nested);  // also when it must queue: enqueue() begins anew
    return result;
  }
  entry enqueue(detail::sync_waiter& waiter, bool nested) noexcept override {
    waiter.stage = for_place;
    const entry result = mutex_.enqueue(waiter, nested);
    return result == entry::entered ? go_on(waiter, nested) : result;
  }
  /// The waiter's flow has a place in the mutex, or has passed both.
  entry go_on(detail::sync_waiter& waiter, bool nested) noexcept override {
    if (waiter.stage != for_place) return entry::entered;
    waiter.stage = nested ? for_rate_nested : for_rate;
    const entry result = throttle_.enqueue(waiter, nested);
    if (result == entry::rejected) mutex_.leave(nested);
    return result;
  }
  void on_timer(detail::sync_waiter& waiter) noexcept override { throttle_.on_timer(waiter); }
  void end_wait(detail::sync_waiter& waiter) noexcept override { throttle_.end_wait(waiter); }
  void leave(bool nested) noexcept override { mutex_.leave(nested); }
  bool withdraw(detail::sync_waiter& waiter) noexcept override {
    if (waiter.stage == for_place) return mutex_.withdraw(waiter);
    if (!throttle_.withdraw(waiter)) return false;
    mutex_.leave(waiter.stage == for_rate_nested);
    return true;
  }

 private:
  /// The queue that a waiter is in.
  enum stage : unsigned { for_place, for_rate, for_rate_nested };

  Mutex mutex_;
  Throttle throttle_;
};

}  // namespace steps
