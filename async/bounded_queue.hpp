// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <concepts>     // for constructible_from
#include <cstddef>      // for size_t
#include <cstdint>      // for uint64_t
#include <iterator>     // for input_iterator, iter_reference_t
#include <optional>     // for optional
#include <type_traits>  // for decay_t, is_assignable_v, is_nothrow_move_constructible_v, is_trivially_assignable_v
#include <utility>      // for declval, forward, move

#include "async/detail/base/chrono.hpp"          // for duration, time_point, nanoseconds
#include "async/detail/base/durations.hpp"       // for call_until
#include "async/detail/base/min_max.hpp"         // for min_of
#include "async/detail/queue/bounded_ring.hpp"   // for bounded_ring
#include "async/detail/queue/queue_awaiter.hpp"  // for make_pop, make_push
#include "async/detail/queue/queue_result.hpp"   // for queue_result
#include "async/detail/queue/queue_wait.hpp"     // for wait_in_queue, queue_deadline
#include "async/detail/queue/taken_run.hpp"      // for taken_run
#include "async/fwd.hpp"                         // for bounded_queue

namespace async::inline v0_1 {

/// Compile-time settings of a bounded_queue. To change one, derive from this and hide it.
struct bounded_queue_traits {
  /// Number of the first ticket. Tests start just below a wrap of the slots' turns.
  static constexpr std::uint64_t first_ticket = 0;
  /// Called between claiming a slot and using it. Tests stop threads there.
  static void claimed() noexcept {}
  /// Called by an enqueue that finds no room, before it reads the consumers' position. Tests change that position
  /// there.
  static void looking() noexcept {}
};

/// Bounded multi-producer multi-consumer FIFO queue: a ring of slots. Each call has a try, a blocking and a timed form.
///
/// Use it to pass elements between threads with back-pressure: producers that are too fast wait or are refused. Do not
/// use it when a producer must never wait or fail (async::queue), or on the fastest possible path between two threads
/// (a single-producer single-consumer ring is faster still).
///
/// Order       linearizable FIFO. Elements come out in the order in which their slots were claimed. "Full", "empty" and
///             "closed" were true at some instant during the call, also across several queues.
/// Waiting     a blocking call spins for a few microseconds, then sleeps without using the CPU. It takes no place in
///             the queue while it waits, so a call that times out leaves nothing behind. Sleepers are woken first come,
///             first served, one for each element or free place. A thread that does not sleep may get it before them.
///             In a task of a pool whose workers are all busy, from 250 us on, a stand-in thread runs queued tasks, and
///             the worker itself turns loops, with their flows, that wait for it: hold no lock that these need. If a
///             task polls with shorter waits, other threads run the tasks and loops. In a step or another callback of
///             an event loop they block the loop: use asi.await(queue) there.
/// Coroutines  `co_await queue.pop()` and `co_await queue.push(args...)` suspend while the queue is empty, or full. The
///             coroutine resumes inside the call that enqueues, dequeues or closes, on its thread; as a step
///             (steps::interop::co) on its flow's loop. Coroutines are served first come, first served; those that are
///             woken at the same time may change places if others take their elements or places. An element stays in
///             the queue until the coroutine that takes it resumes, and enters as the one that adds it resumes: a
///             coroutine that is destroyed before loses and adds none. Do not hold a lock during a call that a waiting
///             coroutine needs, and do not block in a coroutine: it holds up the call. Coroutines that wake each other
///             resume one after the other, without recursion. The iterator and the constructors in a bulk_enqueue must
///             not wait for a coroutine: one that they wake, of any queue or event, may resume only at the end of the
///             bulk.
/// Closing     close() refuses further elements and makes all waiting calls return. Dequeues still take the elements
///             inside, and return false when none is left. Each element whose enqueue returned true can be dequeued.
/// Threads     any thread may call any member, except construction and destruction. No other call may be running then;
///             a call that has handed over its element but has not returned is still running. A coroutine that waits
///             may be destroyed by the thread that would resume it, or while no other thread uses the queue. The queue
///             outlives the coroutines that wait for it.
/// Progress    not lock-free: a thread that is stopped between claiming a slot and finishing it delays the threads that
///             need that slot. So does a slow constructor, or a slow iterator in a bulk_enqueue. Those threads yield,
///             then nap until the slot is finished, also in a try call, in a select(), in a step of a flow, and beyond
///             the limit of a timed call: "empty" or "full" would be untrue. All other operations do not wait.
///             Constructors of T, the destructor of an element that has been moved from, and iterators of bulks run in
///             that window and must not use the queue. Nor may they end a future or wake a coroutine that uses it: such
///             code can run at once, on the same thread. If T's move constructor may throw, this also holds for
///             assignments from T, and the old value of the target. Otherwise a dequeue leaves the slot before it
///             assigns: the old value may use the queue.
/// Exceptions  a constructor that throws: nothing is enqueued, and there is as much room as before. The constructor
///             runs before the call claims a slot if T's move constructor does not throw and the arguments are
///             constants other than scalars, or a T that is copied. Otherwise, and in bulks, it runs in the claimed
///             slot. When it throws there, its slot and those that a bulk had still to fill are free again at once. The
///             exception: if another producer has claimed a slot behind them, they count as taken until all elements
///             before them have been dequeued. An assignment that throws in a dequeue: the element is gone, and the
///             exception passes. Only a call that succeeds or throws moves from its arguments. A call that waits throws
///             only what T throws; co_await also std::bad_alloc, without effects.
/// Memory      capacity() slots of T and 4 bytes (rounded up to T's alignment), allocated once; no allocation after. A
///             coroutine that waits takes one recycled block. Elements may pass over the stack of the caller: keep
///             large objects behind a pointer.
/// Example     test/example/queue.cpp
template <class T, class Traits>
class bounded_queue {
 public:
  using value_type = T;  ///< the element type

