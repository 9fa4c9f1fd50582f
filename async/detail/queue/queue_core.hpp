// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>      // for size_t
#include <cstdint>      // for uint8_t, uint32_t, uint64_t
#include <iterator>     // for contiguous_iterator, iter_reference_t
#include <memory>       // for addressof, destroy_at
#include <new>          // for placement new, bad_alloc
#include <type_traits>  // for conditional_t, is_nothrow_move_constructible_v
#include <utility>      // for exchange, move

#include "async/detail/base/atomics.hpp"            // for atomic, yield_thread
#include "async/detail/base/backoff.hpp"            // for backoff, pause_for
#include "async/detail/base/config.hpp"             // for no_sharing
#include "async/detail/base/min_max.hpp"            // for min_of
#include "async/detail/base/platform.hpp"           // for prefetch_for_write
#include "async/detail/queue/consumer_backoff.hpp"  // for consumer_backoff
#include "async/detail/queue/event_count.hpp"       // for event_count
#include "async/detail/queue/queue_result.hpp"      // for queue_result
#include "async/detail/queue/race_backoff.hpp"      // for race_backoff
#include "async/detail/queue/resume_scope.hpp"      // for resume_scope
#include "async/detail/queue/segment.hpp"           // for segment, slot_layout, slot_word
#include "async/detail/queue/segment_store.hpp"     // for segment_store
#include "async/detail/queue/skip_marks.hpp"        // for skip_state

namespace async::inline v0_1::detail {

/// The algorithm of async::queue; queue.hpp has the contract.
///
///   put   claim the slot at the tail, construct the element in it, publish it
///   take  see the slot at the head published, move the head past it, hand the element over
///
/// A producer that runs off a segment links the next one; a consumer that does so retires its segment to the free list.
///
/// Words       tail_, head_: [ version | phase | segment index | closed | slot ], see slot_word. Each use of a segment
///             has a version and a phase. The phase tells this use's state bytes from the last one's, so that nothing
///             is ever reset. Only the tail is ever closed, and stays so.
/// States      a slot's byte in a use of phase p: p: ready; p|4: done; p|2: void; p|6: void and done; any byte of
///             another phase: empty. A void slot was claimed and given up without a value. Consumers move the head past
///             it.
/// Invariants  I1 the tail's segment is the head's or a later one. I2 a slot of a use is claimed by one producer and
///             left by one consumer: the winners of one CAS each. I3 a slot's value belongs to its producer until the
///             slot is ready, then to its consumer. The value of a skipped slot stays its producer's. I4 a segment is
///             pooled only after the head has left it, and used again only when every slot is done. The last thread in
///             a slot says so.
/// Closing     an enqueue whose claim precedes the closing of the tail is in. If consumers have passed over it, its
///             producer still moves its value to the closed tail. passed_over_ counts these values: while there are
///             any, a dequeue waits instead of reporting "closed and drained".
/// Sleepers    consumers sleep on items_. A producer's seq_cst step is its claim, the sleeper's test is the load of the
///             tail. After it has published, a producer wakes a sleeper. If there is none, that is a load.
template <class T, class Traits>
class queue_core {
  static_assert(Traits::version_bits + 1 + Traits::index_bits + Traits::slot_bits <= 64,
                "async::queue: the parts of a word must fit into 64 bits");
  // One bit is for "closed".
  static constexpr unsigned version_bits =
      min_of(unsigned{Traits::version_bits}, 62U - Traits::index_bits - Traits::slot_bits);
  using word = slot_word<version_bits, Traits::index_bits, Traits::slot_bits>;
  using layout = slot_layout<T>;
  static constexpr std::size_t lines = [] {
    const std::size_t most = ((std::size_t{1} << Traits::slot_bits) - 1) >> layout::shift;
    constexpr std::size_t body =
        Traits::segment_bytes > segment_header<T> ? Traits::segment_bytes - segment_header<T> : 0;
    const std::size_t wanted = body / sizeof(typename layout::line);
    return wanted < 2 ? std::size_t{2} : wanted < most ? wanted : most;
  }();
  static_assert(lines != 0 && lines << layout::shift <= word::slot_mask,
                "async::queue: Traits::slot_bits are too few for a segment of T");

