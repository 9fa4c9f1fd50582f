// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for int64_t
#include <limits>   // for numeric_limits

#include "async/detail/base/atomics.hpp"  // for atomic
#include "async/detail/base/min_max.hpp"  // for min_of

namespace async::inline v0_1::detail {

/// Makes sure that some thread of a pool looks at the clock when the first timer is due, although any worker may be
/// inside a function that blocks.
///
/// A worker that goes to sleep covers the first deadline: it sleeps no longer, unless another sleeper covers it. While
/// other workers fire the timers, it leaves them `slack`. Before a worker runs a function of users it asks
/// is_uncovered(), and wakes a sleeper if so.
///
/// Why no deadline is left alone: a sleeper that wakes calls uncover(), then is_uncovered() before it runs functions of
/// users. A worker that has published a deadline calls is_uncovered(), too, also when its thread ends next. So one of
/// the two sees what the other has stored. The same holds for cover() before the sleeper sleeps again. The fence of
/// announce() would not do: a thread that finds the sleepers watched makes none.
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
    // [DC1] seq_cst, pairs with [DC4]: either this thread sees that the sleeper has woken, or the sleeper sees this.
    // The load is relaxed: stores are under the timers' lock
    if (first_.load(std::memory_order_relaxed) != first) first_.store(first, std::memory_order_seq_cst);
  }
  /// The first deadline, or never. Relaxed: a look.
  std::int64_t first() const noexcept { return first_.load(std::memory_order_relaxed); }

  /// By a worker that has announced its sleep: the time up to which it may sleep. never: as long as it likes.
  std::int64_t cover(bool others_fire) noexcept {
    const std::int64_t first = first_.load(std::memory_order_seq_cst);  // [DC4] seq_cst, pairs with [DC1]
    if (first == never) return never;
    const std::int64_t wanted = others_fire ? with_slack(first) : first;
    // relaxed, both: of two workers that cover at a time, one wakes without need
    if (covered_.load(std::memory_order_relaxed) <= wanted) return never;
    covered_.store(wanted, std::memory_order_relaxed);
    return wanted;
  }
  /// By a worker that has woken, with what cover() has returned.
  void uncover(std::int64_t until) noexcept {
    if (until == never) return;
    // [DC2] seq_cst, pairs with [DC3]: see publish(); failure is relaxed: another worker covers
    covered_.compare_exchange_strong(until, never, std::memory_order_seq_cst, std::memory_order_relaxed);
  }
  /// Whether a sleeping worker has to be woken, so that it covers the first deadline.
  bool is_uncovered() const noexcept {
    const std::int64_t first = first_.load(std::memory_order_seq_cst);  // [DC4] seq_cst, pairs with [DC1]
    if (first == never) [[likely]]
      return false;
    return covered_.load(std::memory_order_seq_cst) > with_slack(first);  // [DC3] seq_cst, pairs with [DC2]
  }

 private:
  std::int64_t with_slack(std::int64_t first) const noexcept { return min_of(first, never - 1 - slack_) + slack_; }

  const std::int64_t slack_;
  atomic<std::int64_t> first_{never};
  atomic<std::int64_t> covered_{never};
};

}  // namespace async::inline v0_1::detail
