// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>      // for size_t
#include <cstdint>      // for uint64_t
#include <iterator>     // for input_iterator, iter_reference_t
#include <new>          // for placement new
#include <optional>     // for optional
#include <type_traits>  // for is_nothrow_move_constructible_v, is_constructible_v
#include <utility>      // for forward, move

#include "async/detail/base/atomics.hpp"      // for atomic
#include "async/detail/queue/queue_core.hpp"  // for queue_core

namespace async {

/// Compile-time settings of a queue. To change one, derive from this and hide it.
struct queue_traits {
  // Division of the 64-bit words. The version counts used segments: 2^31 of them are hours at full speed.
  static constexpr unsigned version_bits = 31;  ///< bits of the version
  static constexpr unsigned index_bits = 20;    ///< bits of a segment's index: limits the segments at one time
  static constexpr unsigned slot_bits = 12;     ///< bits of a slot's number: limits the slots of a segment
  /// Approximate size of a segment. Sizes from 8 to 64 KiB are within 10 % of each other in speed.
  static constexpr std::size_t segment_bytes = 16 * 1024;
  /// Pauses after a lost race, so that the winner can finish (180 ns).
  static constexpr unsigned lost_race_pauses = 8;
  /// Rounds that a dequeue waits before it passes over a claimed but unfinished element. Rounds double up to 64 pauses.
  /// Each 256 bytes of an element, which then has to be moved, add a round.
  static constexpr unsigned stall_rounds = 64;
  // Hooks at which tests stop threads.
  static void claimed() noexcept {}    ///< called after an enqueue has claimed its slot
  static void published() noexcept {}  ///< called after an enqueue has published its element
  static void marking() noexcept {}    ///< called before a dequeue marks the slot of a stalled enqueue
  static void passing() noexcept {}    ///< called before a dequeue passes over that slot
};

/// Unbounded multi-producer multi-consumer FIFO queue.
///
/// Use it to hand elements from any number of threads to any number of threads when producers must never wait. Do not
/// use it for back-pressure (then: bounded_queue), nor to sleep until an element arrives: it never blocks.
///
/// Order       linearizable FIFO: an enqueue takes effect when it claims its slot, a dequeue when it moves the head.
///             "Empty" was true at some instant during the call. Elements of one producer, and elements whose enqueues
///             do not overlap in time, are dequeued in that order.
/// Threads     any thread may call any member, except construction, destruction and trim(), which allow no concurrent
///             use.
/// Progress    lock-free, apart from the memory allocator: a consumer passes over a producer that has stopped in the
///             middle of an enqueue, and a stopped consumer blocks no other thread. If T's move constructor may throw,
///             is_always_lock_free is false: a dequeue waits for the stopped producer at the head. T's constructors
///             and iterators must not dequeue then.
/// Exceptions  enqueue: std::bad_alloc, and what T's constructor throws; the queue is as before. On std::bad_alloc the
///             arguments are untouched, unless a consumer had passed over this enqueue: then its element is gone.
///             bulk_enqueue: the elements before the failing one are enqueued. dequeue: what T's assignment throws; the
///             element is gone.
/// Memory      segments of about 16 KiB, with one byte and no padding for each small element. Emptied segments are
///             recycled; trim() and the destructor free them.
/// Example     test/example/queue.cpp
template <class T, class Traits = queue_traits>
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

  /// Adds an element made from `args`. Never waits.
  template <class... Args>
    requires std::is_constructible_v<T, Args&&...>
  void enqueue(Args&&... args) {
    core_.put([&](void* memory) { ::new (memory) T(std::forward<Args>(args)...); });
  }

  /// Moves the oldest element to `out`, of any type that T&& can be assigned to. False: the queue was empty.
  template <class U>
    requires std::is_assignable_v<U&, T&&>
  bool dequeue(U& out) {
    return core_.take([&out](T& value) noexcept(noexcept(out = std::move(value))) { out = std::move(value); });
  }
  /// Takes the oldest element; nullopt: the queue was empty.
  std::optional<T> dequeue()
    requires std::is_move_constructible_v<T>
  {
    std::optional<T> out;
    core_.take([&out](T& value) { out.emplace(std::move(value)); });
    return out;
  }

  /// Adds `count` elements made from *first, *++first, …, in this order, with one claim for each segment that they
  /// touch. Elements of other threads may come between two segments.
  template <std::input_iterator It>
    requires std::is_constructible_v<T, std::iter_reference_t<It>>
  void bulk_enqueue(It first, std::size_t count) {
    core_.put_all(std::move(first), count);
  }

  /// Moves up to `max` of the oldest elements to *out, *++out, … and returns how many. If an assignment throws, the
  /// elements before it have been handed over and its own is gone. If none can throw, a run of ready elements takes one
  /// claim.
  template <class Out>
    requires std::is_assignable_v<decltype(*std::declval<Out&>()), T&&>
  std::size_t bulk_dequeue(Out out, std::size_t max) {
    std::size_t taken = 0;
    const auto put = [&out](T& value) noexcept(noexcept(*out = std::move(value), ++out)) {
      *out = std::move(value);
      ++out;
    };
    while (taken != max) {
      std::size_t run = 0;
      if constexpr (noexcept(put(std::declval<T&>()))) run = core_.take_run(put, max - taken);
      if (run == 0) {
        if (!core_.take(put)) break;
        run = 1;
      }
      taken += run;
    }
    return taken;
  }

  /// The number of elements, counting unfinished enqueues. Exact when no other thread uses the queue and no element's
  /// constructor has thrown. An element that has thrown counts until the elements before it have been dequeued.
  std::size_t approx_size() const noexcept { return core_.approx_size(); }
  /// Whether approx_size() is 0.
  bool empty() const noexcept { return approx_size() == 0; }

  /// Returns the memory of emptied segments to the system. No concurrent use. Throws std::bad_alloc, changing nothing.
  void trim() { core_.trim(); }

 private:
  core core_;
};

}  // namespace async
