// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for size_t
#include <cstdint>  // for int64_t, uint64_t
#include <utility>  // for move

#include "async/detail/base/atomics.hpp"    // for atomic, wait_clock, light_fence, heavy_fence
#include "async/detail/base/chrono.hpp"     // for milliseconds
#include "async/detail/pool/stand_ins.hpp"  // for stand_ins

namespace async::inline v0_1::detail {

/// The thread that turns a pool's event loops while tasks keep all of its workers. Without it, a flow's time limit or
/// cancel(), a callback or a message would wait for the end of a task.
///
/// A worker that begins a task, or a turn of a loop beside tasks, calls the lookout if no worker is free. On duty, it
/// looks every 10 ms, see lookout_role. It takes no tasks, except those that a step waits for: tasks cannot keep it. In
/// a step that is in a blocking_section, or waits, another lookout takes its place, and ends soon after it has. Off
/// duty, the lookout sleeps until the next call. Its thread starts with the first call, and stays until the pool's end.
///
/// Why a pool whose workers are all inside tasks has a lookout on duty: a worker marks itself as inside a task, light
/// fence, looks whether the lookout is on duty. The lookout goes off duty, heavy fence, looks at the workers once more.
/// So one of the two sees what the other has stored. The same fences stand between a worker and the thread that gives a
/// loop work for the first time. Whether a worker in a turn of a loop sees that another one has begun a task is a
/// guess: it looks again at its next turn.
///
/// `Threads`: stand_ins; models have another one.
///
/// Threads     may_be_missed(), begin_use() and call() any; nap() and rest() by the lookout; close() once.
/// Progress    may_be_missed() and begin_use() are wait-free; the others take a mutex.
template <class Threads>
class basic_lookout {
 public:
  static constexpr std::chrono::milliseconds interval{10};

  /// `after_end`: to be called with `of` when a lookout's thread has ended. It looks whether the pool needs one.
  basic_lookout(void (*after_end)(void* of) noexcept, void* of) noexcept : threads_(after_end, of) {}

  /// By a worker that has marked itself as inside a task, or is about to run a turn. True: none is on duty, and the
  /// pool may need one.
  bool may_be_missed() const noexcept {
    light_fence();  // pairs with the heavy fences of rest(), begin_use(), begin_section(), review_lookout()
    // relaxed: ordered by the fence
    return is_in_use_.load(std::memory_order_relaxed) && !threads_.is_surplus(wanted(), 1);
  }

  /// Whether a loop of the pool has ever had work. Relaxed: begin_use() is called in time.
  bool is_in_use() const noexcept { return is_in_use_.load(std::memory_order_relaxed); }
  /// A loop has work. The caller then looks whether the pool needs a lookout.
  void begin_use() noexcept {
    is_in_use_.store(true, std::memory_order_relaxed);  // relaxed: ordered by the fence
    heavy_fence();                                      // pairs with may_be_missed()'s light fence
  }

  /// A step on the lookout is about to block. The caller then looks whether the pool needs another one. False: there
  /// are too many, and end_section() is not called.
  bool begin_section() noexcept {
    if (blocked_.load(std::memory_order_relaxed) >= most_sections) return false;
    blocked_.fetch_add(1, std::memory_order_relaxed);  // relaxed: ordered by the fence
    heavy_fence();                                     // pairs with may_be_missed()'s light fence
    return true;
  }
  void end_section() noexcept { blocked_.fetch_sub(1, std::memory_order_relaxed); }  // relaxed: seen in time
  /// Whether more lookouts are on duty than the pool needs.
  bool is_surplus() const noexcept { return threads_.is_surplus(wanted()); }

  /// Brings a lookout on duty, on a new thread by body() if there is none. Without effect if one is, or after close().
  /// If a thread cannot be started, the next try comes 100 ms later at the earliest.
  template <class Body>
  void call(Body body) noexcept {
    // relaxed: a limit of useless calls
    const std::int64_t first_try = no_start_before_.load(std::memory_order_relaxed);
    if (first_try != 0 && now() < first_try) return;
    try {
      threads_.call(wanted(), true, std::move(body));
    } catch (...) {
      pause_starts();
    }
  }
  /// A lookout cannot start: the next try comes later.
  void pause_starts() noexcept {
    const std::int64_t pause = std::chrono::duration_cast<wait_clock::duration>(pause_after_failure).count();
    no_start_before_.store(now() + pause, std::memory_order_relaxed);  // relaxed: as in call()
  }

  /// By the lookout: sleeps until its next look. False: the pool ends.
  bool nap() { return threads_.nap(interval); }
  /// By the lookout: goes off duty, and waits; not for long if another one waits. True: it is on duty again, since it
  /// has been called, or since is_needed() after going off duty. False: it has to end.
  template <class IsNeeded>
  bool rest(IsNeeded is_needed) {
    return threads_.rest(Threads::forever, [&is_needed]() noexcept {
      heavy_fence();  // pairs with may_be_missed()'s light fence
      return is_needed();
    });
  }
  /// Ends and joins all, and starts none any more.
  void close() noexcept { threads_.close(); }

  void count_turn() noexcept { turns_.fetch_add(1, std::memory_order_relaxed); }  // relaxed, both: a figure
  std::uint64_t turns() const noexcept { return turns_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::chrono::milliseconds pause_after_failure{100};
  static constexpr std::size_t most_sections = 512;

  static std::int64_t now() noexcept { return std::int64_t{wait_clock::now().time_since_epoch().count()}; }
  /// How many are to be on duty. Relaxed: ordered by the fences, or seen in time.
  std::size_t wanted() const noexcept { return 1 + blocked_.load(std::memory_order_relaxed); }

  atomic<bool> is_in_use_{false};
  Threads threads_;  // one, and one more for each that is blocked
  atomic<std::size_t> blocked_{0};
  atomic<std::int64_t> no_start_before_{0};  // ticks of the clock
  atomic<std::uint64_t> turns_{0};
};

using lookout = basic_lookout<stand_ins>;

}  // namespace async::inline v0_1::detail
