// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <algorithm>    // for min
#include <cstddef>      // for size_t
#include <cstdint>      // for uint8_t, uint32_t, uint64_t
#include <memory>       // for addressof, destroy_at
#include <new>          // for placement new, bad_alloc
#include <type_traits>  // for is_nothrow_move_constructible_v
#include <utility>      // for move

#include "async/detail/base/backoff.hpp"            // for pause_for
#include "async/detail/queue/consumer_backoff.hpp"  // for consumer_backoff
#include "async/detail/queue/segment_store.hpp"     // for segment, segment_store

namespace async::detail {

/// The algorithm of async::queue: claim a slot, publish, take; segments in between. The contract is queue.hpp's.
///
/// Words       tail_, head_: [ version | phase | segment index | slot ], see slot_word. A version is a use of a
///             segment; the phase tells this use's state bytes from the last one's, so that nothing is ever reset.
/// Invariants  I1 the tail's segment is the head's or one after it. I2 a slot of a use is claimed by one producer and
///             left by one consumer: the winners of one CAS each. I3 a slot's value is touched by its producer until
///             the slot is ready, then by its consumer; if it was skipped, by its producer alone. I4 a segment is
///             pooled only after the head has left it, and used again only when every slot is done, which its last
///             toucher says.
template <class T, class Traits>
class queue_core {
  using word = slot_word<Traits::version_bits, Traits::index_bits, Traits::slot_bits>;
  using layout = slot_layout<T>;
  static constexpr std::size_t lines = [] {
    const std::size_t most = ((std::size_t{1} << Traits::slot_bits) - 1) >> layout::shift;
    const std::size_t wanted = Traits::segment_bytes / sizeof(typename layout::line);
    return wanted < 2 ? std::size_t{2} : wanted < most ? wanted : most;
  }();

  // State bytes in a use of phase p: p: ready; p|4: done; p|6: void; anything with another phase: empty.
  static constexpr unsigned done = 4, void_and_done = 6;
  static_assert(lines != 0 && lines << layout::shift <= word::slot_mask,
                "async::queue: Traits::slot_bits are too few for a segment of T");

 public:
  using segment = detail::segment<T, lines>;
  static constexpr std::uint64_t pending = segment::pending, skipped = segment::skipped, kept = segment::kept;
  static constexpr bool can_skip = std::is_nothrow_move_constructible_v<T>;
  /// Rounds of 64 pauses. One for 256 bytes is several times what it takes to move them into a new segment.
  static constexpr unsigned patience = Traits::stall_rounds + static_cast<unsigned>(sizeof(T) / 256);
  /// The slot whose producer makes the next segment.
  static constexpr std::uint32_t pre_link_slot = static_cast<std::uint32_t>(lines / 2) << layout::shift;

  queue_core() {
    segment& first = segments_.obtain();
    first.clean.set(false);
    first.next.store(0, std::memory_order_relaxed);  // relaxed, all three: nobody else is here yet
    const std::uint64_t w = word::make(0, first.phase.get(), first.index, 0);
    head_.store(w, std::memory_order_relaxed);
    tail_.store(w, std::memory_order_relaxed);
  }
  queue_core(const queue_core&) = delete;
  queue_core& operator=(const queue_core&) = delete;
  ~queue_core() {
    while (take([](T&) noexcept {})) {
    }
  }

  void reserve(std::size_t elements) {
    if (elements / segment::capacity > word::index_mask) throw std::bad_alloc();
    // Half of the last one: in its middle the next one is made.
    for (std::size_t room = segment::before(pre_link_slot); room < elements; room += segment::capacity) {
      segments_.release(segments_.allocate());
    }
  }
  void trim() {
    segments_.trim();
    return_free_memory();
  }