  using segment = detail::segment<T, lines>;
  static constexpr unsigned voided = 2, done = 4;
  /// The slot whose producer links the next segment, before it is needed.
  static constexpr std::uint32_t pre_link_slot = static_cast<std::uint32_t>(lines / 2) << layout::shift;
  static constexpr bool can_skip = std::is_nothrow_move_constructible_v<T>;
  /// Rounds of 64 pauses. A round for 256 bytes is several times what moving them into a new segment takes.
  static constexpr unsigned patience = Traits::stall_rounds + static_cast<unsigned>(sizeof(T) / 256);

 public:
  queue_core() {
    segment& first = segments_.obtain();
    first.clean.set(false);
    first.next.store(unlinked(0), std::memory_order_relaxed);  // relaxed, all three: no other thread is here yet
    const std::uint64_t w = word::make(0, first.phase.get(), first.index, 0);
    head_.store(w, std::memory_order_relaxed);
    tail_.store(w, std::memory_order_relaxed);
  }
  queue_core(const queue_core&) = delete;
  queue_core& operator=(const queue_core&) = delete;
  ~queue_core() {
    while (take([](T&) noexcept {}) == queue_result::done) {
    }
  }

  /// Adds an element: construct(memory) makes it in the next free slot. If that throws, nothing is added. False: the
  /// queue is closed, and `construct` was not called.
  template <class Construct>
  [[gnu::always_inline]] bool put(Construct construct) {
    const claim mine = claim_slots<false>(1);
    if (mine.home == nullptr) [[unlikely]]
      return false;
    filling here{*this, mine};
    construct(here.storage());
    here.publish_next();
    items_.wake(1);
    if (mine.slot == pre_link_slot) pre_link(*mine.home, mine.word);
    return true;
  }

  /// Adds `count` elements made from *first, *++first, …, with one claim for each segment that they touch. `first` is
  /// not advanced beyond the last one: a stream would wait for more, or lose one. Returns how many it has added; fewer:
  /// the queue is closed.
  template <class It>
  std::size_t put_all(It first, std::size_t count) {
    // An iterator or constructor that may take long must not keep sleepers from the elements before.
    constexpr bool is_quick =
        std::contiguous_iterator<It> && std::is_nothrow_constructible_v<T, std::iter_reference_t<It>>;
    std::size_t left = count;
    while (left != 0) {
      const claim mine = claim_slots<false>(left);
      if (mine.home == nullptr) [[unlikely]]
        break;
      const waking at_the_end{items_, is_quick ? mine.count : 0};
      // A coroutine that runs before the end could wait for the rest of the claim.
      [[maybe_unused]] const std::conditional_t<is_quick, nothing, resume_scope> after_all;
      filling here{*this, mine};
      if (left != count) ++first;
      for (;; ++first) {
        ::new (here.storage()) T(*first);
        --left;
        here.publish_next();
        if constexpr (!is_quick) items_.wake(1);
        if (here.left == 0) break;
      }
      if (mine.slot <= pre_link_slot && pre_link_slot < here.slot) pre_link(*mine.home, mine.word);
    }
    return count - left;
  }

  /// Hands the oldest element to `receive`. Polls: the caller will try again at once, so a failed
  /// attempt may pause. False: its thread has other work.
  template <bool Polls = true, class Receive>
  [[gnu::always_inline]] queue_result take(Receive receive) {
    const std::uint64_t h = head_.load(std::memory_order_acquire);  // [Q14] acquire, pairs with [Q13] and [Q30]
    // A consumer that polls leaves the slot's line to the producer that is going to write it.
    // [Q7] seq_cst, pairs with [Q2] and [Q3]: the head is never beyond the tail, so both stood at `h`
    if (long_empty_.load(std::memory_order_relaxed) == h && tail_.load(std::memory_order_seq_cst) == h) {
      return queue_result::blocked;
    }
    return take_from<Polls>(h, std::move(receive));
  }

