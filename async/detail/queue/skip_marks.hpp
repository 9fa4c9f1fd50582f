// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint32_t, uint64_t
#include <new>      // for nothrow

#include "async/detail/base/atomics.hpp"  // for atomic, light_fence, heavy_fence

namespace async::inline v0_1::detail {

/// The agreement of the consumers and the producer of a slot about it, in one use of its segment.
enum class skip_state : unsigned {
  unmarked,  // no consumer has given up waiting for the producer
  pending,   // a consumer is about to pass over the slot
  skipped,   // final: the head passes over the slot; its producer keeps the value and enqueues it again
  kept,      // final: the producer was in time
};

/// The marks by which a consumer passes over a stalled producer. One for each segment.
///
/// A producer that stops between claim and publish would hide all elements behind it. A consumer that has waited long
/// enough marks the slot and looks once more; a producer looks for a mark after it has published:
///
///   state     step                                                             next state
///   unmarked  consumer: waited in vain, slot still at the head                 pending, then a heavy fence
///   pending   consumer: slot still empty after the fence                       skipped
///   pending   anyone: slot published (producers look behind a light fence)     kept
///
/// By the two fences either the consumer sees the value, or the producer sees the mark. The mark is one word, so that
/// all threads agree on the verdict. A skipped producer has not returned from its call, so its place in the order is
/// still free: it moves its value to a slot claimed anew.
///
/// Words       marks_[slot]: [ version | skip_state:2 ]. A mark of another version counts as unmarked, so that none is
///             taken for one of a later use. used_: not 0 if a slot of this use may have been marked.
/// Memory      8 bytes a slot, allocated when a segment's first slot is marked, and kept until destruction.
/// Trimming    segment_store::trim() discards the pages of these members. It calls close() first, which fails if there
///             is an array, and else turns away arrays that late consumers allocate. reopen() admits them again. The
///             discarded members read as 0: no array, not used. That is right for slots that are done.
/// Progress    lock-free, apart from the memory allocator.
class skip_marks {
 public:
  skip_marks() = default;
  skip_marks(const skip_marks&) = delete;
  skip_marks& operator=(const skip_marks&) = delete;
  ~skip_marks() {
    // relaxed: no other thread is left
    if (atomic<std::uint64_t>* const all = marks_.load(std::memory_order_relaxed); all != closed()) free_marks(all);
  }

  /// Starts another use; the caller has the segment to itself.
  void reset() noexcept { used_.store(0, std::memory_order_relaxed); }  // relaxed: published with the segment

  /// Refuses arrays of marks until reopen(). False: there is one. The caller has the segment to itself, but late
  /// consumers may be about to mark a slot.
  bool close() noexcept {
    atomic<std::uint64_t>* expected = nullptr;
    // relaxed: the word itself decides. A late consumer has brought an array before, or brings none
    return marks_.compare_exchange_strong(expected, closed(), std::memory_order_relaxed) || expected == closed();
  }
  /// Starts another use after close(), whether the members have been discarded meanwhile or not.
  void reopen() noexcept {
    atomic<std::uint64_t>* expected = closed();
    marks_.compare_exchange_strong(expected, nullptr, std::memory_order_relaxed);  // relaxed: as in close()
    reset();
  }
  /// The effect of discarding the members, on a model checker's memory.
  void forget() noexcept {
    used_.store(0, std::memory_order_relaxed);  // relaxed, both: see close()
    marks_.store(nullptr, std::memory_order_relaxed);
  }

  /// Whether a slot of this use may have been marked. Called between a slot's state and its mark: by a producer that
  /// has published, and by a consumer that sees the slot ready. Without the fence a consumer could see the element of a
  /// producer that another consumer has skipped, and not see the mark.
  [[gnu::always_inline]] bool is_used() const noexcept {
    light_fence();                                      // pairs with the heavy fence of decide()
    return used_.load(std::memory_order_relaxed) != 0;  // relaxed: fenced
  }

  /// The verdict on a published slot, which settles a pending mark. False: the slot was skipped.
  [[gnu::always_inline]] bool is_kept(std::uint32_t slot, std::uint64_t version) noexcept {
    return !is_used() || keep(slot, version);
  }