  /// How many elements there are, counting unfinished enqueues, and void slots behind an element.
  std::size_t approx_size() const noexcept {
    const std::uint64_t h = head_.load(std::memory_order_acquire);  // [Q14]
    const std::uint64_t t = tail_.load(std::memory_order_relaxed);  // relaxed: about this moment
    const std::uint64_t uses = (word::version(t) - word::version(h)) & word::version_mask;
    const std::size_t end = static_cast<std::size_t>(uses) * segment::capacity + segment::before(word::slot(t));
    const std::size_t begin = segment::before(word::slot(h));
    return uses <= word::version_mask / 2 && end > begin ? end - begin - voids_at(h, end - begin) : 0;
  }

  struct place {
    segment* home;
    std::uint64_t word;
    std::uint32_t slot;
    std::size_t count;
  };

  static void set_state(segment& g, std::uint32_t slot, unsigned value) noexcept {
    // [Q6] release, pairs with [Q8] and with [G1] of segment_store.hpp: publishes the value, or that this thread has
    // left the slot
    g.state(slot).store(static_cast<std::uint8_t>(value), std::memory_order_release);
  }

  /// Leaves claimed slots without a value to whoever comes by.
  static void make_void(segment& g, std::uint32_t slot, std::size_t count, std::uint64_t w) noexcept {
    for (; count != 0; --count, slot = segment::after(slot)) set_state(g, slot, word::phase(w) | void_and_done);
  }

  /// An element that leaves its slot: destroyed, and the slot given up, also when its receiver throws.
  struct done_guard {
    segment& home;
    std::uint32_t slot;
    unsigned phase;
    ~done_guard() {
      std::destroy_at(std::addressof(home.value(slot)));
      set_state(home, slot, phase | done);
    }
  };

  /// Takes the next free slots of one segment, at most `most`.
  place claim(std::size_t most) {
    for (;;) {
      std::uint64_t w = tail_.load(std::memory_order_acquire);  // [Q1] acquire, pairs with [Q3]
      const std::uint32_t slot = word::slot(w);
      if (slot >= segment::slot_count) {
        advance_tail(w);
        continue;
      }
      segment& g = segments_.find(word::index(w));
      prefetch_for_write(&g.state(slot));  // both misses, the slot's and the word's, at the same time
      const std::size_t count = most == 1 ? 1 : (std::min)(most, segment::capacity - segment::before(slot));
      const std::uint32_t end = most == 1 ? segment::after(slot) : segment::after(slot, count);
      // [Q2] seq_cst, pairs with [Q7]: what one thread does to several queues is seen in one order by all
      if (tail_.compare_exchange_strong(w, w - slot + end, std::memory_order_seq_cst, std::memory_order_relaxed)) {
        Traits::claimed();
        return {&g, w, slot, count};
      }
      pause_for(Traits::lost_race_pauses);
    }
  }

  /// False: a consumer has passed over the slot meanwhile, and the value is still the caller's.
  bool publish(segment& g, std::uint32_t slot, std::uint64_t w) noexcept {
    set_state(g, slot, word::phase(w));
    Traits::published();
    if constexpr (can_skip) {
      light_fence();  // pairs with pass_over_stalled()'s heavy fence: it sees the value, or this thread its mark
      if (g.skips.load(std::memory_order_relaxed) != 0) return g.was_kept(slot, word::version(w));  // relaxed: fenced
    }
    return true;
  }

  /// Moves a value that was passed over straight to a slot claimed anew. Throws std::bad_alloc, then the value is gone.
  place claim_again(const place& old) {
    const done_guard finish{*old.home, old.slot, word::phase(old.word)};
    const place at = claim(1);
    ::new (at.home->storage(at.slot)) T(std::move(old.home->value(old.slot)));
    return at;
  }

  // --- segments ------------------------------------------------------------------------------------------------------