  /// Whether take() would find nothing: cheaper for a caller that has just found nothing, and looks again.
  bool is_blocked() const noexcept {
    const std::uint64_t h = head_.load(std::memory_order_relaxed);  // relaxed: an older head is behind the tail
    return tail_.load(std::memory_order_seq_cst) == h;              // [Q7] seq_cst, pairs with [Q2] and [Q3]: as above
  }

  /// Hands over a run of ready elements, at most `most`, with one claim. Returns how many; 0: ask take().
  template <class Receive>
  std::size_t take_run(Receive& receive, std::size_t most) noexcept {
    std::uint64_t h = head_.load(std::memory_order_acquire);  // [Q14] acquire, pairs with [Q13] and [Q30]
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
    if (can_skip && g.marks.is_used()) return 0;
    if (!advance(h, h - first + end)) return 0;
    for (std::uint32_t slot = first; slot != end; slot = segment::after(slot)) {
      const emptying here{g, slot, phase};
      receive(g.value(slot));
    }
    return count;
  }

  /// Whether take() may find something: a cheap look of a thread that is about to sleep.
  bool may_take() const noexcept {
    return head_.load(std::memory_order_relaxed) != tail_.load(std::memory_order_relaxed);
  }
  event_count& items() noexcept { return items_; }  // consumers sleep here

  void close() noexcept {
    tail_.fetch_or(word::closed, std::memory_order_seq_cst);  // [Q2]
    items_.wake(event_count::everyone);
  }
  bool is_closed() const noexcept { return word::is_closed(tail_.load(std::memory_order_seq_cst)); }  // [Q7]

  /// Makes room for `elements` elements. Throws std::bad_alloc.
  void reserve(std::size_t elements) {
    if (elements / segment::capacity > word::index_mask) throw std::bad_alloc();
    // The last segment counts half: in its middle the next one is linked.
    for (std::size_t room = segment::before(pre_link_slot); room < elements; room += segment::capacity) {
      segments_.release(segments_.allocate());
    }
  }
  /// Returns the number of bytes in segments that went back to the system.
  std::size_t trim() noexcept { return segments_.trim(); }

  /// The number of elements, counting unfinished enqueues, and void slots behind an element.
  std::size_t approx_size() const noexcept {
    const std::uint64_t h = head_.load(std::memory_order_acquire);  // [Q14]
    const std::uint64_t t = tail_.load(std::memory_order_relaxed);  // relaxed: about this moment
    const std::uint64_t uses = (word::version(t) - word::version(h)) & word::version_mask;
    const std::size_t end = static_cast<std::size_t>(uses) * segment::capacity + segment::before(word::slot(t));
    const std::size_t begin = segment::before(word::slot(h));
    return uses <= word::version_mask / 2 && end > begin ? end - begin - voids_at(h, end - begin) : 0;
  }

 private:
  // --- put -----------------------------------------------------------------------------------------------------------

  /// Slots of one segment that a producer has claimed.
  struct claim {
    segment* home;
    std::uint64_t word;  // the tail before the claim
    std::uint32_t slot;  // the first one
    std::size_t count;
  };

  /// Claims the next free slots of one segment, at most `most`. No home: the queue is closed, unless the claim is for a
  /// value that is `admitted` already. Throws std::bad_alloc, when a segment is needed.
  template <bool Admitted>
  [[gnu::always_inline]] claim claim_slots(std::size_t most) {
    std::uint64_t w = tail_.load(std::memory_order_acquire);  // [Q1] acquire, pairs with [Q3]
    for (;;) {
      const std::uint32_t slot = Admitted ? word::slot(w) : word::open_slot(w);
      if (slot >= segment::slot_count) [[unlikely]] {
        if (!Admitted && word::is_closed(w)) return {nullptr, w, slot, 0};
        advance_tail(w);
        w = tail_.load(std::memory_order_acquire);  // [Q1]
        continue;
      }
      segment& g = segments_.find(word::index(w));
      prefetch_for_write(&g.state(slot));  // both misses, the slot's and the word's, at the same time
      const std::size_t count = most == 1 ? 1 : min_of(most, segment::capacity - segment::before(slot));
      const std::uint32_t end = most == 1 ? segment::after(slot) : segment::after(slot, count);
      // [Q2] seq_cst, pairs with [Q7]: all threads see what one thread does to several queues in one order
      if (tail_.compare_exchange_strong(w, w - slot + end, std::memory_order_seq_cst, std::memory_order_relaxed)) {
        Traits::claimed();
        return {&g, w, slot, count};
      }
      w = after_lost_race<0>(tail_, w);  // [Q1]
    }
  }

