// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>      // for size_t
#include <cstdint>      // for uint64_t
#include <iterator>     // for input_iterator, iter_reference_t
#include <new>          // for placement new
#include <optional>     // for optional
#include <type_traits>  // for decay_t, is_constructible_v, is_nothrow_assignable_v, is_nothrow_move_constructible_v
#include <utility>      // for forward, move

#include "async/detail/base/atomics.hpp"         // for atomic
#include "async/detail/base/chrono.hpp"          // for duration, time_point, nanoseconds
#include "async/detail/base/durations.hpp"       // for call_until
#include "async/detail/queue/queue_awaiter.hpp"  // for make_pop, make_push
#include "async/detail/queue/queue_core.hpp"     // for queue_core
#include "async/detail/queue/queue_result.hpp"   // for queue_result
#include "async/detail/queue/queue_wait.hpp"     // for wait_in_queue, queue_deadline
#include "async/fwd.hpp"                         // for queue

namespace async::inline v0_1 {

/// Compile-time settings of a queue. To change one, derive from this and hide it.
struct queue_traits {
  // Division of the 64-bit words. The version counts used segments: 2^30 of them are hours at full speed. If the parts
  // leave fewer than two bits, the version has a bit less.
  static constexpr unsigned version_bits = 30;  ///< bits of the version
  static constexpr unsigned index_bits = 20;    ///< bits of a segment's index: limits the segments at one time
  static constexpr unsigned slot_bits = 12;     ///< bits of a slot's number: limits the slots of a segment
  /// Approximate size of a segment. Sizes from 8 to 64 KiB are within 10 % of each other in speed.
  static constexpr std::size_t segment_bytes = std::size_t{16} * 1024;
  /// Pauses after a lost race, so that the winner can finish (100 to 350 ns). While other threads use the same end at
  /// full speed a thread pauses longer, up to 256 pauses: the end is faster if it seldom changes hands.
  static constexpr unsigned lost_race_pauses = 8;
  /// Rounds that a dequeue waits before it passes over a claimed but unfinished element. Rounds double up to 64 pauses.
  /// Each 256 bytes of an element, which then has to be moved, add a round.
  static constexpr unsigned stall_rounds = 64;
  // Hooks at which tests stop threads.
  static void claimed() noexcept {}    ///< called after an enqueue has claimed its slot
  static void published() noexcept {}  ///< called after an enqueue has published its element, or given a slot up
  static void marking() noexcept {}    ///< called before a dequeue marks the slot of a stalled enqueue
  static void looked() noexcept {}     ///< called after it has looked whether the slot is still the oldest one
  static void passing() noexcept {}    ///< called before a dequeue passes over that slot
};

/// Unbounded multi-producer multi-consumer FIFO queue.
///
/// Use it to hand elements from any number of threads to any number of threads when producers must never wait. Do not
/// use it for back-pressure (then: bounded_queue).
///
/// Order       linearizable FIFO: an enqueue takes effect when it claims its slot, a dequeue when it moves the head.
///             "Empty" and "closed" were true at some instant during the call. Elements of one producer, and elements
///             whose enqueues do not overlap in time, are dequeued in that order.
/// Waiting     blocking_dequeue() and dequeue_for() spin for a few microseconds, then sleep without using the CPU.
///             Sleepers are woken first come, first served, one for each element. A thread that does not sleep may get
///             the element before them. A call that times out leaves nothing behind.
///             In a task of a pool whose workers are all busy, from 250 us on, a stand-in thread runs queued tasks, and
///             the worker itself turns loops, with their flows, that wait for it: hold no lock that these need. If a
///             task polls with shorter waits, other threads run the tasks and loops. In a step or another callback of
///             an event loop they block the loop: use asi.await(queue) there.
/// Coroutines  `co_await queue.pop()` suspends while the queue is empty. The coroutine resumes inside the call that
///             enqueues or closes, on its thread; as a step (steps::interop::co) on its flow's loop. Coroutines are
///             served first come, first served; those that are woken at the same time may change places if others take
///             their elements. The element stays in the queue until its coroutine resumes: a coroutine that is
///             destroyed before loses none. Do not hold a lock during enqueue() or close() that a waiting
///             coroutine needs, and do not block in a coroutine: it holds up the call. Coroutines that wake each other
///             resume one after the other, without recursion. The iterator and the constructors in a bulk_enqueue must
///             not wait for a coroutine: one that they wake, of any queue or event, may resume only at the end of the
///             bulk.
/// Closing     close() refuses further elements and makes all waiting calls return. Dequeues still take the elements
///             inside, and return false when none is left. Each element whose enqueue returned true can be dequeued.
/// Threads     any thread may call any member, except construction and destruction, which allow no concurrent use. A
///             call that has handed over its element but has not returned is still running. A coroutine that waits
///             may be destroyed by the thread that would resume it, or while no other thread enqueues or closes. The
///             queue outlives the coroutines that wait for it.
/// Progress    enqueues, and dequeues that do not wait, are lock-free apart from the memory allocator: a consumer
///             passes over a producer that has stopped in the middle of an enqueue, and a stopped consumer blocks no
///             other thread. An enqueue for which a flow, a coroutine or a select() waits also takes a short lock.
///             There are two exceptions. Once the queue is closed, a dequeue that finds no other element waits for
///             enqueues that it has passed over. If T's move constructor may throw, is_always_lock_free is false, and a
///             dequeue waits for a stopped producer at the head. In both cases it yields, then naps until they have
///             finished, also in a try call, in a select(), in a step of a flow, and beyond the limit of a
///             dequeue_for(). T's constructors and iterators must not dequeue then.
/// Exceptions  enqueue: std::bad_alloc, and what T's constructor throws; the queue is as before. On std::bad_alloc the
///             arguments are untouched, unless a consumer had passed over this enqueue: then its element is gone.
///             bulk_enqueue: the elements before the failing one are enqueued. dequeue: what T's assignment throws; the
///             element is gone. co_await: the same, of T's move constructor, and std::bad_alloc, without effects.
/// Memory      segments of about 16 KiB, with one byte and no padding for each small element. Emptied segments are
///             recycled. trim() returns their memory to the system while other threads go on; the destructor frees
///             it. A coroutine that waits takes one recycled block.
/// Example     test/example/queue.cpp
template <class T, class Traits>
class queue {
  static_assert(std::is_object_v<T> && std::is_nothrow_destructible_v<T>,
                "async::queue<T>: T must be an object type whose destructor does not throw");
  using core = detail::queue_core<T, Traits>;