  /// Marks an empty slot at the head of the queue, one of `count` in the segment, and decides about it. `unmarked`: the
  /// head has moved, or another consumer marks the slot; look again. `passed_over` counts the slots that were skipped.
  /// It may briefly count a slot that is then kept. Calls no_memory() if there is no memory for marks.
  template <class IsAtHead, class IsEmpty, class NoMemory>
  skip_state decide(std::uint32_t slot, std::uint64_t version, std::uint32_t count, IsAtHead is_at_head,
                    IsEmpty is_empty, atomic<std::uint32_t>& passed_over, NoMemory no_memory) noexcept {
    atomic<std::uint64_t>* const all = allocate(count);
    if (all == nullptr) {
      no_memory();
      return skip_state::unmarked;
    }
    atomic<std::uint64_t>& mark = all[slot];
    // [Q24] acquire, pairs with [Q25]: a thread that sees a mark of a later use also sees that the head has left this
    // one. not modelled: takes a segment's reuse within one call; test/unit/async/queue_stops.cpp stops a thread here
    std::uint64_t seen = mark.load(std::memory_order_acquire);
    if (!is_at_head()) return skip_state::unmarked;
    if (state_in(seen, version) == skip_state::unmarked) {
      const std::uint64_t pending = make(version, skip_state::pending);
      // [Q25] release, pairs with [Q24]; failure: another consumer was faster. not modelled: see [Q24]
      if (!mark.compare_exchange_strong(seen, pending, std::memory_order_release, std::memory_order_relaxed)) {
        return skip_state::unmarked;
      }
      seen = pending;
    }
    used_.store(1, std::memory_order_relaxed);  // relaxed: fenced
    heavy_fence();                              // pairs with the light fence of is_used()
    // The slot may look empty because the segment is in another use, or trimmed. Then the head has moved, and the mark
    // has a verdict, or else a consumer has taken the value.
    if (!is_empty() || !is_at_head()) {
      settle(mark, seen, version, skip_state::kept);
      return state_in(seen, version);
    }
    passed_over.fetch_add(1, std::memory_order_relaxed);  // relaxed: published by [Q26]
    if (!settle(mark, seen, version, skip_state::skipped)) {
      passed_over.fetch_sub(1, std::memory_order_relaxed);  // relaxed: publishes nothing
    }
    return state_in(seen, version);
  }

 private:
  static std::uint64_t make(std::uint64_t version, skip_state s) noexcept {
    return version << 2 | static_cast<std::uint64_t>(s);
  }
  static skip_state state_in(std::uint64_t mark, std::uint64_t version) noexcept {
    return mark >> 2 == version ? static_cast<skip_state>(mark & 3) : skip_state::unmarked;
  }

  /// Turns `pending` into `verdict`, unless another thread was faster. `seen` becomes the state that all threads agree
  /// on. True: by this thread.
  static bool settle(atomic<std::uint64_t>& mark, std::uint64_t& seen, std::uint64_t version,
                     skip_state verdict) noexcept {
    if (state_in(seen, version) != skip_state::pending) return false;
    const std::uint64_t decided = make(version, verdict);
    // The fences order the mark after the slot's state, and one word holds the one verdict.
    // [Q26] release, pairs with [Q27]: publishes the count of skipped slots. not modelled: the model's fences do
    // [Q27] acquire, pairs with [Q26], on failure. not modelled: see [Q26]
    if (!mark.compare_exchange_strong(seen, decided, std::memory_order_release, std::memory_order_acquire))
      return false;
    seen = decided;
    return true;
  }

  /// Stands for an array while the segment is trimmed.
  static atomic<std::uint64_t>* closed() noexcept {
    return reinterpret_cast<atomic<std::uint64_t>*>(alignof(atomic<std::uint64_t>));  // no object is there
  }

  /// Not inline: g++ takes Relacy's operators new and delete, inlined, for a mismatch.
  [[gnu::noinline]] static void free_marks(atomic<std::uint64_t>* all) noexcept { delete[] all; }

  /// The marks of `count` slots. Null: out of memory, or closed.
  [[gnu::noinline]] atomic<std::uint64_t>* allocate(std::uint32_t count) noexcept {
    // [G7] acquire, pairs with [G8]: the zeroed marks. not modelled: an atomic's start is not plain data there
    atomic<std::uint64_t>* expected = marks_.load(std::memory_order_acquire);
    if (expected == closed()) return nullptr;
    if (expected != nullptr) return expected;
    auto* const fresh = new (std::nothrow) atomic<std::uint64_t>[count] {};
    if (fresh == nullptr) return nullptr;
    // [G8] release, pairs with [G7]: publishes the zeroed marks; failure: [G7]. not modelled: see [G7]
    if (marks_.compare_exchange_strong(expected, fresh, std::memory_order_release, std::memory_order_acquire)) {
      return fresh;
    }
    free_marks(fresh);
    return expected != closed() ? expected : nullptr;
  }

  [[gnu::noinline]] bool keep(std::uint32_t slot, std::uint64_t version) noexcept {
    atomic<std::uint64_t>* const all = marks_.load(std::memory_order_acquire);  // [G7], not modelled: see there
    if (all == nullptr || all == closed()) return true;
    std::uint64_t seen = all[slot].load(std::memory_order_acquire);  // [Q27] not modelled: see [Q26]
    return settle(all[slot], seen, version, skip_state::kept) || state_in(seen, version) != skip_state::skipped;
  }

  atomic<std::uint32_t> used_{0};
  atomic<atomic<std::uint64_t>*> marks_{nullptr};
};

}  // namespace async::inline v0_1::detail