  struct backoff_tag {};

  /// Waits after a race for `counter` that another thread has won, who left it at `lost`; returns what it is then.
  template <int Side>
  [[gnu::noinline]] static std::uint64_t after_lost_race(const atomic<std::uint64_t>& counter,
                                                         std::uint64_t lost) noexcept {
    return race_backoff<backoff_tag, Side>::wait(
        lost, Traits::lost_race_pauses, [&] { return counter.load(std::memory_order_acquire); },  // [Q1] or [Q14]
        [](std::uint64_t w) { return word::version(w) * segment::slot_count + word::slot(w); });
  }

  struct nothing {};

  /// Wakes a sleeper for each element when the scope ends, also by an exception.
  struct waking {
    event_count& events;
    const std::size_t elements;
    ~waking() {
      constexpr std::size_t everyone = event_count::everyone;
      if (elements != 0) events.wake(static_cast<std::uint32_t>(min_of(elements, everyone)));
    }
  };

  /// The slots of a claim while they are filled. Those that are not published when the scope ends become void.
  /// Always inline, so that the compiler keeps it in registers.
  struct filling {
    queue_core& queue;
    segment& home;
    const std::uint64_t word;
    std::uint32_t slot;  // the next one
    std::size_t left;

    filling(queue_core& q, const claim& c) noexcept
        : queue(q), home(*c.home), word(c.word), slot(c.slot), left(c.count) {}
    filling(const filling&) = delete;
    filling& operator=(const filling&) = delete;
    [[gnu::always_inline]] ~filling() {
      if (left != 0) [[unlikely]]
        queue.give_up(home, slot, left, word);
    }

    void* storage() noexcept { return home.storage(slot); }

    /// Publishes the value in the next slot. If the slot was skipped, its value moves to a slot claimed anew, and the
    /// rest of the claim is given up: later elements must not overtake this one. Throws std::bad_alloc; the value is
    /// gone then.
    [[gnu::always_inline]] void publish_next() {
      const std::uint32_t filled = std::exchange(slot, segment::after(slot));
      --left;
      if (!queue.publish(home, filled, word)) [[unlikely]] {
        const std::size_t rest = std::exchange(left, 0);
        if (rest != 0) queue.give_up(home, slot, rest, word);
        queue.put_again({&home, word, filled, 1});
      }
    }
  };

  /// False: a consumer has passed over the slot, and the value is still the caller's.
  bool publish(segment& g, std::uint32_t slot, std::uint64_t w) noexcept {
    set_state(g, slot, word::phase(w));
    Traits::published();
    return !can_skip || g.marks.is_kept(slot, word::version(w));
  }

  /// Enqueues the value of a skipped slot again, until it is kept. Throws std::bad_alloc; the value is gone then.
  [[gnu::noinline]] void put_again(claim at) {
    if constexpr (can_skip) {
      for (bool is_kept = false; !is_kept;) {
        at = move_to_new_slot(at);
        is_kept = publish(*at.home, at.slot, at.word);
        if (at.slot == pre_link_slot) pre_link(*at.home, at.word);
      }
    }
  }

  claim move_to_new_slot(const claim& old) {
    const emptying here{*old.home, old.slot, word::phase(old.word)};
    const finding_a_place value{passed_over_};
    const claim at = claim_slots<true>(1);
    ::new (at.home->storage(at.slot)) T(std::move(old.home->value(old.slot)));
    return at;
  }

  /// A value that was passed over. At the end of the scope it has a place, or is gone.
  struct finding_a_place {
    atomic<std::uint32_t>& count;
    // [Q28] release, pairs with [Q29]: the claim of the new place
    ~finding_a_place() { count.fetch_sub(1, std::memory_order_release); }
  };

  // --- take ----------------------------------------------------------------------------------------------------------