  /// The successor of the use `w` of `g`, made if there is none; 0: the use is over.
  std::uint64_t link(segment& g, std::uint64_t w) {
    std::uint64_t n = g.next.load(std::memory_order_acquire);  // [Q10] acquire, pairs with [Q11]
    if (word::version(n) != word::version(w)) return 0;
    if (word::index(n) != 0) return n;
    segment& fresh = segments_.obtain();
    fresh.next.store(word::make(word::version(w) + 1, 0, 0, 0), std::memory_order_relaxed);  // relaxed: see [Q11]
    fresh.clean.set(false);
    const std::uint64_t linked = word::make(word::version(w), fresh.phase.get(), fresh.index, 0);
    // [Q11] release, pairs with [Q10]: publishes the fresh segment; failure: receives the other's
    if (g.next.compare_exchange_strong(n, linked, std::memory_order_release, std::memory_order_acquire)) return linked;
    fresh.clean.set(true);
    segments_.release(fresh);
    return word::version(n) == word::version(w) ? n : 0;
  }

  /// Has the successor ready before it is needed; without memory it is tried again when it is.
  void pre_link(segment& g, std::uint64_t w) noexcept {
    try {
      link(g, w);
    } catch (...) {
    }
  }

  static std::uint64_t start_of(std::uint64_t link) noexcept {
    return word::make(word::version(link) + 1, word::phase(link), word::index(link), 0);
  }

  void advance_tail(std::uint64_t w) {
    const std::uint64_t n = link(segments_.find(word::index(w)), w);
    if (n == 0) return;
    // [Q3] release, pairs with [Q1] and [Q7]: publishes the segment; failure: somebody else did
    tail_.compare_exchange_strong(w, start_of(n), std::memory_order_release, std::memory_order_relaxed);
  }

  /// False: the queue is empty.
  bool advance_head(std::uint64_t h) noexcept {
    // The tail first: a successor that is only linked ahead must not let the head leave the tail's segment.
    // [Q7] seq_cst, pairs with [Q2] and [Q3]
    const std::uint64_t t = tail_.load(std::memory_order_seq_cst);
    if (word::use(t) == word::use(h)) return t != h;
    segment& g = segments_.find(word::index(h));
    const std::uint64_t n = g.next.load(std::memory_order_relaxed);  // relaxed: the tail has been there
    if (word::version(n) != word::version(h) || word::index(n) == 0) return true;
    // [Q13] release, pairs with [Q14]: publishes the segment to consumers; the winner alone retires the old one
    if (head_.compare_exchange_strong(h, start_of(n), std::memory_order_release, std::memory_order_relaxed)) {
      segments_.release(g);
    }
    return true;
  }

  // --- dequeue -------------------------------------------------------------------------------------------------------

  struct backoff_tag {};
  using consumer_backoff = detail::consumer_backoff<backoff_tag, 0>;

  /// Hands the oldest element to `receive`. False: the queue was empty.
  template <class Receive>
  bool take(Receive receive) {
    std::uint64_t h = head_.load(std::memory_order_acquire);  // [Q14] acquire, pairs with [Q13]
    // A consumer that polls leaves the slot's line to the producer that is going to write it.
    // [Q7] seq_cst, pairs with [Q2] and [Q3]: the head is never beyond the tail, so that it was there, too
    if (long_empty_.load(std::memory_order_relaxed) == h && tail_.load(std::memory_order_seq_cst) == h) return false;
    for (;; h = head_.load(std::memory_order_acquire)) {  // [Q14] acquire, pairs with [Q13]
      const std::uint32_t slot = word::slot(h);
      if (slot >= segment::slot_count) {
        if (!advance_head(h)) return false;
        continue;
      }
      segment& g = segments_.find(word::index(h));
      const unsigned phase = word::phase(h);
      const std::uint64_t next = h - slot + segment::after(slot);
      const unsigned state = g.state(slot).load(std::memory_order_acquire);  // [Q8] acquire, pairs with [Q6]
      if (state == phase) {
        const bool ours = !can_skip || is_kept(g, slot, h);
        if (!advance(h, next)) {
          pause_for(Traits::lost_race_pauses);
          continue;
        }
        if (!ours) continue;  // the head has passed over a skipped slot, whose producer looks after its value
        const done_guard finish{g, slot, phase};
        receive(g.value(slot));
        return true;
      }
      if (head_.load(std::memory_order_relaxed) != h) continue;  // relaxed: only whether the view is stale
      if ((state & (done | 1)) == (done | phase)) {  // void, or skipped and taken back; its skipper may have stopped
        advance(h, next);
        continue;
      }
      const std::uint64_t position = word::version(h) << Traits::slot_bits | slot;
      if (consumer_backoff::wait(this, position)) continue;
      // Empty if every claimed slot was taken; the head is never beyond the tail.
      // [Q7] seq_cst, pairs with [Q2] and [Q3]
      const std::uint64_t t = tail_.load(std::memory_order_seq_cst);
      if (word::use(t) == word::use(h) && word::slot(t) <= slot) {
        if (consumer_backoff::is_long()) long_empty_.store(h, std::memory_order_relaxed);  // relaxed: a hint
        return false;
      }
      pass_over_stalled(g, slot, h, next);
    }
  }

