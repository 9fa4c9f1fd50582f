// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <future>       // for future_errc, future_status
#include <type_traits>  // for decay_t, is_invocable_v
#include <utility>      // for exchange, forward, move

#include "async/detail/base/atomics.hpp"        // for wait_clock
#include "async/detail/base/chrono.hpp"         // for duration, time_point
#include "async/detail/base/durations.hpp"      // for to_nanoseconds, later, call_until
#include "async/detail/base/future_errors.hpp"  // for throw_future_error
#include "async/detail/call/call_result.hpp"    // for make_state
#include "async/detail/call/future_access.hpp"  // for future_access
#include "async/detail/call/result_state.hpp"   // for result
#include "async/detail/call/then_result.hpp"    // for then_result

namespace async::inline v0_1::detail {

/// For then(): the value of a ready future, as a T.
template <class T, class Future>
struct get_as {
  using waits_for_nothing = void;
  T operator()(Future ready) const { return ready.get(); }
};

/// A namespace of its own, so that calls with a future as argument do not find the functions of async::detail.
namespace of_futures {

/// The common part of future and shared_future. Each object holds one reference to the state.
template <class T>
class future_base {
 public:
  future_base(const future_base&) = delete;
  future_base& operator=(const future_base&) = delete;

  /// True when there is a shared state: the future was not moved from, and its result was not taken.
  bool valid() const noexcept { return state_ != nullptr; }
  /// True when get() does not wait. False without a state.
  bool is_ready() const noexcept { return state_ != nullptr && state_->is_ready(); }
  /// True when it is ready and get() would throw the exception of the result. Tells without a throw. False without a
  /// state, too.
  bool has_exception() const noexcept { return is_ready() && state_->error != nullptr; }

  /// Waits until the result is there. Inside a task of a pool the thread helps, see future. Throws
  /// std::system_error (resource_deadlock_would_occur) in a callback of an event loop if the result is not there;
  /// std::future_error (no_state).
  void wait() const { known_state()->wait(); }

  /// Waits at most for this time, and returns ready or timeout; with 0 it only checks. Never runs the call, and may be
  /// used in callbacks. In a task it lets a stand-in thread run queued tasks while all workers are busy. Throws
  /// std::future_error (no_state).
  template <class Rep, class Period>
  std::future_status wait_for(std::chrono::duration<Rep, Period> limit) const {
    const std::chrono::nanoseconds time = to_nanoseconds(limit);
    if (time.count() <= 0) return status(known_state()->poll());
    return status(known_state()->wait_until(later(wait_clock::now(), time)));
  }
  /// The same until a moment of any clock.
  template <class Clock, class Duration>
  std::future_status wait_until(std::chrono::time_point<Clock, Duration> moment) const {
    return status(call_until(
        moment, [this](std::chrono::nanoseconds limit) { return wait_for(limit) == std::future_status::ready; }));
  }

  /// Drops the call, if it has not begun: its captures are destroyed, the result is dropped_call (cancelled), and
  /// cancel() returns true. A call that has begun is requested to stop, if its first parameter is a std::stop_token. In
  /// a chain of then(), it drops only the last function; the calls and flows before it go on. A when_all() or
  /// when_any() that is not ready drops its futures, whose calls go on: the result is dropped_call, too, and cancel()
  /// returns true. A flow of steps::post() that has started is cancelled, and cancel() returns false. Does not wait.
  /// Nothing happens to a result without a call, such as that of a promise. The block of a dropped call, without what
  /// the captures own, stays in the pool's queue until a worker comes to it. Throws std::future_error (no_state).
  bool cancel() const { return known_state()->cancel(); }

 protected:
  static constexpr pool_core* no_pool = nullptr;

  future_base() noexcept = default;
  explicit future_base(result<T>* state) noexcept : state_(state) {}
  future_base(future_base&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  ~future_base() {
    if (state_ != nullptr) state_->release();
  }

  result<T>* known_state() const {
    if (state_ == nullptr) throw_future_error(std::future_errc::no_state);
    return state_;
  }

  /// `pool`: a pool_core or a blocking_crew; null: the thread that makes the result ready. `OwnsSource`: see
  /// then_result.
  template <class Future, bool OwnsSource = false, class Pool, class F>
  static auto continue_with(Pool* pool, Future&& self, F&& f) {
    constexpr bool is_kept = std::is_constructible_v<std::decay_t<F>, F>;
    constexpr bool is_called = std::is_invocable_v<std::decay_t<F>, Future>;
    static_assert(is_kept, "then(f) keeps f: a function that cannot be copied is moved in, then(std::move(f))");
    static_assert(is_called,
                  "then(f) calls f(future), with the future that is ready: take it by value, by && or by const &");
    if constexpr (is_kept && is_called) {
      result<T>* const source = self.known_state();
      using next_result = then_result<Future, std::decay_t<F>, Pool, OwnsSource>;
      auto* const next = make_state<next_result>(pool, std::forward<F>(f), std::move(self), *source);
      auto made = future_access::make(as_result(next));
      next->begin();
      return made;
    }
  }

  result<T>* state_ = nullptr;

 private:
  friend struct detail::future_access;

  template <class U>
  static result<U>* as_result(result<U>* state) noexcept {
    return state;
  }
  static std::future_status status(bool is_ready) noexcept {
    return is_ready ? std::future_status::ready : std::future_status::timeout;
  }
};

}  // namespace of_futures

using of_futures::future_base;

}  // namespace async::inline v0_1::detail
