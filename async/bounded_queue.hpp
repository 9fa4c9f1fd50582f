// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <chrono>       // for duration, nanoseconds
#include <concepts>     // for constructible_from
#include <cstddef>      // for size_t
#include <cstdint>      // for uint64_t
#include <iterator>     // for input_iterator, iter_reference_t
#include <optional>     // for optional
#include <type_traits>  // for is_assignable_v
#include <utility>      // for declval, forward, move

#include "async/detail/base/atomics.hpp"        // for wait_clock
#include "async/detail/base/backoff.hpp"        // for backoff
#include "async/detail/base/durations.hpp"      // for to_nanoseconds, later
#include "async/detail/queue/bounded_ring.hpp"  // for bounded_ring, ring_result
#include "async/detail/queue/event_count.hpp"   // for event_count

namespace async {

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
/// Closing     close() refuses further elements and makes all waiting calls return. The elements inside come out, then
///             calls that take return false. Exactly the elements that were accepted before close() took effect went
///             in.
/// Threads     any thread may call any member, except construction and destruction. No other call may be running then;
///             a call that has handed over its element but has not returned is still running.
/// Progress    not lock-free: a thread that is stopped between claiming a slot and finishing it delays the threads that
///             need that slot; they wait for it. All other operations do not wait. Constructors, assignments and
///             destructors of T, and iterators of bulks, run in that window and must not use the queue.
/// Exceptions  a throwing constructor: nothing is enqueued. Its slot, and those of elements that a bulk had still to
///             construct, count as taken until all before them have been dequeued. A throwing assignment on the way
///             out: the element is gone, and the exception passes. Arguments are moved from only by a call that
///             succeeds or throws. A call that waits throws only what T throws.
/// Memory      capacity() slots of T and 4 bytes (rounded up to T's alignment), allocated once; no allocation after.
/// Example     test/example/queue.cpp
template <class T, class Traits = bounded_queue_traits>
class bounded_queue {
 public:
  using value_type = T;  ///< the element type

  /// Makes room for at least `capacity` elements, rounded up to a power of two. Throws std::invalid_argument for 0,
  /// std::length_error for a capacity that cannot be addressed, std::bad_alloc.
  explicit bounded_queue(std::size_t capacity) : ring_(capacity) {}
  /// Destroys the remaining elements. No other call may be running or waiting.
  ~bounded_queue() = default;
  bounded_queue(const bounded_queue&) = delete;
  bounded_queue& operator=(const bounded_queue&) = delete;

  /// Constructs an element from `args` at the end. False: full or closed, and `args` are untouched.
  template <class... Args>
    requires std::constructible_from<T, Args...>
  bool enqueue(Args&&... args) {
    return ring_.enqueue(std::forward<Args>(args)...) == result::done;
  }

  /// Moves the oldest element to `out`, of any type that T&& can be assigned to. False: empty.
  template <class U>
    requires std::is_assignable_v<U&, T&&>
  bool dequeue(U& out) {
    return ring_.dequeue(assign_to(out)) == result::done;
  }
  /// Takes the oldest element; nullopt: empty.
  std::optional<T> dequeue()
    requires std::move_constructible<T>
  {
    std::optional<T> out;
    ring_.dequeue([&out](T&& element) { out.emplace(std::move(element)); });
    return out;
  }

  /// Waits while the queue is full, then constructs an element from `args` at the end. False: closed, `args` untouched.
  template <class... Args>
    requires std::constructible_from<T, Args...>
  bool blocking_enqueue(Args&&... args) {
    return wait_for_room(nullptr, std::forward<Args>(args)...);
  }
  /// Waits while the queue is empty, then moves the oldest element to `out`. False: closed and drained.
  template <class U>
    requires std::is_assignable_v<U&, T&&>
  bool blocking_dequeue(U& out) {
    return wait_for_item(nullptr, assign_to(out));
  }

  /// Like blocking_enqueue(), but gives up after `limit` (steady clock). False: still full, or closed; `args`
  /// untouched.
  template <class Rep, class Period, class... Args>
    requires std::constructible_from<T, Args...>
  bool enqueue_for(std::chrono::duration<Rep, Period> limit, Args&&... args) {
    const deadline until(limit);
    return wait_for_room(&until, std::forward<Args>(args)...);
  }
  /// Like blocking_dequeue(), but gives up after `limit` (steady clock). False: still empty, or closed and drained.
  template <class U, class Rep, class Period>
    requires std::is_assignable_v<U&, T&&>
  bool dequeue_for(U& out, std::chrono::duration<Rep, Period> limit) {
    const deadline until(limit);
    return wait_for_item(&until, assign_to(out));
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
      if (ring_.bulk_enqueue(first, total != 0, count - total, taken) != result::done) break;
      total += taken;
    }
    return total;
  }