  /// Hands over as many ready elements as follow each other, at most `most`, for one claim. 0: take() is to be asked.
  template <class Receive>
  std::size_t take_run(Receive& receive, std::size_t most) noexcept {
    std::uint64_t h = head_.load(std::memory_order_acquire);  // [Q14] acquire, pairs with [Q13]
    const std::uint32_t first = word::slot(h);
    if (first >= segment::slot_count) return 0;
    segment& g = segments_.find(word::index(h));
    const unsigned phase = word::phase(h);
    std::uint32_t end = first;
    std::size_t count = 0;
    // [Q8] acquire, pairs with [Q6]
    while (count != most && end < segment::slot_count && g.state(end).load(std::memory_order_acquire) == phase) {
      end = segment::after(end);
      ++count;
    }
    if (count == 0) return 0;
    if constexpr (can_skip) {
      // As in is_kept(). not modelled: see there
      light_fence();
      if (g.skips.load(std::memory_order_relaxed) != 0) return 0;  // relaxed: the fence orders it
    }
    if (!advance(h, h - first + end)) return 0;
    for (std::uint32_t slot = first; slot != end; slot = segment::after(slot)) {
      const done_guard finish{g, slot, phase};
      receive(g.value(slot));
    }
    return count;
  }

  bool is_void(std::uint64_t w) const noexcept {
    // relaxed: nothing is received
    const unsigned state = segments_.find(word::index(w)).state(word::slot(w)).load(std::memory_order_relaxed);
    return (state & (done | 1)) == (done | word::phase(w));
  }

  /// How many slots from the head `h` on are void, which the next dequeue passes over; at most `most`.
  std::size_t voids_at(const std::uint64_t h, std::size_t most) const noexcept {
    std::size_t count = 0;
    for (std::uint64_t w = h; count != most;) {
      const std::uint32_t slot = word::slot(w);
      if (slot >= segment::slot_count) {
        // [Q10]. not modelled: the segment was linked before the model's light fence of an enqueue that the head shows
        const std::uint64_t n = segments_.find(word::index(w)).next.load(std::memory_order_acquire);
        if (word::version(n) != word::version(w) || word::index(n) == 0) break;
        w = start_of(n);
        continue;
      }
      if (!is_void(w)) break;
      w += segment::after(slot) - slot;
      ++count;
    }
    return head_.load(std::memory_order_relaxed) == h ? count : 0;  // relaxed: only whether the view is stale
  }

  /// make_void(), and moves the head over the void slots that it stands at: without a dequeue, too, none pile up.
  void give_up(segment& g, std::uint32_t from, std::size_t count, std::uint64_t w) noexcept {
    make_void(g, from, count, w);
    for (;;) {
      std::uint64_t h = head_.load(std::memory_order_acquire);  // [Q14] acquire, pairs with [Q13]
      const std::uint32_t slot = word::slot(h);
      if (slot >= segment::slot_count ? !advance_head(h) : !is_void(h)) return;
      if (slot < segment::slot_count) advance(h, h - slot + segment::after(slot));
    }
  }

