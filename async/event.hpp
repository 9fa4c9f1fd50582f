// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>      // for uint32_t
#include <type_traits>  // for is_void_v

#include "async/detail/base/atomics.hpp"         // for atomic
#include "async/detail/base/backoff.hpp"         // for backoff
#include "async/detail/base/chrono.hpp"          // for duration, time_point, nanoseconds
#include "async/detail/base/durations.hpp"       // for call_until
#include "async/detail/queue/event_count.hpp"    // for event_count
#include "async/detail/queue/queue_awaiter.hpp"  // for queue_awaitable
#include "async/detail/queue/queue_result.hpp"   // for queue_result
#include "async/detail/queue/queue_wait.hpp"     // for queue_deadline, wait_in_queue
#include "async/detail/queue/resume_scope.hpp"   // for resume_scope

namespace async::inline v0_1 {

class event;

namespace detail {

/// A wait for an event: ends when the event is set, or has been since the wait began.
class event_call {
 public:
  using result = void;
  explicit inline event_call(event& e) noexcept;

  inline event_count& events() const noexcept;
  inline queue_result attempt() const noexcept;
  void take_result(bool) const noexcept {}

 private:
  event* event_;
  std::uint32_t sets_;  // at the beginning
};

}  // namespace detail

/// A flag that threads, tasks, flows and coroutines wait for until it is set. It stays set until reset().
///
///   async::event ready;
///   ready.wait();                             // a thread, or a task of a pool
///   asi.await(ready);                         // a step of a flow
///   co_await ready.on_set();                  // a coroutine
///   ready.set();                              // wakes all of them
///
/// Use it for "configured", "connected", "may go on": a state that many wait for and that may come and go. Do not use
/// it to pass a value (promise, queue), nor to guard data (std::mutex, steps::Mutex).
///
/// Order       what a thread has done before set() is visible to those whose waits it ends, and what it has done before
///             reset() to those who see that the event is not set. set() ends every wait that began before it, even if
///             reset() follows at once.
/// Threads     any thread may call any member at any time, except construction and destruction. A signal handler may
///             not: let a thread wait for the signal in sigwait() and call set().
/// Progress    is_set() and reset() are wait-free. set() is lock-free while no flow and no coroutine waits, else it
///             takes a short lock; it makes a system call only to wake threads that sleep.
/// Coroutines  those of no flow resume inside set(), after its last access to the event, one after the other. Do not
///             hold a lock during set() that a waiting coroutine needs, and do not block in a coroutine: it holds up
///             the call. After set() in such a coroutine, or in an iterator or constructor of a bulk_enqueue, they
///             resume when the outer call ends.
/// Exceptions  a wait of a flow or coroutine that has to wait throws std::bad_alloc without memory. All others: none.
/// Waiting     wait(), wait_for() and wait_until() spin for a few microseconds, then sleep. In a task of a pool whose
///             workers are all busy, from 250 us on, a stand-in thread runs queued tasks, and the worker turns loops:
///             hold no lock that these need. If a task polls with shorter waits, other threads run the tasks and loops.
///             Do not call them in a callback of an event loop, such as a step of a flow: the loop stands still
///             meanwhile.
/// Lifetime    the event outlives every call of its members, and the flows and coroutines that wait. A thread whose
///             wait() or wait_for() has returned true may destroy the event, also in a coroutine that resumes inside
///             set(): calls of set() that it can have seen touch the event no more. Do not destroy the event because
///             is_set() was true or a flow or coroutine went on: set() may still be using it.
/// Memory      at most 48 bytes. A flow or coroutine that waits takes one recycled block.
/// Example     test/example/event.cpp
class event {
 public:
  /// Makes an event that is set or not.
  explicit event(bool is_set = false) noexcept : word_(is_set ? set_bit : 0) {}
  event(const event&) = delete;
  event& operator=(const event&) = delete;