  /// Moves up to `max` of the oldest elements to *out and its successors; returns how many. 0: empty (or `max` is 0).
  /// Fewer than `max`: no more were ready. If an assignment throws, that element is gone and no other is lost.
  template <class Out>
    requires std::is_assignable_v<decltype(*std::declval<Out&>()), T&&>
  std::size_t bulk_dequeue(Out out, std::size_t max) {
    std::size_t taken = 0;
    if (max == 0) return 0;
    if constexpr (noexcept(*out = std::declval<T&&>()) && noexcept(++out)) {
      ring_.bulk_dequeue(out, max, taken);
    } else {
      const auto sink = [&out](T&& element) {
        *out = std::move(element);
        ++out;
      };
      while (taken != max && ring_.dequeue(sink) == result::done) ++taken;
    }
    return taken;
  }

  /// Closes the queue: nothing more goes in, and every waiting call returns once it has nothing to wait for. May be
  /// called any number of times.
  void close() noexcept { ring_.close(); }
  /// True once close() has been called; elements may still be inside.
  bool is_closed() const noexcept { return ring_.is_closed(); }

  /// The number of elements that it has room for.
  std::size_t capacity() const noexcept { return ring_.capacity(); }
  /// The number of elements at about this moment, including unfinished ones and slots of elements whose constructor
  /// threw (see Exceptions).
  std::size_t approx_size() const noexcept { return ring_.approx_size(); }
  /// True: at some instant during the call there was no element, finished or unfinished.
  bool empty() const noexcept { return ring_.empty(); }

 private:
  using result = detail::ring_result;

  /// A time point on the steady clock; never, for limits of decades.
  class deadline {
   public:
    template <class Rep, class Period>
    explicit deadline(std::chrono::duration<Rep, Period> limit) {
      const std::chrono::nanoseconds time = detail::to_nanoseconds(limit);
      if (time >= std::chrono::seconds(1'000'000'000)) {
        is_never_ = true;
      } else if (time > time.zero()) {
        at_ = detail::later(detail::wait_clock::now(), time);
      } else {
        has_passed_ = true;  // also not-a-number
      }
    }
    const detail::wait_clock::time_point* time() const noexcept { return is_never_ ? nullptr : &at_; }
    bool has_passed() const noexcept { return has_passed_ || (!is_never_ && detail::wait_clock::now() >= at_); }

   private:
    detail::wait_clock::time_point at_{};
    bool is_never_ = false;
    bool has_passed_ = false;
  };

  template <class U>
  static auto assign_to(U& out) noexcept {
    return [&out](T&& element) noexcept(std::is_nothrow_assignable_v<U&, T&&>) { out = std::move(element); };
  }

  template <class... Args>
  bool wait_for_room(const deadline* until, Args&&... args) {
    return wait(
        ring_.room(), until, [&] { return ring_.enqueue(std::forward<Args>(args)...); },
        [this] { return ring_.may_enqueue(); });
  }
  template <class Sink>
  bool wait_for_item(const deadline* until, Sink sink) {
    return wait(ring_.items(), until, [&] { return ring_.dequeue(sink); }, [this] { return ring_.may_dequeue(); });
  }

  /// Spins for a few microseconds. False: it is time to sleep.
  template <class Hint>
  static bool worth_another_try(const deadline* until, Hint hint) {
    if constexpr (!detail::under_model) {
      for (detail::backoff look; !look.exhausted(); look.wait()) {
        if (hint()) return true;
        if (until != nullptr && until->has_passed()) return true;
      }
    }
    return false;
  }

  /// Tries, spins for a while, then announces the sleep, tries again and sleeps, until there is something to return.
  template <class Attempt, class Hint>
  bool wait(detail::event_count& events, const deadline* until, Attempt attempt, Hint hint) {
    for (;;) {
      if (const result r = attempt(); r != result::blocked) return r == result::done;
      if (until != nullptr && until->has_passed()) return false;
      if (worth_another_try(until, hint)) continue;
      detail::event_count::announcement here(events);
      if (const result r = attempt(); r != result::blocked) return r == result::done;
      here.sleep(until != nullptr ? until->time() : nullptr);
    }
  }

  detail::bounded_ring<T, Traits> ring_;
};

}  // namespace async
