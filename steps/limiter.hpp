// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>      // for size_t
#include <string_view>  // for string_view

#include "async/detail/base/chrono.hpp"  // for nanoseconds, seconds
#include "async/event_loop.hpp"          // for event_loop
#include "steps/mutex.hpp"               // for Mutex
#include "steps/throttle.hpp"            // for Throttle

namespace steps::inline v0_1 {

/// Limits how many flows are inside at the same time and how many enter per period: Mutex, then Throttle, in one step
/// (FTN12 1.11.3).
///
///   steps::Limiter limiter{{.concurrent = 10, .max_queue = 100, .rate = 1'000}};
///   asi.sync(limiter, [](steps::IAsyncSteps& asi) { … });
///
/// Use it in front of a resource that fails under load. Order, recursion, timers, threads, memory and lifetime are as
/// those of Mutex and Throttle.
///
/// Defaults    a limit that is not set does not exist. So the defaults differ from those of FTN12 2.5, where one flow
///             is inside, one enters a second, and none waits: futoin::ri::Limiter has these.
/// Full queue  DefenseRejected at the step of sync(). Its error info names the limits, those of `concurrent` and
///             `max_queue` or those of `rate` and `burst`.
class Limiter final : public ISync {
 public:
  /// No limit, as in Mutex and Throttle.
  static constexpr std::size_t unlimited = Mutex::unlimited;

  /// The limits.
  struct Params {
    std::size_t concurrent = unlimited;  ///< flows inside, or waiting for the next period, at the same time
    std::size_t max_queue = unlimited;   ///< flows that wait for a place; of use with `concurrent`
    std::size_t rate = unlimited;        ///< entries in each period, as in Throttle: no sliding window
    std::chrono::nanoseconds period = std::chrono::seconds(1);  ///< length of a period; of use with `rate`
    /// Flows that may wait for the next period; of use with `rate`. Others are rejected: it is not the burst allowance
    /// of a token bucket.
    std::size_t burst = unlimited;
  };

  /// A limiter that lets every flow in.
  Limiter() noexcept : Limiter(Params{}) {}
  /// A limiter with these limits.
  explicit Limiter(const Params& p) noexcept
      : mutex_(p.concurrent, p.max_queue), throttle_(p.rate, p.period, p.burst) {}
  /// Ignores the loop: for code written for implementations that need one.
  Limiter(async::event_loop&, const Params& p) noexcept : Limiter(p) {}

  entry try_enter(bool nested) noexcept override {
    entry result = mutex_.try_enter(nested);
    if (result != entry::entered) return result;
    result = at_rate(throttle_.try_enter(nested));
    if (result != entry::entered) mutex_.leave(nested);  // also when it must queue: enqueue() begins anew
    return result;
  }
  entry enqueue(detail::sync_waiter& waiter, bool nested) noexcept override {
    waiter.stage = for_place;
    const entry result = mutex_.enqueue(waiter, nested);
    return result == entry::entered ? go_on(waiter, nested) : result;
  }
  /// The waiter's flow has a place in the mutex, has passed both, or is woken by the throttle.
  entry go_on(detail::sync_waiter& waiter, bool nested) noexcept override {
    if (waiter.stage != for_place) return throttle_.go_on(waiter, nested);
    waiter.stage = nested ? for_rate_nested : for_rate;
    const entry result = at_rate(throttle_.enqueue(waiter, nested));
    if (result == entry::over_rate) mutex_.leave(nested);
    return result;
  }
  void on_timer(detail::sync_waiter& waiter) noexcept override { throttle_.on_timer(waiter); }
  void end_wait(detail::sync_waiter& waiter) noexcept override { throttle_.end_wait(waiter); }
  void leave(bool nested) noexcept override { mutex_.leave(nested); }
  void give_back(detail::sync_waiter& waiter, bool nested) noexcept override {
    if (waiter.stage != for_place) throttle_.give_back(waiter, nested);
    mutex_.leave(nested);
  }
  bool withdraw(detail::sync_waiter& waiter) noexcept override {
    if (waiter.stage == for_place) return mutex_.withdraw(waiter);
    if (!throttle_.withdraw(waiter)) return false;
    mutex_.leave(waiter.stage == for_rate_nested);
    return true;
  }
  std::string_view explain(entry why) const noexcept override {
    return why == entry::over_rate
               ? "Limiter: `rate` flows have entered in this period, and `burst` flows wait for the next"
               : "Limiter: `concurrent` flows are inside, and `max_queue` flows wait";
  }

 private:
  static entry at_rate(entry e) noexcept { return e == entry::rejected ? entry::over_rate : e; }

  /// The queue that a waiter is in.
  enum stage : unsigned { for_place, for_rate, for_rate_nested };

  Mutex mutex_;
  Throttle throttle_;
};

}  // namespace steps::inline v0_1
