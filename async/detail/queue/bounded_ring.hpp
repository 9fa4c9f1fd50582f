// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <bit>          // for bit_ceil
#include <cstddef>      // for size_t
#include <cstdint>      // for uint32_t, uint64_t
#include <limits>       // for numeric_limits
#include <memory>       // for construct_at, destroy_at
#include <new>          // for operator new, align_val_t
#include <stdexcept>    // for invalid_argument, length_error
#include <type_traits>  // for is_nothrow_destructible_v
#include <utility>      // for forward, move

#include "async/detail/base/atomics.hpp"            // for atomic
#include "async/detail/base/backoff.hpp"            // for backoff
#include "async/detail/base/config.hpp"             // for no_sharing
#include "async/detail/base/min_max.hpp"            // for max_of, min_of
#include "async/detail/queue/consumer_backoff.hpp"  // for consumer_backoff
#include "async/detail/queue/event_count.hpp"       // for event_count
#include "async/detail/queue/made_early.hpp"        // for made_early
#include "async/detail/queue/queue_result.hpp"      // for queue_result
#include "async/detail/queue/race_backoff.hpp"      // for race_backoff
#include "async/detail/queue/resume_scope.hpp"      // for resume_scope

namespace async::inline v0_1::detail {

/// The ring under bounded_queue: claims, slots and closing. It never sleeps, but wakes sleepers.
///
/// Words       tail_, head_: the next ticket of producers, and of consumers; the top bit of tail_: closed. Ticket t
///             uses slot t % capacity. A slot's turn = ticket << 2 | state: free for the producer with that ticket,
///             full or void for its consumer, which sets it free for the ticket a capacity later. Tickets never wrap.
///             Turns do, but while a thread's claim can succeed, its slot is at most one capacity behind.
/// Invariants  I1 head_ <= tail_ <= head_ + capacity, by ticket. I2 a ticket has one producer and one consumer: the
///             compare-exchange of tail_ and of head_. I3 between claim and turn only the claimer touches the element.
/// Failures    a producer whose constructor throws gives its slots back if no slot behind them is claimed. So the tail
///             may go back, but never behind an element. Otherwise they become void.
/// Linearization  an enqueue at its claim of tail_, a dequeue at its claim of head_, close at its fetch_or of tail_;
///             "full" at its load of head_ and "empty" at its load of tail_. All are seq_cst, so that all threads see
///             what one thread does to several queues in one order.
/// Void        a slot whose element could not be constructed, and that could not be given back. It counts as an element
///             until all before it are taken. Then head_ is moved over it: by its producer or by the consumer of the
///             element before it, whichever sees first that the slot is void and that head_ has reached it.
template <class T, class Traits>
class bounded_ring {
  static_assert(std::is_object_v<T> && std::is_nothrow_destructible_v<T>,
                "async::bounded_queue<T>: T must be an object type whose destructor does not throw");

 public:
  explicit bounded_ring(std::size_t capacity) : slots_(allocate(capacity)), mask_(std::bit_ceil(capacity) - 1) {
    for (std::uint64_t t = Traits::first_ticket; t != Traits::first_ticket + mask_ + 1; ++t) {
      ::new (static_cast<void*>(&at(t))) slot{turn_of(t)};
    }
  }
  /// Destroys the remaining elements; no other call may be running.
  ~bounded_ring() {
    std::uint64_t h = head_.load(std::memory_order_relaxed);
    for (const std::uint64_t t = ticket(tail_.load(std::memory_order_relaxed)); h != t; ++h) {
      if (at(h).turn.load(std::memory_order_relaxed) == (turn_of(h) | full)) std::destroy_at(at(h).value());
    }
    for (std::size_t i = 0; i <= mask_; ++i) slots_[i].~slot();
    ::operator delete(slots_, std::align_val_t{alignment});
  }
  bounded_ring(const bounded_ring&) = delete;
  bounded_ring& operator=(const bounded_ring&) = delete;

  std::size_t capacity() const noexcept { return static_cast<std::size_t>(mask_ + 1); }