  /// take() for a caller that has loaded the head `h`.
  template <bool Polls, class Receive>
  queue_result take_from(std::uint64_t h, Receive receive) {
    for (;;) {
      const std::uint32_t slot = word::slot(h);
      const unsigned phase = word::phase(h);
      segment& g = segments_.find(word::index(h));
      // [Q8] acquire, pairs with [Q6]
      if (slot >= segment::slot_count || g.state(slot).load(std::memory_order_acquire) != phase) {
        // [Q7] seq_cst, pairs with [Q2] and [Q3]: as above
        if (!Polls && tail_.load(std::memory_order_seq_cst) == h) return queue_result::blocked;
        if (const queue_result verdict = take_slow(h); verdict != queue_result::done) return verdict;
      } else if (can_skip && !g.marks.is_kept(slot, word::version(h))) [[unlikely]] {
        leave_unused(h);  // a skipped slot, whose value is its producer's
      } else if (advance(h, h - slot + segment::after(slot))) {
        const emptying here{g, slot, phase};
        receive(g.value(slot));
        return queue_result::done;
      } else {
        h = after_lost_race<1>(head_, h);  // [Q14]
        continue;
      }
      h = head_.load(std::memory_order_acquire);  // [Q14] acquire, pairs with [Q13] and [Q30]
    }
  }

  /// A slot whose value is handed over. At the end of the scope the value is destroyed and the slot done, also when the
  /// receiver throws.
  struct emptying {
    segment& home;
    const std::uint32_t slot;
    const unsigned phase;
    ~emptying() {
      std::destroy_at(std::addressof(home.value(slot)));
      set_state(home, slot, phase | done);
    }
  };

  using consumer_backoff = detail::consumer_backoff<backoff_tag, 0>;

  /// There is no ready slot at the head `h`. `done`: look again.
  [[gnu::noinline]] queue_result take_slow(const std::uint64_t h) noexcept {
    constexpr queue_result look_again = queue_result::done;
    const std::uint32_t slot = word::slot(h);
    if (slot >= segment::slot_count) {
      if (advance_head(h)) return look_again;
      const std::uint64_t t = tail_.load(std::memory_order_seq_cst);  // [Q7]
      return is_at(h, t) ? verdict_at(t) : look_again;
    }
    segment& g = segments_.find(word::index(h));
    if (head_.load(std::memory_order_relaxed) != h) return look_again;  // relaxed: only whether the view is stale
    if (is_void(h)) {  // also when it was skipped and its value taken back: its skipper may have stopped
      leave_unused(h);
      return look_again;
    }
    if (consumer_backoff::wait_or_watch(
            this, word::version(h) << Traits::slot_bits | slot, consumer_backoff::unbounded,
            [&] { return g.state(slot).load(std::memory_order_relaxed) == word::phase(h); }))
      return look_again;
    // [Q7] seq_cst, pairs with [Q2] and [Q3]
    const std::uint64_t t = tail_.load(std::memory_order_seq_cst);
    if (!is_at(h, t)) {
      pass_over_stalled(g, h);
      return look_again;
    }
    if (!word::is_closed(t) && consumer_backoff::is_long()) {
      long_empty_.store(h, std::memory_order_relaxed);  // relaxed: a hint
    }
    return verdict_at(t);
  }

  /// Whether the head `h` is at the tail `t`: every claimed slot was taken. The head is never beyond the tail.
  static bool is_at(std::uint64_t h, std::uint64_t t) noexcept {
    return word::use(t) == word::use(h) && word::slot(t) <= word::slot(h);
  }

  /// The head is at the tail `t`: the queue is empty, or closed and drained. `done`: look again, since a value that was
  /// passed over has no place yet.
  queue_result verdict_at(const std::uint64_t t) noexcept {
    if (!word::is_closed(t)) return queue_result::blocked;
    if constexpr (can_skip) {
      for (backoff pause;; pause.wait()) {
        // [Q29] acquire, pairs with [Q28]: this thread sees the tail beyond the places that were found
        const bool is_complete = passed_over_.load(std::memory_order_acquire) == 0;
        if (tail_.load(std::memory_order_relaxed) != t) return queue_result::done;  // relaxed: follows [Q29]
        if (is_complete) break;
      }
    }
    return queue_result::closed;
  }