  /// Ends all waits, and those that begin before the next reset(). No effect if it is set.
  void set() noexcept {
    const detail::resume_scope after_that;  // coroutines go on when this call touches the event no more
    std::uint32_t seen = word_.load(std::memory_order_relaxed), to = 0;
    while ((seen & set_bit) != 0) {
      // If it is set, it is written all the same: what this thread has done is for later waits, too. This is the last
      // access, so no wait has to wait for this call.
      // [EV6] release, pairs with [EV2] and [EV3]: publishes that
      if (word_.compare_exchange_weak(seen, seen, std::memory_order_release, std::memory_order_relaxed)) return;
    }
    const in_set here(*this);
    do {
      to = (seen & set_bit) != 0 ? seen : (seen + one_set) | set_bit;  // set meanwhile: as above
      // [EV1] seq_cst, pairs with [EV2] and [EV3]: publishes that; before event_count::wake()
    } while (!word_.compare_exchange_weak(seen, to, std::memory_order_seq_cst, std::memory_order_relaxed));
    if (to != seen) events_.wake(detail::event_count::everyone);
  }
  /// Waits that begin from now on last until the next set().
  void reset() noexcept {
    // [EV3] acq_rel, pairs with [EV1], [EV2] and [EV6]: publishes what was done before
    word_.fetch_and(~set_bit, std::memory_order_acq_rel);
  }
  /// True from set() to reset().
  bool is_set() const noexcept { return (look() & set_bit) != 0; }

  /// Returns when the event is set, or has been since the call began.
  void wait() noexcept { static_cast<void>(wait_with(detail::event_call(*this), nullptr)); }
  /// The same for at most `limit` (steady clock). False: the time is up.
  template <class Rep, class Period>
  bool wait_for(std::chrono::duration<Rep, Period> limit) {
    return wait_with(detail::event_call(*this), limit);
  }
  /// The same until a moment of any clock.
  template <class Clock, class Duration>
  bool wait_until(std::chrono::time_point<Clock, Duration> moment) {
    const detail::event_call call(*this);  // sees each set() from here on
    return detail::call_until(moment, [&](std::chrono::nanoseconds limit) { return wait_with(call, limit); });
  }
  /// To be awaited at once, and once only: `co_await ready.on_set()`. The coroutine goes on where set() is called, one
  /// of a flow on the flow's loop.
  auto on_set() noexcept { return detail::queue_awaitable<detail::event_call>(detail::event_call(*this)); }
  /// Refused: on_set() says what the coroutine waits for.
  template <class U = void>
  auto operator co_await() noexcept {
    static_assert(!std::is_void_v<U>, "co_await does not take an event itself: write co_await event.on_set()");
    return on_set().operator co_await();
  }

 private:
  friend class detail::event_call;

  static constexpr std::uint32_t set_bit = 1;
  static constexpr std::uint32_t one_set = 2;  // the number of changes by set(), modulo 2^31

  /// A call of set() that may end waits, up to its last access to the event. Threads that it wakes wait for the end.
  class in_set {
   public:
    explicit in_set(event& e) noexcept : event_(e) {
      e.setters_.fetch_add(1, std::memory_order_relaxed);  // relaxed: published with the word
    }
    ~in_set() {
      // [EV4] release, pairs with [EV5]: the last access. not modelled: the model sees no race with a destruction
      event_.setters_.fetch_sub(1, std::memory_order_release);
    }
    in_set(const in_set&) = delete;
    in_set& operator=(const in_set&) = delete;

   private:
    event& event_;
  };

  std::uint32_t look() const noexcept {
    return word_.load(std::memory_order_seq_cst);  // [EV2] seq_cst, pairs with [EV1], [EV3] and [EV6]
  }
  template <class Rep, class Period>
  bool wait_with(const detail::event_call& call, std::chrono::duration<Rep, Period> limit) {
    const detail::queue_deadline until(limit);
    return wait_with(call, &until);
  }
  bool wait_with(const detail::event_call& call, const detail::queue_deadline* until) noexcept {
    const bool is_over = detail::wait_in_queue(
        events_, until, [&call]() noexcept { return call.attempt(); }, [this]() noexcept { return is_set(); });
    if (is_over) {
      // [EV5] acquire, pairs with [EV4]: the caller may destroy this; not modelled: see there
      for (detail::backoff pause; setters_.load(std::memory_order_acquire) != 0;) pause.wait();
    }
    return is_over;
  }

  detail::atomic<std::uint32_t> word_;        // number of changes | set
  detail::atomic<std::uint32_t> setters_{0};  // calls of set() that may end waits
  detail::event_count events_;
};

namespace detail {

inline event_call::event_call(event& e) noexcept : event_(&e), sets_(e.look() & ~event::set_bit) {}
inline event_count& event_call::events() const noexcept { return event_->events_; }
inline queue_result event_call::attempt() const noexcept {
  const std::uint32_t now = event_->look();
  const bool is_over = (now & event::set_bit) != 0 || (now & ~event::set_bit) != sets_;
  return is_over ? queue_result::done : queue_result::blocked;
}

}  // namespace detail

}  // namespace async::inline v0_1