  std::size_t approx_size() const noexcept {
    const std::uint64_t h = head_.load(std::memory_order_relaxed);
    const std::uint64_t t = ticket(tail_.load(std::memory_order_relaxed));
    return t <= h ? 0 : static_cast<std::size_t>(min_of(t - h, mask_ + 1));
  }

  bool empty() const noexcept {
    const std::uint64_t h = head_.load(std::memory_order_relaxed);
    return ticket(tail_.load(std::memory_order_seq_cst)) <= h;  // [B5]
  }

  bool is_closed() const noexcept { return is_closed(tail_.load(std::memory_order_seq_cst)); }  // [B5]

  void close() noexcept {
    const resume_scope all_at_the_end;
    tail_.fetch_or(closed_bit, std::memory_order_seq_cst);  // [B4]
    items_.wake(event_count::everyone);
    room_.wake(event_count::everyone);
  }

  /// Constructs an element from `args` in the next free slot. They are untouched unless the result is `done`.
  template <class... Args>
  queue_result put(Args&&... args) {
    std::uint64_t t = tail_.load(std::memory_order_relaxed);
    [[maybe_unused]] made_early<T, Args...> early;
    for (;;) {
      slot& s = at(t);
      // [B1] acquire, pairs with [B3]: the last consumer has left the slot
      if (s.turn.load(std::memory_order_acquire) == turn_of(t) && !is_closed(t)) [[likely]] {
        if constexpr (early.is_used) early.make(std::forward<Args>(args)...);
        std::uint64_t expected = t;
        // [B4] seq_cst, pairs with [B5]; failure is relaxed: the next slot's turn is acquired anew
        if (tail_.compare_exchange_strong(expected, t + 1, std::memory_order_seq_cst, std::memory_order_relaxed)) {
          Traits::claimed();
          if constexpr (std::is_nothrow_constructible_v<T, Args...>) {
            std::construct_at(s.value(), std::forward<Args>(args)...);
            publish(s, t);
          } else if constexpr (early.is_used) {
            std::construct_at(s.value(), early.take());
            publish(s, t);
          } else {
            filling here{*this, t, 1};
            std::construct_at(s.value(), std::forward<Args>(args)...);
            here.publish_next();
          }
          return queue_result::done;
        }
        t = after_lost_race<0>(tail_, expected);
      } else if (const look l = look_for_room(t); l.outcome == look::retry) {
        t = l.ticket;
      } else {
        return l.result();
      }
    }
  }

  /// Hands the oldest element, as an rvalue, to `sink`. An exception of `sink` passes; the element is gone then. Polls:
  /// the caller will try again at once, so a failed attempt may pause. False: its thread has other work.
  template <bool Polls = true, class Sink>
  queue_result take(Sink&& sink) {
    std::uint64_t h = head_.load(std::memory_order_relaxed);
    // A consumer that polls leaves the slot's line to the producer that is going to write it.
    if (long_empty_.load(std::memory_order_relaxed) == h && tail_.load(std::memory_order_seq_cst) == h) {  // [B5]
      return queue_result::blocked;
    }
    for (;;) {
      slot& s = at(h);
      // [B2] acquire, pairs with [B3]: the element is constructed
      if (s.turn.load(std::memory_order_acquire) == (turn_of(h) | full)) [[likely]] {
        std::uint64_t expected = h;
        // [B6] seq_cst, pairs with [B7]; failure is relaxed: the next slot's turn is acquired anew
        if (head_.compare_exchange_strong(expected, h + 1, std::memory_order_seq_cst, std::memory_order_relaxed)) {
          Traits::claimed();
          const emptying here{*this, s, h};
          sink(std::move(*s.value()));
          return queue_result::done;
        }
        h = after_lost_race<1>(head_, expected);
      } else if (!Polls && tail_.load(std::memory_order_seq_cst) <= h) {  // [B5]
        return queue_result::blocked;
      } else if (const look l = look_for_item(h); l.outcome == look::retry) {
        h = l.ticket;
      } else {
        return l.result();
      }
    }
  }

