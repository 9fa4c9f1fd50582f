// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint32_t

#include "async/detail/base/atomics.hpp"  // for atomic, yield_thread

namespace steps::detail {

/// Decides who has a flow that waits in a pool's queue for its start: the worker that takes it from there and binds it
/// to its loop, or who cancels or destroys it before that.
///
/// Words       word_: [ execution:30 | state:2 ]. The number tells the task of one execution from those of cancelled
///             ones, which stay in the queue. A flow that is bound stays so, as does one that is never queued.
/// Threads     prepare(), queue(): the flow's owner; take(), bind(): the task's worker; the others: any.
/// Progress    a thread that finds the flow held waits: for a few instructions, none of them a user's.
class start_state {
 public:
  enum class held { yes, bound, idle };

  /// The flow is about to be queued, and not yet seen to execute. Published with what says that it does.
  void prepare() noexcept {
    // Relaxed, both: nobody else has it, nor can get it from here on.
    word_.store((word_.load(std::memory_order_relaxed) & ~state) | idle, std::memory_order_relaxed);
  }
  /// It is seen to execute, and may be had: a thread that cancels an execution may find the next one. Returns the
  /// number for its task.
  std::uint32_t queue() noexcept {
    const std::uint32_t number = (word_.load(std::memory_order_relaxed) >> 2) + 1;  // relaxed: nobody else has it
    word_.store(number << 2 | queued, std::memory_order_release);  // [E11] release, pairs with [E10]: the flow
    return number & (~std::uint32_t{0} >> 2);
  }

  /// By the task: true when its execution has not been cancelled; then bind() follows.
  bool take(std::uint32_t number) noexcept { return seize(number << 2 | queued, number << 2 | in_hand) == held::yes; }
  /// The flow knows its loop.
  void bind() noexcept { put(bound); }

  /// `yes`: the flow is queued, and the caller's until put_back() or cancel(). `bound`: its loop may be used. `idle`:
  /// it has been cancelled.
  held hold() noexcept {
    const std::uint32_t word = word_.load(std::memory_order_acquire);  // [E10]
    if ((word & state) == bound) return held::bound;
    const std::uint32_t number = word & ~state;  // only of the present execution
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
    for (;;) {
      std::uint32_t word = from;
      // [E10] acquire, pairs with [E11]: the flow as the last holder left it, its loop when it is bound
      if (word_.compare_exchange_strong(word, to, std::memory_order_acquire, std::memory_order_acquire)) {
        return held::yes;
      }
      if ((word & state) == bound) return held::bound;
      if (word != to) return held::idle;
      async::detail::yield_thread();
    }
  }
  void put(std::uint32_t next) noexcept {
    // relaxed, the load: only the holder writes it
    const std::uint32_t number = word_.load(std::memory_order_relaxed) & ~state;
    word_.store(number | next, std::memory_order_release);  // [E11] release, pairs with [E10]: what the holder did
  }

  async::detail::atomic<std::uint32_t> word_{bound};
};

}  // namespace steps::detail