  bool advance(std::uint64_t& h, std::uint64_t next) noexcept {
    // relaxed: nothing is published by it, and `h` was acquired; the done mark [Q6] is what reuse waits for
    return head_.compare_exchange_strong(h, next, std::memory_order_relaxed, std::memory_order_relaxed);
  }

  // --- stalled producers ---------------------------------------------------------------------------------------------
  //
  // A producer that stops between claim and publish would hide what was enqueued after it. A consumer that has waited
  // long enough marks the slot pending, makes the mark known to all (heavy fence) and looks once more: published: the
  // slot is kept; not: it is skipped, and the head passes over it. The producer looks for a mark after it has published
  // (light fence); finding itself skipped, it takes its value back and enqueues it again: its call has not returned, so
  // its place in the order was still free. Marks carry the version of the use, so that none is ever taken for one of a
  // later use.

  bool is_kept(segment& g, std::uint32_t slot, std::uint64_t h) noexcept {
    // Between the state and the mark: pairs with pass_over_stalled()'s heavy fence. Without it a consumer could see the
    // element of a producer that another one has skipped, and not the mark. not modelled: takes a producer and two
    // consumers that change turns six times
    light_fence();
    return g.skips.load(std::memory_order_relaxed) == 0 ||
           g.was_kept(slot, word::version(h));  // relaxed: the fence orders it
  }

  void pass_over_stalled(segment& g, std::uint32_t slot, std::uint64_t h, std::uint64_t next) noexcept {
    const unsigned phase = word::phase(h);
    const auto is_empty = [&] {
      // relaxed: the value is not touched
      return ((g.state(slot).load(std::memory_order_relaxed) ^ phase) & 1) != 0;
    };
    for (unsigned round = 0; round < patience; ++round) {
      if (!is_empty()) return;
      pause_for(round < 6 ? 1U << round : 64U);
    }
    if constexpr (can_skip) {
      atomic<std::uint64_t>* const marks = g.make_marks();
      if (marks == nullptr) return yield_thread();
      const std::uint64_t version = word::version(h) << 2;
      Traits::marking();
      // [Q24] acquire, pairs with [Q25]: with a mark of a later use the head is seen to be beyond this one.
      // not modelled: takes a segment's reuse within one call; test/unit/async/queue_stops.cpp stops a thread here
      std::uint64_t mark = marks[slot].load(std::memory_order_acquire);
      if (head_.load(std::memory_order_relaxed) != h) return;  // relaxed: see [Q24]
      if ((mark & ~std::uint64_t{3}) != version || mark == 0) {
        // [Q25] release, pairs with [Q24]; failure: another consumer is at it. not modelled: see [Q24]
        if (!marks[slot].compare_exchange_strong(mark, version | pending, std::memory_order_release,
                                                 std::memory_order_relaxed)) {
          return;
        }
        mark = version | pending;
      }
      g.skips.store(1, std::memory_order_relaxed);  // relaxed: the fence orders it
      heavy_fence();
      if (mark == (version | pending)) {
        const std::uint64_t verdict = is_empty() ? version | skipped : version | kept;
        // relaxed: one word holds the one verdict on a slot
        if (marks[slot].compare_exchange_strong(mark, verdict, std::memory_order_relaxed)) mark = verdict;
      }
      if (mark == (version | skipped)) {
        Traits::passing();
        advance(h, next);
      }
    } else {
      yield_thread();
    }
  }

  alignas(no_sharing) atomic<std::uint64_t> tail_{0};  // the next slot to claim; written by producers
  alignas(no_sharing) atomic<std::uint64_t> head_{0};  // the next slot to take; written by consumers
  atomic<std::uint64_t> long_empty_{0};  // a head_ at which a consumer has polled for long: what to look at first
  // mutable: approx_size() finds, and only reads, segments
  alignas(no_sharing) mutable segment_store<segment, Traits::index_bits> segments_;
};

}  // namespace async::detail
