// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint32_t

#include "async/detail/base/atomics.hpp"  // for atomic

namespace async::inline v0_1::detail {

/// Handshake between a coroutine that waits for several things, the threads that wake it, and the one among them that
/// lets it go on. The block that they share has a count of references.
///
/// | transition | from | to | by |
/// |---|---|---|---|
/// | suspend | arming | waiting | the coroutine's thread, as its last access; fails if notified |
/// | again | arming, notified | arming | the same, before it looks once more |
/// | notify | any | adds notified | any thread; from waiting, it lets the coroutine go on |
/// | claim | waiting and notified | arming | the thread that lets the coroutine go on; fails if abandoned |
/// | abandon | any | adds abandoned | the thread that destroys the coroutine |
///
/// Progress    wait-free.
class select_wait_state {
 public:
  /// False: notify() has come.
  bool suspend() noexcept {
    std::uint32_t expected = arming;
    // [SW1] release, pairs with [SW3] and [SW4]: the coroutine has suspended, and the thread that let it go on before
    // is done with what it was passed on by. relaxed on failure: again() acquires
    return word_.compare_exchange_strong(expected, waiting, std::memory_order_release, std::memory_order_relaxed);
  }
  void again() noexcept {
    // [SW2] acquire, pairs with [SW3]: a notification that this takes back is seen by the look that follows
    word_.exchange(arming, std::memory_order_acquire);
  }

  /// True: the caller lets the coroutine go on, or passes it on to the thread that does.
  bool notify() noexcept {
    // [SW3] acq_rel, pairs with [SW1], [SW2] and [SW4]: what has changed; receives what the coroutine is passed on by
    return word_.fetch_or(notified, std::memory_order_acq_rel) == waiting;
  }
  /// False: the coroutine has been destroyed.
  bool claim() noexcept {
    std::uint32_t expected = waiting | notified;
    // [SW4] acquire, pairs with [SW1] and [SW3]: the coroutine, and what has changed, by all that have notified it.
    // relaxed on failure: the count of references orders
    return word_.compare_exchange_strong(expected, arming, std::memory_order_acquire, std::memory_order_relaxed);
  }
  /// The coroutine does not wait any more. relaxed: it is destroyed by the thread that would let it go on.
  void abandon() noexcept { word_.fetch_or(abandoned, std::memory_order_relaxed); }

 private:
  enum : std::uint32_t { arming = 0, notified = 1, waiting = 2, abandoned = 4 };

  atomic<std::uint32_t> word_{arming};
};

}  // namespace async::inline v0_1::detail