  /// The slot at the head is claimed: waits for its producer and, if it has stalled, moves the head past the slot.
  void pass_over_stalled(segment& g, const std::uint64_t h) noexcept {
    const std::uint32_t slot = word::slot(h);
    const auto is_empty = [&g, slot, phase = word::phase(h)] {
      // [Q32] acquire, pairs with [Q6] and [G15]: a thread that sees a state of a later use also sees that the head has
      // moved. not modelled: see [Q24]
      return ((g.state(slot).load(std::memory_order_acquire) ^ phase) & 1) != 0;
    };
    for (unsigned round = 0; round < patience; ++round) {
      if (!is_empty()) return;
      pause_for(round < 6 ? 1U << round : 64U);
    }
    if constexpr (can_skip) {
      Traits::marking();
      const auto is_at_head = [this, h] {
        const bool is = head_.load(std::memory_order_relaxed) == h;  // relaxed: see [Q24] of skip_marks.hpp, and [Q32]
        Traits::looked();
        return is;
      };
      if (g.marks.decide(slot, word::version(h), segment::slot_count, is_at_head, is_empty, passed_over_,
                         [] { yield_thread(); }) == skip_state::skipped) {
        Traits::passing();
        leave_unused(h);
      }
    } else {
      // relaxed: as in take_slow()
      for (backoff pause; is_empty() && head_.load(std::memory_order_relaxed) == h;) pause.wait();
    }
  }

  /// Moves the head from `h` to `next`. False: another thread has moved it, and `h` is where it is now.
  bool advance(std::uint64_t& h, std::uint64_t next) noexcept {
    // relaxed: publishes nothing, and `h` was acquired; reuse of the segment waits for the done mark [Q6]
    return head_.compare_exchange_strong(h, next, std::memory_order_relaxed, std::memory_order_relaxed);
  }

  /// Moves the head `h` past a void or skipped slot.
  void leave_unused(std::uint64_t h) noexcept {
    const std::uint32_t slot = word::slot(h);
    // [Q30] release, pairs with [Q14]: that passed_over_ counts the slot if it was skipped. not modelled: see [Q26] of
    // skip_marks.hpp
    head_.compare_exchange_strong(h, h - slot + segment::after(slot), std::memory_order_release,
                                  std::memory_order_relaxed);
  }

  // --- states of slots -----------------------------------------------------------------------------------------------

  static void set_state(segment& g, std::uint32_t slot, unsigned value) noexcept {
    // [Q6] release, pairs with [Q8], [Q31], [Q32] and with [G1] of segment_store.hpp: publishes the value, or that this
    // thread has left the slot
    g.state(slot).store(static_cast<std::uint8_t>(value), std::memory_order_release);
  }

  bool is_void(std::uint64_t w) const noexcept {
    // [Q31] acquire, pairs with [Q6]: what passed_over_ counts. not modelled: see [Q26] of skip_marks.hpp
    const unsigned state = segments_.find(word::index(w)).state(word::slot(w)).load(std::memory_order_acquire);
    return (state & 1) == word::phase(w) && (state & (voided | done)) != 0;
  }

  /// Makes `count` claimed slots void. Also moves the head over void slots, so that they do not pile up without
  /// dequeues.
  void give_up(segment& g, std::uint32_t from, std::size_t count, std::uint64_t w) noexcept {
    for (; count != 0; --count, from = segment::after(from)) {
      if constexpr (can_skip) {
        set_state(g, from, word::phase(w) | voided);
        Traits::published();
        // Not done yet: in a later use of the segment, nobody could tell whether the slot was skipped.
        if (!g.marks.is_kept(from, word::version(w))) const finding_a_place none{passed_over_};
      }
      set_state(g, from, word::phase(w) | voided | done);
    }
    for (;;) {
      const std::uint64_t h = head_.load(std::memory_order_acquire);  // [Q14] acquire, pairs with [Q13] and [Q30]
      const std::uint32_t slot = word::slot(h);
      if (slot >= segment::slot_count ? !advance_head(h) : !is_void(h)) return;
      if (slot < segment::slot_count) leave_unused(h);
    }
  }

