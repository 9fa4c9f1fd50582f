// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint32_t

#include "async/detail/base/atomics.hpp"  // for atomic
#include "async/detail/base/backoff.hpp"  // for backoff

namespace steps::inline v0_1::detail {

/// Ownership of a flow that waits in a pool's queue for its start. The thread that takes its task binds it to a loop,
/// unless another thread cancels or destroys it before that.
///
///   idle ---queue()---> queued ---take(), hold()---> in_hand ---bind()---> bound
///    ^                    ^                          |  |
///    |                    '-------- put_back() ------'  |
///    '---------------------- cancel() ------------------'
///
/// Words       word_: [ execution:30 | state:2 ]. The number tells the task of one execution from those of cancelled
///             executions, which stay in the queue. A flow that is never queued is bound from the beginning.
/// Threads     prepare(), queue(): the flow's owner. take(), bind(): the task's thread. The others: any.
/// Progress    a thread that finds the flow in the hand of another waits for a few instructions, none of them a user's.
class start_state {
 public:
  enum class held { yes, bound, idle };

  /// The flow is about to be queued, and no other thread sees it execute. executing_flag publishes this.
  void prepare() noexcept {
    // Relaxed, both: no other thread has the flow, nor can it get the flow before queue().
    word_.store((word_.load(std::memory_order_relaxed) & ~state) | idle, std::memory_order_relaxed);
  }
  /// Other threads see the flow execute, and may take it from here on: a thread that cancels one execution may find the
  /// next one. Returns the number for the execution's task.
  std::uint32_t queue() noexcept {
    const std::uint32_t number = (word_.load(std::memory_order_relaxed) >> 2) + 1;  // relaxed: no other has it
    word_.store(number << 2 | queued, std::memory_order_release);  // [E11] release, pairs with [E10]: the flow
    return number & (~std::uint32_t{0} >> 2);
  }

  /// For the task. True: its execution has not been cancelled, and bind() follows.
  bool take(std::uint32_t number) noexcept { return seize(number << 2 | queued, number << 2 | in_hand) == held::yes; }
  /// The flow's loop has been stored.
  void bind() noexcept { put(bound); }

  /// yes: the flow is queued, and belongs to the caller until put_back() or cancel(). bound: its loop may be used.
  /// idle: it has been cancelled.
  held hold() noexcept {
    const std::uint32_t word = word_.load(std::memory_order_acquire);  // [E10]
    if ((word & state) == bound) return held::bound;
    const std::uint32_t number = word & ~state;  // of the present execution only
    return seize(number | queued, number | in_hand);
  }
  /// The flow's loop may be used.
  bool is_bound() const noexcept { return (word_.load(std::memory_order_acquire) & state) == bound; }  // [E10]
  void put_back() noexcept { put(queued); }
  void cancel() noexcept { put(idle); }

 private:
  static constexpr std::uint32_t idle = 0;
  static constexpr std::uint32_t queued = 1;
  static constexpr std::uint32_t in_hand = 2;
  static constexpr std::uint32_t bound = 3;
  static constexpr std::uint32_t state = 3;

  held seize(std::uint32_t from, std::uint32_t to) noexcept {
    for (async::detail::backoff pause;; pause.wait()) {
      std::uint32_t word = from;
      // [E10] acquire, pairs with [E11]: the flow as the last holder left it, its loop when it is bound
      if (word_.compare_exchange_strong(word, to, std::memory_order_acquire, std::memory_order_acquire)) {
        return held::yes;
      }
      if ((word & state) == bound) return held::bound;
      if (word != to) return held::idle;
    }
  }
  void put(std::uint32_t next) noexcept {
    // relaxed, the load: only the holder writes the word
    const std::uint32_t number = word_.load(std::memory_order_relaxed) & ~state;
    word_.store(number | next, std::memory_order_release);  // [E11] release, pairs with [E10]: what the holder did
  }

  async::detail::atomic<std::uint32_t> word_{bound};
};

}  // namespace steps::inline v0_1::detail