 public:
  using value_type = T;  ///< the element type

  /// True if a thread that is stopped inside an operation can never block another thread's operation.
  static constexpr bool is_always_lock_free =
      detail::atomic<std::uint64_t>::is_always_lock_free && std::is_nothrow_move_constructible_v<T>;

  /// Makes an empty queue with memory for its first elements. Throws std::bad_alloc.
  queue() = default;
  /// The same, with room for at least `reserve` elements before it must allocate again. Throws std::bad_alloc.
  explicit queue(std::size_t reserve) { core_.reserve(reserve); }
  queue(const queue&) = delete;
  queue& operator=(const queue&) = delete;
  /// Destroys the remaining elements. No concurrent use.
  ~queue() = default;

  /// Adds an element made from `args`. Never waits. False: the queue is closed, and `args` are untouched.
  template <class... Args>
    requires std::is_constructible_v<T, Args&&...>
  bool enqueue(Args&&... args) {
    return try_put(std::forward<Args>(args)...) == result::done;
  }

  /// Moves the oldest element to `out`, of any type that T&& can be assigned to. False: the queue was empty.
  template <class U>
    requires std::is_assignable_v<U&, T&&>
  bool dequeue(U& out) {
    return core_.take(assign_to(out)) == result::done;
  }
  /// Takes the oldest element; nullopt: the queue was empty.
  std::optional<T> dequeue()
    requires std::is_move_constructible_v<T>
  {
    std::optional<T> out;
    core_.take([&out](T& value) { out.emplace(std::move(value)); });
    return out;
  }

  /// Waits while the queue is empty, then moves the oldest element to `out`. False: closed and drained.
  template <class U>
    requires std::is_assignable_v<U&, T&&>
  bool blocking_dequeue(U& out) {
    return wait_for_item(nullptr, assign_to(out));
  }
  /// Like blocking_dequeue(), but gives up after `limit` (steady clock). False: still empty, or closed and drained. If
  /// is_closed() was true before the call, false means drained: a loop of timed calls ends there, or it would spin. So
  /// a call on a closed queue waits beyond its limit for enqueues that dequeues have passed over.
  template <class U, class Rep, class Period>
    requires std::is_assignable_v<U&, T&&>
  bool dequeue_for(U& out, std::chrono::duration<Rep, Period> limit) {
    const detail::queue_deadline until(limit);
    return wait_for_item(&until, assign_to(out));
  }
  /// The same until a moment of any clock.
  template <class U, class Clock, class Duration>
    requires std::is_assignable_v<U&, T&&>
  bool dequeue_until(U& out, std::chrono::time_point<Clock, Duration> moment) {
    return detail::call_until(
        moment, [&](std::chrono::nanoseconds limit) { return dequeue_for(out, limit); },
        [this] { return is_closed(); });
  }

