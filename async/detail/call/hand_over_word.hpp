// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint32_t

#include "async/detail/base/atomics.hpp"  // for atomic
#include "async/detail/base/backoff.hpp"  // for backoff

namespace async::inline v0_1::detail {

/// Keeps the thread that hands a continuation to a pool away from a pool that may be gone. The pool must live until the
/// continuation's result is ready. Others than the pool can make the result ready, too: who cancels the continuation,
/// and a task that waits for it. They close the word first.
///
/// | transition | from | to | by |
/// |---|---|---|---|
/// | begin | open | under way | the thread that hands it over, before it uses the pool; fails if closed |
/// | end | under way | over | the same: it does not use the pool any more, or the pool waits for it |
/// | close | open | closed | a thread that has taken the result; waits while a hand-over is under way |
///
/// Threads     any; begin() and end() by one.
/// Progress    wait-free, except close(), which yields, then naps.
class hand_over_word {
 public:
  /// False: it does not use the pool.
  bool begin() noexcept {
    std::uint32_t expected = open;
    // relaxed: nothing is published
    return word_.compare_exchange_strong(expected, under_way, std::memory_order_relaxed, std::memory_order_relaxed);
  }
  void end() noexcept {
    word_.store(over, std::memory_order_release);  // [K12] release, pairs with [K13]: what it has done in the pool
  }
  void close() noexcept {
    for (backoff pause;; pause.wait()) {
      const std::uint32_t seen = word_.load(std::memory_order_acquire);  // [K13] acquire, pairs with [K12]
      if (seen == over || seen == closed) return;
      std::uint32_t expected = open;
      // relaxed, both: as in begin()
      if (word_.compare_exchange_strong(expected, closed, std::memory_order_relaxed, std::memory_order_relaxed)) return;
    }
  }

 private:
  enum : std::uint32_t { open, under_way, over, closed };

  atomic<std::uint32_t> word_{open};
};

}  // namespace async::inline v0_1::detail
