// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint32_t, uint64_t
#include <new>      // for nothrow

#include "async/detail/base/atomics.hpp"  // for atomic, light_fence, heavy_fence

namespace async::detail {

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
/// Memory      8 bytes a slot, allocated when a segment's first slot is marked.
/// Progress    lock-free, apart from the memory allocator.
class skip_marks {
 public:
  skip_marks() = default;
  skip_marks(const skip_marks&) = delete;
  skip_marks& operator=(const skip_marks&) = delete;
  ~skip_marks() { delete[] marks_.load(std::memory_order_relaxed); }  // relaxed: no other thread is left

  /// Starts another use; the caller has the segment to itself.
  void reset() noexcept { used_.store(0, std::memory_order_relaxed); }  // relaxed: published with the segment

  /// Whether a slot of this use may have been marked. Called between a slot's state and its mark: by a producer that
  /// has published, and by a consumer that sees the slot ready. Without the fence a consumer could see the element of a
  /// producer that another consumer has skipped, and not see the mark.
  bool is_used() const noexcept {
    light_fence();                                      // pairs with the heavy fence of decide()
    return used_.load(std::memory_order_relaxed) != 0;  // relaxed: fenced
  }

  /// The verdict on a published slot, which settles a pending mark. False: the slot was skipped.
  bool is_kept(std::uint32_t slot, std::uint64_t version) noexcept { return !is_used() || keep(slot, version); }

  /// Makes room for marks of `slots` slots. False: out of memory.
  bool allocate(std::uint32_t slots) noexcept {
    atomic<std::uint64_t>* expected = marks();
    if (expected != nullptr) return true;
    auto* const fresh = new (std::nothrow) atomic<std::uint64_t>[slots] {};
    if (fresh == nullptr) return false;
    // [G8] release, pairs with [G7]: publishes the zeroed marks. not modelled: see [G7]
    if (!marks_.compare_exchange_strong(expected, fresh, std::memory_order_release, std::memory_order_relaxed)) {
      delete[] fresh;
    }
    return true;
  }

  /// Marks an empty slot at the head of the queue and decides about it. `unmarked`: the head has moved, or another
  /// consumer marks the slot; look again. After allocate().
  template <class IsAtHead, class IsEmpty>
  skip_state decide(std::uint32_t slot, std::uint64_t version, IsAtHead is_at_head, IsEmpty is_empty) noexcept {
    atomic<std::uint64_t>& mark = marks()[slot];
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
    const skip_state verdict = is_empty() ? skip_state::skipped : skip_state::kept;
    return settle(mark, seen, version, verdict);
  }

 private:
  static std::uint64_t make(std::uint64_t version, skip_state s) noexcept {
    return version << 2 | static_cast<std::uint64_t>(s);
  }
  static skip_state state_in(std::uint64_t mark, std::uint64_t version) noexcept {
    return mark >> 2 == version ? static_cast<skip_state>(mark & 3) : skip_state::unmarked;
  }

  /// Turns `pending` into `verdict`, unless another thread was faster; the state that all threads agree on.
  static skip_state settle(atomic<std::uint64_t>& mark, std::uint64_t seen, std::uint64_t version,
                           skip_state verdict) noexcept {
    if (state_in(seen, version) != skip_state::pending) return state_in(seen, version);
    // relaxed: the fences order the mark after the slot's state, and one word holds the one verdict
    const bool mine = mark.compare_exchange_strong(seen, make(version, verdict), std::memory_order_relaxed);
    return mine ? verdict : state_in(seen, version);
  }

  [[gnu::noinline]] bool keep(std::uint32_t slot, std::uint64_t version) noexcept {
    atomic<std::uint64_t>* const all = marks();
    if (all == nullptr) return true;
    const std::uint64_t seen = all[slot].load(std::memory_order_relaxed);  // relaxed: fenced by is_used()
    return settle(all[slot], seen, version, skip_state::kept) != skip_state::skipped;
  }

  atomic<std::uint64_t>* marks() const noexcept {
    // [G7] acquire, pairs with [G8]: the zeroed marks. not modelled: an atomic's start is not plain data there
    return marks_.load(std::memory_order_acquire);
  }

  atomic<std::uint32_t> used_{0};
  atomic<atomic<std::uint64_t>*> marks_{nullptr};
};

}  // namespace async::detail
