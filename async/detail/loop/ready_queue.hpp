// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for size_t
#include <cstdint>  // for uint32_t
#include <limits>   // for numeric_limits
#include <new>      // for bad_array_new_length, nothrow

#include "async/detail/base/config.hpp"    // for ASYNCSTEPS_ASSERT
#include "async/detail/base/min_max.hpp"   // for max_of, min_of
#include "async/detail/base/platform.hpp"  // for prefetch_for_write

namespace async::inline v0_1::detail {

/// An object that a loop runs as soon as its turn comes; the base of a flow.
struct runnable {
  using function = void (*)(runnable& self);
  static constexpr std::uint32_t not_queued = (std::numeric_limits<std::uint32_t>::max)();

  explicit runnable(function f) noexcept : run(f) {}
  bool queued() const noexcept { return place != not_queued; }

  function run;
  std::uint32_t place = not_queued;  // for the ready queue
  std::uint32_t user = 0;            // for the derived type; on the cache line that run() is called from
};

/// The runnables of one loop, first in, first out: a ring of pointers that prefetches the next objects.
///
/// It is a ring and not a list because with tens of thousands of runnables the cost is cache misses. A ring knows the
/// addresses of the next objects early, since they do not lie in the objects themselves.
///
/// Batch       the runnables that were there at begin_batch(). More may be pushed, and some erased, while they are
///             popped.
/// Threads     the loop's thread only.
/// Exceptions  only reserve() can fail. Every runnable has reserved its place before it is queued, so push() never
///             fails.
/// Memory      for one runnable a place in the queue itself; for more a ring of 4 places, which doubles as needed.
///             erase() leaves a gap; a full ring with gaps is compacted.
class ready_queue {
 public:
  ready_queue() = default;
  ready_queue(const ready_queue&) = delete;
  ready_queue& operator=(const ready_queue&) = delete;
  ~ready_queue() { free_ring(); }

  /// Makes sure that `count` more runnables can be queued at the same time. Throws std::bad_alloc, changing nothing.
  void reserve(std::size_t count) {
    const std::size_t wanted = reserved_ + count;
    if (wanted > limit_) [[unlikely]]
      grow(wanted);
    reserved_ = static_cast<std::uint32_t>(wanted);
  }

  /// reserve(1) without allocation. False: it would allocate; nothing has changed.
  bool try_reserve() noexcept {
    if (reserved_ == limit_) [[unlikely]]
      return false;
    ++reserved_;
    return true;
  }

  /// Takes back a reserve(). The ring keeps its size until trim().
  void unreserve(std::size_t count) noexcept {
    ASYNCSTEPS_ASSERT(reserved_ >= count);
    reserved_ -= static_cast<std::uint32_t>(count);
  }

  /// The number of places that are reserved.
  std::size_t reserved() const noexcept { return reserved_; }

  /// Appends a runnable that is not queued.
  [[gnu::always_inline]] void push(runnable& r) noexcept {
    ASYNCSTEPS_ASSERT(!r.queued() && reserved_ != 0);
    if (tail_ - head_ == capacity_) [[unlikely]]
      return compact_and_push(r);
    append(r);
  }

  /// Takes a runnable out of the middle. False: it was not queued.
  bool erase(runnable& r) noexcept {
    if (!r.queued()) return false;
    ASYNCSTEPS_ASSERT(ring_[r.place] == &r);
    ring_[r.place] = nullptr;
    r.place = runnable::not_queued;
    return true;
  }

  /// True when nothing is queued. Skips gaps.
  bool empty() noexcept {
    while (head_ != tail_ && ring_[head_ & mask()] == nullptr) {
      ++head_;
      if (batch_ > 1) --batch_;
    }
    return head_ == tail_;
  }

  /// The number of places from the oldest to the newest, gaps included.
  std::uint32_t size() const noexcept { return tail_ - head_; }

  /// Makes the oldest, at most `most`, the batch; returns how many, gaps included. The first one may be popped.
  std::uint32_t begin_batch(std::uint32_t most) noexcept { return batch_ = min_of(size(), most); }
  /// Call after one of the batch has been popped. True: another one may be popped.
  bool next_of_batch() noexcept { return --batch_ != 0; }
  /// While one of the batch runs: the rest is for the next batch.
  void end_batch() noexcept { batch_ = 1; }

  /// Removes the oldest; null: it was a gap. size() is not 0.
  runnable* pop() noexcept {
    runnable* const r = ring_[head_++ & mask()];
    if (const runnable* const later = ring_[(head_ + prefetch_distance) & mask()]; later != nullptr) {
      for (std::size_t line = 0; line != prefetch_lines; ++line) {
        prefetch_for_write(reinterpret_cast<const char*>(later) + line * cache_line);
      }
    }
    if (r != nullptr) r->place = runnable::not_queued;
    return r;
  }