  /// Adds `count` elements made from *first, *++first, …, in this order, with one claim for each segment that they
  /// touch. Elements of other threads may come between two segments. Returns how many went in; fewer than `count`: the
  /// queue was closed.
  template <std::input_iterator It>
    requires std::is_constructible_v<T, std::iter_reference_t<It>>
  std::size_t bulk_enqueue(It first, std::size_t count) {
    return core_.put_all(std::move(first), count);
  }

  /// Moves up to `max` of the oldest elements to *out, *++out, … and returns how many. If an assignment throws, the
  /// elements before it have been handed over and its own is gone. If none can throw, a run of ready elements takes one
  /// claim.
  template <class Out>
    requires std::is_assignable_v<decltype(*std::declval<Out&>()), T&&>
  std::size_t bulk_dequeue(Out out, std::size_t max) {
    std::size_t taken = 0;
    const auto put = [&out](T& value) noexcept(noexcept(*out = std::move(value))&& noexcept(++out)) {
      *out = std::move(value);
      ++out;
    };
    while (taken != max) {
      std::size_t run = 0;
      if constexpr (noexcept(put(std::declval<T&>()))) run = core_.take_run(put, max - taken);
      if (run == 0) {
        if (core_.take(put) != result::done) break;
        run = 1;
      }
      taken += run;
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
  /// `co_await queue.push(args...)` adds an element made from copies of `args`, for code that also takes a
  /// bounded_queue: it never waits. False: closed. Elsewhere use enqueue().
  /// g++ before 13 destroys an aggregate such as point{"x", 1}, and an operand of ?:, twice if it is made in that
  /// expression: name it before.
  template <class... Args>
    requires std::is_constructible_v<T, std::decay_t<Args>&&...>
  auto push(Args&&... args) {
    return detail::make_push(*this, std::forward<Args>(args)...);
  }

  /// Closes the queue: nothing more goes in, and consumers that wait return false when the queue is empty. May be
  /// called any number of times. Lock-free.
  void close() noexcept { core_.close(); }
  /// True once close() has been called; elements may still be inside.
  bool is_closed() const noexcept { return core_.is_closed(); }

  /// The number of elements, counting unfinished enqueues. Exact when no other thread uses the queue and no element's
  /// constructor has thrown. An element that has thrown counts until the elements before it have been dequeued.
  std::size_t approx_size() const noexcept { return core_.approx_size(); }
  /// Whether approx_size() is 0.
  bool empty() const noexcept { return approx_size() == 0; }

  /// Returns the memory of emptied segments to the system; the result is the number of bytes. Use it after a peak. It
  /// makes a system call for each run of adjacent segments, and enqueues that need the memory again fault it in. Other
  /// threads may enqueue and dequeue at the same time, without waiting for it. The address space stays reserved until
  /// the destructor. Segments keep their memory while a stopped thread is inside, and after a dequeue has passed over a
  /// stopped enqueue in them. For memory that elements have allocated, see threadpool::trim(). Does nothing on systems
  /// other than Linux.
  std::size_t trim() noexcept { return core_.trim(); }

 private:
  friend struct detail::queue_access;
  using result = detail::queue_result;

  template <class U>
  static auto assign_to(U& out) noexcept {
    return [&out](T& value) noexcept(std::is_nothrow_assignable_v<U&, T>) { out = std::move(value); };
  }

  template <class... Args>
  result try_put(Args&&... args) {
    const bool is_in = core_.put([&](void* memory) { ::new (memory) T(std::forward<Args>(args)...); });
    return is_in ? result::done : result::closed;
  }
  template <class Receive>
  bool wait_for_item(const detail::queue_deadline* until, Receive receive) {
    return detail::wait_in_queue(
        core_.items(), until, [&] { return core_.take(receive); }, [this] { return core_.may_take(); });
  }

  core core_;
};

}  // namespace async::inline v0_1