  /// Constructs up to `count` elements from *first, *++first, …; if `used`, from *++first on. `first` is not advanced
  /// beyond the last one taken: a stream would lose an element, or wait for one. `done`: at least one.
  template <class It>
  queue_result put_run(It& first, bool used, std::size_t count, std::size_t& taken) {
    const std::size_t most = min_of(count, capacity());
    std::uint64_t t = tail_.load(std::memory_order_relaxed);
    for (;;) {
      std::size_t ready = 0;
      // [B1]
      while (ready != most && at(t + ready).turn.load(std::memory_order_acquire) == turn_of(t + ready)) ++ready;
      if (ready != 0 && !is_closed(t)) [[likely]] {
        std::uint64_t expected = t;
        // [B4]
        if (tail_.compare_exchange_strong(expected, t + ready, std::memory_order_seq_cst, std::memory_order_relaxed)) {
          Traits::claimed();
          const resume_scope after_all;  // a coroutine would wait for the rest of the claim
          filling here{*this, t, ready};
          if (used) ++first;
          for (;; ++first) {
            std::construct_at(at(t + taken).value(), *first);
            here.publish_next();
            if (++taken == ready) break;
          }
          return queue_result::done;
        }
        t = after_lost_race<0>(tail_, expected);
      } else if (const look l = look_for_room(t); l.outcome == look::retry) {
        t = l.ticket;
      } else {
        return l.result();
      }
    }
  }

  /// Moves up to `count` elements to *out, *++out, … `done`: at least one. No assignment may throw.
  template <class Out>
  queue_result take_run(Out& out, std::size_t count, std::size_t& taken) {
    const std::size_t most = min_of(count, capacity());
    std::uint64_t h = head_.load(std::memory_order_relaxed);
    for (;;) {
      std::size_t ready = 0;
      // [B2]
      while (ready != most && at(h + ready).turn.load(std::memory_order_acquire) == (turn_of(h + ready) | full))
        ++ready;
      if (ready != 0) [[likely]] {
        std::uint64_t expected = h;
        // [B6]
        if (head_.compare_exchange_strong(expected, h + ready, std::memory_order_seq_cst, std::memory_order_relaxed)) {
          Traits::claimed();
          for (; taken != ready; ++taken, static_cast<void>(++out)) {
            slot& s = at(h + taken);
            *out = std::move(*s.value());
            set_free(s, h + taken);
          }
          wake_producers(ready);
          return queue_result::done;
        }
        h = after_lost_race<1>(head_, expected);
      } else if (const look l = look_for_item(h); l.outcome == look::retry) {
        h = l.ticket;
      } else {
        return l.result();
      }
    }
  }

  /// Cheap hints for a thread that is about to sleep: whether an attempt is worthwhile.
  bool may_put() const noexcept {
    const std::uint64_t t = tail_.load(std::memory_order_relaxed);
    return at(t).turn.load(std::memory_order_relaxed) == turn_of(t) || is_closed(t);
  }
  bool may_take() const noexcept {
    const std::uint64_t h = head_.load(std::memory_order_relaxed);
    const std::uint32_t turn = at(h).turn.load(std::memory_order_relaxed);
    return turn == (turn_of(h) | full) || turn == (turn_of(h) | voided);
  }

  event_count& items() noexcept { return items_; }  // consumers sleep here
  event_count& room() noexcept { return room_; }    // producers sleep here

 private:
  static constexpr std::uint64_t closed_bit = std::uint64_t{1} << 63;
  /// Less than half of the tickets that turns tell apart.
  static constexpr std::size_t max_capacity = std::size_t{1} << 28;
  static constexpr std::uint32_t full = 1;
  static constexpr std::uint32_t voided = 2;
  static constexpr unsigned lost_race_pauses = 8;

  struct slot {
    explicit slot(std::uint32_t first) noexcept : turn(first) {}
    T* value() noexcept { return reinterpret_cast<T*>(storage); }

    alignas(T) std::byte storage[sizeof(T)];
    atomic<std::uint32_t> turn;  // written by the claimer of its ticket; read by all
  };
  static constexpr std::size_t alignment = max_of(alignof(slot), no_sharing);

  static std::uint64_t ticket(std::uint64_t tail) noexcept { return tail & ~closed_bit; }
  static bool is_closed(std::uint64_t tail) noexcept { return (tail & closed_bit) != 0; }
  slot& at(std::uint64_t t) const noexcept { return slots_[static_cast<std::size_t>(t) & mask_]; }
  static std::uint32_t turn_of(std::uint64_t t) noexcept { return static_cast<std::uint32_t>(t) << 2; }