  /// Makes room for at least `capacity` elements, rounded up to a power of two. Throws std::invalid_argument for 0,
  /// std::length_error for more than 2^28 elements or a capacity that cannot be addressed, std::bad_alloc.
  explicit bounded_queue(std::size_t capacity) : core_(capacity) {}
  /// Destroys the remaining elements. No other call may be running or waiting.
  ~bounded_queue() = default;
  bounded_queue(const bounded_queue&) = delete;
  bounded_queue& operator=(const bounded_queue&) = delete;

  /// Constructs an element from `args` at the end. False: full or closed, and `args` are untouched.
  template <class... Args>
    requires std::constructible_from<T, Args...>
  bool enqueue(Args&&... args) {
    return try_put(std::forward<Args>(args)...) == result::done;
  }

  /// Moves the oldest element to `out`, of any type that T&& can be assigned to. False: empty.
  template <class U>
    requires std::is_assignable_v<U&, T&&>
  bool dequeue(U& out) {
    return take_and_assign<U&>(try_take(), assign_to(out));
  }
  /// Takes the oldest element; nullopt: empty.
  std::optional<T> dequeue()
    requires std::move_constructible<T>
  {
    std::optional<T> out;
    core_.take([&out](T&& element) { out.emplace(std::move(element)); });
    return out;
  }

  /// Waits while the queue is full, then constructs an element from `args` at the end. False: closed, `args` untouched.
  template <class... Args>
    requires std::constructible_from<T, Args...>
  bool blocking_enqueue(Args&&... args) {
    return wait_for_room(nullptr, std::forward<Args>(args)...);
  }
  /// Waits while the queue is empty, then moves the oldest element to `out`. False: closed and drained. While the
  /// oldest element is unfinished, it yields and naps instead of sleeping.
  template <class U>
    requires std::is_assignable_v<U&, T&&>
  bool blocking_dequeue(U& out) {
    return wait_and_assign(nullptr, out);
  }

  /// Like blocking_enqueue(), but gives up after `limit` (steady clock). False: still full, or closed; `args`
  /// untouched.
  template <class Rep, class Period, class... Args>
    requires std::constructible_from<T, Args...>
  bool enqueue_for(std::chrono::duration<Rep, Period> limit, Args&&... args) {
    const deadline until(limit);
    return wait_for_room(&until, std::forward<Args>(args)...);
  }
  /// The same until a moment of any clock.
  template <class Clock, class Duration, class... Args>
    requires std::constructible_from<T, Args...>
  bool enqueue_until(std::chrono::time_point<Clock, Duration> moment, Args&&... args) {
    return detail::call_until(
        moment, [&](std::chrono::nanoseconds limit) { return enqueue_for(limit, std::forward<Args>(args)...); },
        [this] { return is_closed(); });
  }
  /// Like blocking_dequeue(), but gives up after `limit` (steady clock). False: still empty, or closed and drained. If
  /// is_closed() was true before the call, false means drained: a loop of timed calls ends there, or it would spin. An
  /// unfinished element is no empty queue: the call waits for it, also beyond its limit.
  template <class U, class Rep, class Period>
    requires std::is_assignable_v<U&, T&&>
  bool dequeue_for(U& out, std::chrono::duration<Rep, Period> limit) {
    const deadline until(limit);
    return wait_and_assign(&until, out);
  }
  /// The same until a moment of any clock.
  template <class U, class Clock, class Duration>
    requires std::is_assignable_v<U&, T&&>
  bool dequeue_until(U& out, std::chrono::time_point<Clock, Duration> moment) {
    return detail::call_until(
        moment, [&](std::chrono::nanoseconds limit) { return dequeue_for(out, limit); },
        [this] { return is_closed(); });
  }

  /// Constructs up to `count` elements from *first and its successors; returns how many went in. The elements of one
  /// call stay in order; elements of other threads may come between. Fewer than `count`: at some instant there was no
  /// more room, or the queue was closed. If a constructor or the iterator throws, the elements before stay in.
  template <std::input_iterator It>
    requires std::constructible_from<T, std::iter_reference_t<It>>
  std::size_t bulk_enqueue(It first, std::size_t count) {
    std::size_t total = 0;
    while (total != count) {
      std::size_t taken = 0;
      if (core_.put_run(first, total != 0, count - total, taken) != result::done) break;
      total += taken;
    }
    return total;
  }