  /// The one that was popped last, which may have gone; null: none was, or it was a gap.
  const runnable* last() const noexcept { return ring_ != nullptr ? ring_[(head_ - 1) & mask()] : nullptr; }

  /// Drops all that is queued, the rest of the batch included, and touches nothing of it.
  void forget() noexcept {
    head_ = tail_;
    batch_ = 1;
  }

  /// Frees the memory beyond the reserved places; returns the number of bytes. Keeps the ring if there is no memory for
  /// a smaller one.
  std::size_t trim() noexcept {
    if (!empty() || capacity_ <= 1) return 0;
    std::uint32_t smaller = reserved_ <= 1 ? 1 : minimum;
    while (reserved_ > limit(smaller)) smaller *= 2;
    if (smaller == capacity_) return 0;
    runnable** const ring = smaller == 1 ? &only_place_ : new (std::nothrow) runnable* [smaller] {};
    if (ring == nullptr) return 0;
    const std::size_t freed = (capacity_ - (smaller == 1 ? 0 : smaller)) * sizeof(runnable*);
    use(ring, smaller);
    head_ = tail_ = 0;
    return freed;
  }

 private:
  static constexpr std::uint32_t minimum = 4;
  static constexpr std::uint32_t prefetch_distance = 3;  // after the one that pop() returns
  static constexpr std::size_t prefetch_lines = 5;       // a flow with the step that it waits in

  /// The number of reserved runnables that a ring serves. The remaining sixteenth bounds the cost of compaction, which
  /// a ring of less than 16 places does not need.
  static constexpr std::size_t limit(std::size_t capacity) noexcept { return capacity - capacity / 16; }
  std::uint32_t mask() const noexcept { return capacity_ - 1; }

  /// Call before all gaps are removed.
  void forget_gaps_of_batch() noexcept {
    const std::uint32_t left = min_of(batch_ == 0 ? 0 : batch_ - 1, size());
    for (std::uint32_t at = head_, end = head_ + left; at != end; ++at) {
      if (ring_[at & mask()] == nullptr) --batch_;
    }
  }

  void grow(std::size_t wanted);
  void use(runnable** ring, std::uint32_t capacity) noexcept {
    free_ring();
    ring_ = ring;
    capacity_ = capacity;
    limit_ = static_cast<std::uint32_t>(limit(capacity));
  }
  void free_ring() const noexcept {
    if (ring_ != &only_place_) delete[] ring_;
  }

  [[gnu::always_inline]] void append(runnable& r) noexcept {
    const std::uint32_t place = tail_++ & mask();
    ring_[place] = &r;
    r.place = place;
  }
  void compact() noexcept;
  [[gnu::noinline]] void compact_and_push(runnable& r) noexcept {
    compact();
    append(r);
  }

  runnable** ring_ = nullptr;  // an entry outside [head_, tail_) is stale: only ever prefetched
  runnable* only_place_ = nullptr;
  std::uint32_t capacity_ = 0;  // a power of two, or 0
  std::uint32_t head_ = 0;      // running positions; masked, they are places
  std::uint32_t tail_ = 0;
  std::uint32_t batch_ = 0;  // remaining places of the batch, and that of the runnable popped last
  std::uint32_t reserved_ = 0;
  std::uint32_t limit_ = 0;  // limit(capacity_)
};

#if ASYNCSTEPS_DEFINED
[[gnu::noinline]] ASYNCSTEPS_FUNCTION void ready_queue::grow(std::size_t wanted) {
  std::size_t larger = wanted <= 1 ? 1 : max_of(std::size_t{capacity_} * 2, std::size_t{minimum});
  while (wanted > limit(larger)) larger *= 2;
  if (larger > (std::size_t{1} << 31)) throw std::bad_array_new_length();
  runnable** const ring = larger == 1 ? &only_place_ : new runnable* [larger] {};
  std::uint32_t count = 0;
  forget_gaps_of_batch();
  for (; head_ != tail_; ++head_) {
    runnable* const r = ring_[head_ & mask()];
    if (r == nullptr) continue;
    ring[count] = r;
    r->place = count++;
  }
  use(ring, static_cast<std::uint32_t>(larger));
  head_ = 0;
  tail_ = count;
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION void ready_queue::compact() noexcept {
  std::uint32_t to = head_;
  forget_gaps_of_batch();
  for (std::uint32_t from = head_; from != tail_; ++from) {
    runnable* const r = ring_[from & mask()];
    if (r == nullptr) continue;
    ring_[to & mask()] = r;
    r->place = to++ & mask();
  }
  tail_ = to;
  ASYNCSTEPS_ASSERT(tail_ - head_ < capacity_);  // else a runnable was pushed without a reserved place
}
#endif

}  // namespace async::inline v0_1::detail
