// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for int64_t
#include <limits>   // for numeric_limits

#include "async/detail/base/atomics.hpp"  // for atomic, light_fence, heavy_fence

namespace async::detail {

/// Makes sure that some thread of a pool looks at the clock when the first timer is due, although any worker may be
/// inside a function that blocks.
///
/// A worker that goes to sleep covers the first deadline: it sleeps no longer, unless another sleeper covers it. While
/// other workers fire the timers, it leaves them `slack`. Before a worker runs a function of users it asks
/// is_uncovered(), and wakes a sleeper if so.
///
/// Why no deadline is left alone: a sleeper that wakes calls uncover() (heavy fence), then cover() before it sleeps
/// again, or is_uncovered() before it runs a function. A worker that has published a deadline calls is_uncovered()
/// (light fence). So the sleeper sees the deadline, or the worker sees that the deadline is not covered. Then the
/// worker notifies: the proof in sleepers.hpp shows that a thread which goes to sleep sees the deadline in cover(). The
/// fence of announce() would not do for uncover(): a thread that finds the sleepers watched makes none.
///
/// Units       ticks of the clock.
/// Threads     publish(): one at a time; all others: any.
/// Progress    wait-free.
class deadline_cover {
 public:
  static constexpr std::int64_t never = (std::numeric_limits<std::int64_t>::max)();

  explicit deadline_cover(std::int64_t slack) noexcept : slack_(slack) {}

  /// The first deadline is another one.
  void publish(std::int64_t first) noexcept {
    // relaxed, both: the timers are read under their lock, and the fences order it for is_uncovered()
    if (first_.load(std::memory_order_relaxed) != first) first_.store(first, std::memory_order_relaxed);
  }
  /// The first deadline, or never. Relaxed: a look.
  std::int64_t first() const noexcept { return first_.load(std::memory_order_relaxed); }

  /// By a worker that has announced its sleep: the time up to which it may sleep. never: as long as it likes.
  std::int64_t cover(bool others_fire) noexcept {
    const std::int64_t first = first_.load(std::memory_order_relaxed);  // relaxed: ordered by the announcement
    if (first == never) return never;
    const std::int64_t wanted = others_fire ? first + slack_ : first;
    // relaxed, both: of two workers that cover at a time, one wakes without need
    if (covered_.load(std::memory_order_relaxed) <= wanted) return never;
    covered_.store(wanted, std::memory_order_relaxed);
    return wanted;
  }
  /// By a worker that has woken, with what cover() has returned.
  void uncover(std::int64_t until) noexcept {
    if (until == never) return;
    // relaxed, both: ordered by the fence; a failure means that another worker covers
    covered_.compare_exchange_strong(until, never, std::memory_order_relaxed, std::memory_order_relaxed);
    heavy_fence();  // pairs with the light fence of is_uncovered()
  }
  /// Whether a sleeping worker has to be woken, so that it covers the first deadline.
  bool is_uncovered() const noexcept {
    const std::int64_t first = first_.load(std::memory_order_relaxed);  // relaxed: own, or its publisher asks, too
    if (first == never) [[likely]]
      return false;
    light_fence();                                                     // pairs with the heavy fence of uncover()
    return covered_.load(std::memory_order_relaxed) > first + slack_;  // relaxed: ordered by the fence
  }

 private:
  const std::int64_t slack_;
  atomic<std::int64_t> first_{never};
  atomic<std::int64_t> covered_{never};
};

}  // namespace async::detail