  /// The number of void slots from the head `h` on, at most `most`. The next dequeue passes over them.
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

  // --- segments ------------------------------------------------------------------------------------------------------

  /// The successor of `g` in the use `w`, made if there is none; 0: the use is over. Throws std::bad_alloc.
  std::uint64_t link(segment& g, std::uint64_t w) {
    std::uint64_t n = g.next.load(std::memory_order_acquire);  // [Q10] acquire, pairs with [Q11]
    if (n == 0 || word::version(n) != word::version(w)) return 0;
    if (word::index(n) != 0) return n;
    segment& fresh = segments_.obtain();
    fresh.next.store(unlinked(word::version(w) + 1), std::memory_order_relaxed);  // relaxed: see [Q11]
    fresh.clean.set(false);
    const std::uint64_t linked = word::make(word::version(w), fresh.phase.get(), fresh.index, 0);
    // [Q11] release, pairs with [Q10]: publishes the fresh segment; failure: receives the other thread's
    if (g.next.compare_exchange_strong(n, linked, std::memory_order_release, std::memory_order_acquire)) return linked;
    fresh.clean.set(true);
    segments_.release(fresh);
    return word::version(n) == word::version(w) ? n : 0;  // 0 also when n is
  }

  /// Links the successor before it is needed. Without memory the first producer that needs it tries again.
  void pre_link(segment& g, std::uint64_t w) noexcept {
    try {
      link(g, w);
    } catch (...) {
    }
  }

  /// The value of `next` in a use until the segment has a successor. Not 0, which discarded pages read as.
  static std::uint64_t unlinked(std::uint64_t version) noexcept { return word::make(version, 0, 0, 1); }

  static std::uint64_t start_of(std::uint64_t link) noexcept {
    return word::make(word::version(link) + 1, word::phase(link), word::index(link), 0);
  }

  /// The tail `w` is at the end of its segment.
  [[gnu::noinline]] void advance_tail(std::uint64_t w) {
    const std::uint64_t n = link(segments_.find(word::index(w)), w);
    if (n == 0) return;
    const std::uint64_t next = start_of(n) | (w & word::closed);
    // [Q3] release, pairs with [Q1] and [Q7]: publishes the segment; failure: another thread did
    tail_.compare_exchange_strong(w, next, std::memory_order_release, std::memory_order_relaxed);
  }

  /// The head `h` is at the end of its segment. False: so is the tail.
  bool advance_head(std::uint64_t h) noexcept {
    // The tail first: a successor that is only linked ahead must not let the head leave the tail's segment.
    // [Q7] seq_cst, pairs with [Q2] and [Q3]
    const std::uint64_t t = tail_.load(std::memory_order_seq_cst);
    if (word::use(t) == word::use(h)) return word::slot(t) != word::slot(h);
    segment& g = segments_.find(word::index(h));
    const std::uint64_t n = g.next.load(std::memory_order_relaxed);  // relaxed: the tail has been there
    if (word::version(n) != word::version(h) || word::index(n) == 0) return true;
    // [Q13] release, pairs with [Q14]: publishes the segment to consumers; only the winner retires the old one
    if (head_.compare_exchange_strong(h, start_of(n), std::memory_order_release, std::memory_order_relaxed)) {
      segments_.release(g);
    }
    return true;
  }

  alignas(no_sharing) atomic<std::uint64_t> tail_{0};  // the next slot to claim; written by producers
  alignas(no_sharing) atomic<std::uint64_t> head_{0};  // the next slot to take; written by consumers
  atomic<std::uint64_t> long_empty_{0};    // a head_ at which a consumer has polled for long: what to look at first
  alignas(no_sharing) event_count items_;  // read by producers, written by sleepers and those that wake them
  atomic<std::uint32_t> passed_over_{0};   // skipped values that have no new place yet
  // mutable: approx_size() finds, and only reads, segments
  alignas(no_sharing) mutable segment_store<segment, Traits::index_bits> segments_;
};

}  // namespace async::inline v0_1::detail
