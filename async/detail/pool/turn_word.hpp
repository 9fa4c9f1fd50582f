// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint32_t

#include "async/detail/base/atomics.hpp"  // for atomic

namespace async::inline v0_1::detail {

/// The state of a pool's loop: whether it waits in a queue for its next turn, and whether a thread has it for a turn.
///
///   resting ----schedule()----> queued ----begin()----> running ----end()----> resting
///      '--------------------- try_begin() -----------------^  |
///                               queued <---- requeue() -------'  end() has failed, or work is left
///
///   running ----schedule()----> running and queued, which makes end() fail
///
/// So a loop is in at most one queue, one thread has it, and a turn begins after the last schedule(): it sees what the
/// caller of schedule() has brought, even one whose call has changed nothing.
///
/// Threads     schedule(): any. begin(): the thread that has taken the loop from its queue. end(), requeue(): the one
///             that has the loop.
/// Progress    wait-free.
class turn_word {
 public:
  /// To be called after the loop has got work. True: the caller puts the loop into a queue.
  bool schedule() noexcept {
    // [Y1] acq_rel, pairs with [Y2] and [Y3]: publishes the work; later calls that change nothing continue the release
    // sequence. The thread that has had the loop may have unlinked it from a queue; the caller links it into another
    return word_.fetch_or(queued, std::memory_order_acq_rel) == resting;
  }

  /// Begins the turn of a loop that was queued.
  void begin() noexcept {
    // [Y2] acquire, pairs with [Y1] and [Y3]: the work, and what the last thread did in the loop
    word_.exchange(running, std::memory_order_acquire);
  }
  /// Begins a turn of a loop that rests. False: it does not rest.
  bool try_begin() noexcept {
    std::uint32_t expected = resting;
    // [Y2] acquire, pairs with [Y3]; failure is relaxed: nothing is used
    return word_.compare_exchange_strong(expected, running, std::memory_order_acquire, std::memory_order_relaxed);
  }

  /// Lets the loop rest. False: it has been scheduled meanwhile, and requeue() follows.
  bool end() noexcept {
    std::uint32_t expected = running;
    // [Y3] release, pairs with [Y1] and [Y2]: what this thread did in the loop; failure is relaxed: nothing is used
    return word_.compare_exchange_strong(expected, resting, std::memory_order_release, std::memory_order_relaxed);
  }
  /// The caller puts the loop into a queue again.
  void requeue() noexcept {
    // [Y3] release, pairs with [Y2]. An exchange, so that it continues the release sequences of schedule().
    word_.exchange(queued, std::memory_order_release);
  }

  /// Whether a running loop has been scheduled. Relaxed: a look.
  bool is_scheduled() const noexcept { return (word_.load(std::memory_order_relaxed) & queued) != 0; }

 private:
  static constexpr std::uint32_t resting = 0;
  static constexpr std::uint32_t queued = 1;
  static constexpr std::uint32_t running = 2;

  atomic<std::uint32_t> word_{resting};
};

}  // namespace async::inline v0_1::detail
