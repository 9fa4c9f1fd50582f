// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>      // for size_t
#include <iterator>     // for input_iterator, iter_reference_t
#include <new>          // for placement new
#include <optional>     // for optional
#include <type_traits>  // for is_nothrow_move_constructible_v, is_constructible_v
#include <utility>      // for exchange, forward, move

#include "async/detail/queue/queue_core.hpp"  // for queue_core

namespace async {

/// What can be set about a queue at compile time; derive from it and hide what is to change.
struct queue_traits {
  /// How the words are divided. The version counts used segments: 2^31 of them are hours at full speed.
  static constexpr unsigned version_bits = 31;
  static constexpr unsigned index_bits = 20;  ///< of the segments that may be there at one time
  static constexpr unsigned slot_bits = 12;   ///< of the slots of a segment
  /// About how large a segment is. 8 to 64 KiB are within 10 % of each other.
  static constexpr std::size_t segment_bytes = 16 * 1024;
  /// After another thread was faster: about the time that it needs to be gone (180 ns).
  static constexpr unsigned lost_race_pauses = 8;
  /// How long a dequeue waits, in doubling rounds up to 64 pauses, before it passes over an element that has a place
  /// but is not finished; and a round more for each 256 bytes of an element, which has to be moved then.
  static constexpr unsigned stall_rounds = 64;
  // Tests stop threads there.
  static void claimed() noexcept {}    ///< called after an enqueue has its place
  static void published() noexcept {}  ///< called after an enqueue has published its element
  static void marking() noexcept {}    ///< called before a dequeue marks the place of a stalled enqueue
  static void passing() noexcept {}    ///< called before a dequeue passes over it
};

/// Unbounded multi-producer multi-consumer FIFO queue.
///
/// Use it to hand elements from any number of threads to any number of threads when producers must never wait. Do not
/// use it to limit how much is under way (then: bounded_queue), nor to sleep until something arrives (it never blocks).
///
/// Order       linearizable FIFO: an enqueue takes effect when it claims its slot, a dequeue when it moves the head,
///             and "empty" is true at a moment within the call. Elements of one producer, and elements whose enqueues
///             do not overlap in time, are dequeued in that order.
/// Threads     every member from any thread, except construction, destruction and trim().
/// Progress    lock-free, apart from the memory allocator: a consumer passes over a producer that has stopped in the
///             middle of an enqueue, and a stopped consumer holds nobody up. If T's move constructor may throw,
///             a dequeue waits for a stopped producer whose turn it is, so that T's constructors and iterators must not
///             dequeue; is_always_lock_free is false then.
/// Exceptions  enqueue: std::bad_alloc, and what T's constructor throws; the queue is as before. On std::bad_alloc the
///             arguments are untouched, unless a consumer had passed over this enqueue: then its element is gone.
///             bulk_enqueue: the elements before the failing one are enqueued. dequeue: what T's assignment throws; the
///             element is gone.
/// Memory      segments of about 16 KiB, one byte and no padding for each small element; emptied segments are recycled,
///             and given back by trim() and the destructor.
/// Example     test/example/queue.cpp
template <class T, class Traits = queue_traits>
class queue {
  static_assert(std::is_object_v<T> && std::is_nothrow_destructible_v<T>,
                "async::queue<T>: T must be an object type whose destructor does not throw");
  using core = detail::queue_core<T, Traits>;

 public:
  using value_type = T;  ///< what the queue holds

  /// True when no operation can be held up by a thread that was stopped inside another one.
  static constexpr bool is_always_lock_free =
      detail::atomic<std::uint64_t>::is_always_lock_free && std::is_nothrow_move_constructible_v<T>;

  /// An empty queue with memory for its first elements. Throws std::bad_alloc.
  queue() = default;
  /// The same, with room for at least `reserve` elements before it must allocate again.
  explicit queue(std::size_t reserve) { core_.reserve(reserve); }
  queue(const queue&) = delete;
  queue& operator=(const queue&) = delete;
  /// Destroys the elements that are left. No concurrent use.
  ~queue() = default;