  static slot* allocate(std::size_t capacity) {
    if (capacity == 0) throw std::invalid_argument("async::bounded_queue: capacity 0");
    if (capacity > max_capacity || capacity > (std::numeric_limits<std::size_t>::max)() / 2 / sizeof(slot))
      throw std::length_error("async::bounded_queue: capacity too large");
    return static_cast<slot*>(::operator new(std::bit_ceil(capacity) * sizeof(slot), std::align_val_t{alignment}));
  }

  // --- between claim and turn ---

  /// Claimed slots of a producer. Those that are not published when the scope ends are given back, or become void.
  struct filling {
    bounded_ring& ring;
    std::uint64_t next;
    std::uint64_t left;

    void publish_next() noexcept {
      --left;
      ring.publish(ring.at(next), next);
      ++next;
    }
    ~filling() {
      if (left == 0) return;
      const resume_scope after_all;
      if (ring.give_back(next, left)) return;
      for (; left != 0; --left) ring.set_void(next++);
    }
  };

  /// A claimed slot of a consumer. At the end of the scope it is free.
  struct emptying {
    bounded_ring& ring;
    slot& mine;
    std::uint64_t ticket;

    ~emptying() {
      ring.set_free(mine, ticket);
      ring.wake_producers(1);
    }
  };

  void publish(slot& s, std::uint64_t t) noexcept {
    // [B3] release, pairs with [B1] and [B2]: publishes the element, or that it is gone
    s.turn.store(turn_of(t) | full, std::memory_order_release);
    items_.wake(1);
  }
  void set_free(slot& s, std::uint64_t h) noexcept {
    std::destroy_at(s.value());
    s.turn.store(turn_of(h + mask_ + 1), std::memory_order_release);  // [B3]
  }
  /// Waits after a race for `counter` that another thread has won, who left it at `lost`; returns what it is then.
  template <int Side>
  [[gnu::noinline]] static std::uint64_t after_lost_race(const atomic<std::uint64_t>& counter,
                                                         std::uint64_t lost) noexcept {
    return race_backoff<bounded_ring, Side>::wait(
        lost, lost_race_pauses, [&] { return counter.load(std::memory_order_relaxed); }, &ticket);
  }

  // The publisher's side of event_count: its seq_cst step is the claim. The waiter's test counts a claimed slot and
  // waits until it is finished. Since wake() follows the turn, a woken sleeper finds the slot that it was woken for.
  void wake_producers(std::size_t count) noexcept {
    // [B8] seq_cst, pairs with [B9]: sees the void slot, unless its producer sees this consumer's claim
    if (voids_.load(std::memory_order_seq_cst) != 0) [[unlikely]]
      skip_voids();
    room_.wake(static_cast<std::uint32_t>(count));
  }

  /// Gives the last `count` slots of a claim back, from ticket `t` on. False: another producer has claimed the slot
  /// behind them. At this tail no claim is open behind them, whatever happened meanwhile.
  [[gnu::noinline]] bool give_back(std::uint64_t t, std::uint64_t count) noexcept {
    std::uint64_t w = tail_.load(std::memory_order_relaxed);
    do {
      if (ticket(w) != t + count) return false;
      // [B4] seq_cst, pairs with [B5]: a waiting producer sees the room, or this one sees it announced. And release,
      // pairs with the next claim: the unfinished elements are gone
    } while (
        !tail_.compare_exchange_strong(w, t | (w & closed_bit), std::memory_order_seq_cst, std::memory_order_relaxed));
    room_.wake(static_cast<std::uint32_t>(count));
    return true;
  }

  // --- void slots ---

  [[gnu::noinline]] void set_void(std::uint64_t t) noexcept {
    voids_.fetch_add(1, std::memory_order_seq_cst);  // [B9] seq_cst, pairs with [B8]
    // [B10] seq_cst, pairs with [B11]: the slot is void, for the next thread at it
    at(t).turn.exchange(turn_of(t) | voided, std::memory_order_seq_cst);
    skip_voids();
    items_.wake(1);
  }

