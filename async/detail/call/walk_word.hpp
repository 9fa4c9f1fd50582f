// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint32_t

#include "async/detail/base/atomics.hpp"  // for atomic
#include "async/detail/base/backoff.hpp"  // for backoff

namespace async::inline v0_1::detail {

/// Says which thread goes on with a walk through several results: it waits for one after the other, by one action. The
/// thread that has added the action, and the one that runs it, may be in it at the same time. The last of them goes on.
///
/// | transition | from | to | by |
/// |---|---|---|---|
/// | leave | walking | waiting | the thread that walks, when it has added the action |
/// | leave | called | walking | the same: false, and it goes on behind the result that it has waited for |
/// | arrive | waiting | walking | the thread that runs the action: it goes on |
/// | arrive | walking | called | the same: the other thread goes on, which may end the walk at once |
/// | arrive | ended | ended | the same: there is nothing to do |
/// | end | walking | ended | the thread that walks |
/// | stop | waiting | ended | another thread; waits while a thread walks |
///
/// Threads     any; stop() by one, once.
/// Progress    wait-free, except stop(), which yields, then naps.
class walk_word {
 public:
  enum class turn { mine, others, over };

  /// False: the caller goes on.
  bool leave() noexcept {
    // [K14] acq_rel, pairs with [K15] and [K17]: release of how far the walk is, acquire of the action
    return word_.fetch_sub(1, std::memory_order_acq_rel) == walking;
  }
  turn arrive() noexcept {
    // [K15] acq_rel, pairs with [K14]: release of the action, which is the other thread's then; acquire of its last
    // look at this word, which this thread may free
    const std::uint32_t before = word_.fetch_add(1, std::memory_order_acq_rel);
    return before == waiting ? turn::mine : before == walking ? turn::others : turn::over;
  }
  void end() noexcept {
    word_.store(ended, std::memory_order_release);  // [K16] release, pairs with [K17]: this thread has left the results
  }
  void stop() noexcept {
    for (backoff pause;; pause.wait()) {
      std::uint32_t expected = waiting;
      // [K17] acquire, both, pairs with [K14] and [K16]: how far the walk is
      if (word_.compare_exchange_strong(expected, ended, std::memory_order_acquire, std::memory_order_acquire) ||
          expected == ended) {
        return;
      }
    }
  }

 private:
  static constexpr std::uint32_t waiting = 0;
  static constexpr std::uint32_t walking = 1;  // and 2: called
  static constexpr std::uint32_t ended = 4;    // and 5: the action has run since

  atomic<std::uint32_t> word_{walking};
};

}  // namespace async::inline v0_1::detail