  /// Adds an element made from `args`. Never waits.
  template <class... Args>
    requires std::is_constructible_v<T, Args&&...>
  void enqueue(Args&&... args) {
    const typename core::place at = core_.claim(1);
    try {
      ::new (at.home->storage(at.slot)) T(std::forward<Args>(args)...);
    } catch (...) {
      core_.give_up(*at.home, at.slot, 1, at.word);
      throw;
    }
    if (!core_.publish(*at.home, at.slot, at.word)) enqueue_again(*at.home, at.word, at.slot, 0, 0);
    if (at.slot == core::pre_link_slot) core_.pre_link(*at.home, at.word);
  }

  /// Moves the oldest element to `out`, which can be anything that T&& can be assigned to. False: the queue was empty.
  template <class U>
    requires std::is_assignable_v<U&, T&&>
  bool dequeue(U& out) {
    return core_.take([&out](T& value) noexcept(noexcept(out = std::move(value))) { out = std::move(value); });
  }
  /// Takes the oldest element; nothing: the queue was empty.
  std::optional<T> dequeue()
    requires std::is_move_constructible_v<T>
  {
    std::optional<T> out;
    core_.take([&out](T& value) { out.emplace(std::move(value)); });
    return out;
  }

  /// Adds `count` elements made from *first, *++first, …, in this order; others' elements may come between segments.
  /// One claim for as many as fit in a segment.
  template <std::input_iterator It>
    requires std::is_constructible_v<T, std::iter_reference_t<It>>
  void bulk_enqueue(It first, std::size_t count) {
    while (count != 0) {
      const typename core::place at = core_.claim(count);
      std::uint32_t slot = at.slot;  // the next of the claimed ones, of which there are:
      std::size_t left = at.count;
      try {
        while (left != 0) {
          ::new (at.home->storage(slot)) T(*first);
          const std::uint32_t filled = slot;
          slot = core::segment::after(slot);
          --left;
          --count;
          if (!core_.publish(*at.home, filled, at.word)) [[unlikely]] {
            const std::size_t rest = std::exchange(left, 0);
            enqueue_again(*at.home, at.word, filled, slot, rest);
          }
          if (count != 0) ++first;  // not beyond the last one: a stream would wait for more
        }
      } catch (...) {
        core_.give_up(*at.home, slot, left, at.word);
        throw;
      }
      if (at.slot <= core::pre_link_slot && core::pre_link_slot < slot) core_.pre_link(*at.home, at.word);
    }
  }

  /// Moves up to `max` of the oldest elements to *out, *++out, … and returns how many. If an assignment throws, the
  /// elements before it have been handed over and its own is gone. One claim for a run of ready elements if it cannot
  /// throw.
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

  /// How many elements there are, counting unfinished enqueues; exact when nobody else uses the queue and no element's
  /// constructor has thrown. What has thrown counts until the elements before it have been dequeued.
  std::size_t approx_size() const noexcept { return core_.approx_size(); }
  /// Whether approx_size() is 0.
  bool empty() const noexcept { return approx_size() == 0; }

  /// Gives the memory of emptied segments back to the system. No concurrent use. Throws std::bad_alloc, changing
  /// nothing.
  void trim() { core_.trim(); }

 private:
  /// A place that a consumer has passed over is given up; its element gets another. So are the `count` slots of its
  /// claim from `next` on: later elements must not overtake this one.
  [[gnu::noinline]] void enqueue_again(typename core::segment& home, std::uint64_t use, std::uint32_t slot,
                                       std::uint32_t next, std::size_t count) {
    core::make_void(home, next, count, use);
    if constexpr (core::can_skip) {
      typename core::place at{&home, use, slot, 1};
      for (bool kept = false; !kept;) {
        at = core_.claim_again(at);
        kept = core_.publish(*at.home, at.slot, at.word);
        if (at.slot == core::pre_link_slot) core_.pre_link(*at.home, at.word);
      }
    }
  }

  core core_;
};

}  // namespace async