  /// Moves up to `max` of the oldest elements to *out and its successors; returns how many. 0: empty (or `max` is 0).
  /// Fewer than `max`: no more were ready. If an assignment throws, that element is gone and no other is lost.
  template <class Out>
    requires std::is_assignable_v<decltype(*std::declval<Out&>()), T&&>
  std::size_t bulk_dequeue(Out out, std::size_t max) {
    using target = decltype(*out);
    std::size_t taken = 0;
    if (max == 0) return 0;
    if constexpr (noexcept(*out = std::declval<T&&>()) && noexcept(++out)) {
      if constexpr (assigns_in_slot<target>) {
        core_.take_run(out, max, taken);
      } else {
        taken = take_runs(out, max);
      }
    } else {
      const auto assign = [&out](T&& element) {
        *out = std::move(element);
        ++out;
      };
      while (taken != max && take_and_assign<target>(try_take(), assign)) ++taken;
    }
    return taken;
  }

  /// `co_await queue.pop()` waits while the queue is empty, then takes the oldest element; nullopt: closed and drained.
  /// Does not suspend if there is an element. Await it at once, and once only.
  auto pop() noexcept
    requires std::is_move_constructible_v<T>
  {
    return detail::make_pop(*this);
  }
  /// `co_await queue.push(args...)` waits while the queue is full, then constructs an element at the end from copies of
  /// `args`. False: closed.
  /// g++ before 13 destroys an aggregate such as point{"x", 1}, and an operand of ?:, twice if it is made in that
  /// expression: name it before.
  template <class... Args>
    requires std::is_constructible_v<T, std::decay_t<Args>&&...>
  auto push(Args&&... args) {
    return detail::make_push(*this, std::forward<Args>(args)...);
  }

  /// Closes the queue: nothing more goes in. Producers that wait return false at once, waiting consumers once it is
  /// empty. May be called any number of times.
  void close() noexcept { core_.close(); }
  /// True once close() has been called; elements may still be inside.
  bool is_closed() const noexcept { return core_.is_closed(); }

  /// The number of elements that it has room for.
  std::size_t capacity() const noexcept { return core_.capacity(); }
  /// The number of elements at about this moment, including unfinished ones and slots of elements whose constructor
  /// threw (see Exceptions).
  std::size_t approx_size() const noexcept { return core_.approx_size(); }
  /// True: at some instant during the call there was no element, finished or unfinished.
  bool empty() const noexcept { return core_.empty(); }

 private:
  friend struct detail::queue_access;
  using result = detail::queue_result;
  using deadline = detail::queue_deadline;

  template <class U>
  static auto assign_to(U& out) noexcept {
    return [&out](T&& element) noexcept(std::is_nothrow_assignable_v<U&, T&&>) { out = std::move(element); };
  }

  /// Whether a dequeue assigns in the slot that it has claimed. Otherwise the element leaves the slot first.
  template <class Target>
  static constexpr bool assigns_in_slot =
      std::is_trivially_assignable_v<Target, T&&> || !std::is_nothrow_move_constructible_v<T>;

  /// Takes an element by take(sink), and calls assign(element). False: take() has found none.
  template <class Target, class Take, class Assign>
  static bool take_and_assign(const Take& take, const Assign& assign) {
    if constexpr (assigns_in_slot<Target>) {
      return take(assign);
    } else {
      detail::taken_run<T> one;
      if (!take([&one](T&& e) noexcept { one = std::move(e); })) return false;
      assign(one.first());
      return true;
    }
  }
  auto try_take() {
    return [this](const auto& sink) { return core_.take(sink) == result::done; };
  }

  template <class Out>
  std::size_t take_runs(Out& out, std::size_t max) {
    using run = detail::taken_run<T>;
    std::size_t total = 0;
    for (std::size_t wanted = 0, taken = 0; total != max && taken == wanted; total += taken) {
      run elements;
      wanted = detail::min_of(max - total, run::capacity);
      taken = 0;
      core_.take_run(elements, wanted, taken);
      elements.assign_to(out);
    }
    return total;
  }

  template <class... Args>
  result try_put(Args&&... args) {
    return core_.put(std::forward<Args>(args)...);
  }
  template <class... Args>
  bool wait_for_room(const deadline* until, Args&&... args) {
    return detail::wait_in_queue(
        core_.room(), until, [&] { return try_put(std::forward<Args>(args)...); }, [this] { return core_.may_put(); });
  }
  template <class U>
  bool wait_and_assign(const deadline* until, U& out) {
    return take_and_assign<U&>([&](const auto& sink) { return wait_for_item(until, sink); }, assign_to(out));
  }
  template <class Sink>
  bool wait_for_item(const deadline* until, Sink sink) {
    return detail::wait_in_queue(
        core_.items(), until, [&] { return core_.take(sink); }, [this] { return core_.may_take(); });
  }

  detail::bounded_ring<T, Traits> core_;
};

}  // namespace async::inline v0_1