  /// Moves head_ over the void slots at which it stands.
  [[gnu::noinline]] void skip_voids() noexcept {
    for (;;) {
      std::uint64_t h = head_.load(std::memory_order_seq_cst);  // [B7]
      slot& s = at(h);
      // [B11] seq_cst, pairs with [B10]
      if (s.turn.load(std::memory_order_seq_cst) != (turn_of(h) | voided)) return;
      // [B6]
      if (head_.compare_exchange_strong(h, h + 1, std::memory_order_seq_cst, std::memory_order_relaxed)) {
        s.turn.store(turn_of(h + mask_ + 1), std::memory_order_release);  // [B3]
        voids_.fetch_sub(1, std::memory_order_relaxed);
        room_.wake(1);
      }
    }
  }

  // --- slow paths: the slot is not ready ---

  /// The finding of look_for_room() and look_for_item().
  struct look {
    enum kind : unsigned char {
      retry,    // the slot of `ticket` may be ready
      blocked,  // full; empty
      closed,   // closed; closed and drained
    };
    kind outcome;
    std::uint64_t ticket = 0;  // of `retry`

    /// The result for a caller that does not retry. It is never `done`, which compilers see: so none warns of an
    /// unwritten `out` in the caller.
    queue_result result() const noexcept { return outcome == closed ? queue_result::closed : queue_result::blocked; }
  };

  /// Waits for a consumer that has claimed the slot's element and is about to leave.
  [[gnu::noinline]] look look_for_room(std::uint64_t t) noexcept {
    for (backoff wait;; wait.wait()) {
      // [B5] seq_cst, pairs with [B4]
      const std::uint64_t now = tail_.load(std::memory_order_seq_cst);
      if (now != t) return {look::retry, now};
      if (is_closed(t)) return {look::closed};
      if (at(t).turn.load(std::memory_order_relaxed) == turn_of(t)) return {look::retry, t};
      if (consumer_backoff<bounded_ring, 0>::wait(this, t, capacity()))
        return {look::retry, tail_.load(std::memory_order_relaxed)};
      Traits::looking();
      // [B7] seq_cst, pairs with [B6]: full if consumers have claimed no more; the head may be beyond t
      if (head_.load(std::memory_order_seq_cst) + mask_ < t) return {look::blocked};
    }
  }

  /// Waits for a producer that has claimed the slot and is about to publish.
  [[gnu::noinline]] look look_for_item(std::uint64_t h) noexcept {
    for (backoff wait;; wait.wait()) {
      const std::uint64_t now = head_.load(std::memory_order_relaxed);
      if (now != h) return {look::retry, now};
      const std::uint32_t turn = at(h).turn.load(std::memory_order_relaxed);
      if (turn == (turn_of(h) | full)) return {look::retry, h};
      if (turn == (turn_of(h) | voided)) skip_voids();
      if (consumer_backoff<bounded_ring, 1>::wait_or_watch(
              this, h, capacity(), [&] { return at(h).turn.load(std::memory_order_relaxed) == (turn_of(h) | full); }))
        return {look::retry, head_.load(std::memory_order_relaxed)};
      // [B5] empty if producers have claimed no more
      const std::uint64_t t = tail_.load(std::memory_order_seq_cst);
      if (ticket(t) <= h) {
        if (consumer_backoff<bounded_ring, 1>::is_long()) long_empty_.store(h, std::memory_order_relaxed);
        return {is_closed(t) ? look::closed : look::blocked};
      }
    }
  }

  slot* const slots_;
  const std::uint64_t mask_;
  alignas(no_sharing) atomic<std::uint64_t> tail_{Traits::first_ticket};  // written by producers and close()
  alignas(no_sharing) atomic<std::uint64_t> head_{Traits::first_ticket};  // written by consumers
  // A head_ at which a consumer has polled for long. Written and read by consumers; only decides what they look at
  // first.
  atomic<std::uint64_t> long_empty_{Traits::first_ticket - 1};
  alignas(no_sharing) atomic<std::uint32_t> voids_{0};  // void slots that head_ has not passed
  event_count items_;
  event_count room_;
};

}  // namespace async::inline v0_1::detail
