// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint32_t

#include "async/detail/base/atomics.hpp"  // for atomic

namespace async::inline v0_1::detail {

/// Handshake between a coroutine that waits for a queue, the thread that notifies it, and the thread that lets it go
/// on: which of them has the block that they share.
///
/// | transition | from | to | by |
/// |---|---|---|---|
/// | suspend | arming | waiting | the coroutine's thread, as its last access; fails if notified |
/// | again | notified | arming | the same, after a suspend() that has failed |
/// | detach | arming | abandoned | the same: it has a result, and has been chosen |
/// | detach | notified | abandoned | the same; it frees the block |
/// | notify | arming | notified | the notifier, as its last access |
/// | notify | waiting | notified | the notifier; the block is its own, to pass on |
/// | notify | abandoned | notified | the notifier; it frees the block |
/// | claim | notified | arming | the thread that lets the coroutine go on |
/// | claim | abandoned | abandoned | the same; it frees the block |
/// | abandon | waiting, notified | abandoned | the thread that destroys the coroutine, which has been chosen |
/// | abandon | arming | abandoned | the same, after claim; it frees the block |
///
/// Threads     notify(): one call after each choice by the event_count. The others: see above.
/// Progress    wait-free.
class queue_wait_state {
 public:
  /// False: notify() has come.
  bool suspend() noexcept {
    std::uint32_t expected = arming;
    // [QW1] release, pairs with [QW3]: the coroutine has suspended. Acquire on failure, pairs with [QW3]
    return word_.compare_exchange_strong(expected, waiting, std::memory_order_release, std::memory_order_acquire);
  }
  void again() noexcept { word_.store(arming, std::memory_order_relaxed); }  // relaxed: no other thread looks

  /// True: notify() has come, and the caller frees the block.
  bool detach() noexcept {
    // [QW2] acq_rel, pairs with [QW3]: the last access of the side that does not free the block
    return word_.exchange(abandoned, std::memory_order_acq_rel) == notified;
  }

  enum class next : std::uint8_t { nothing, pass_on, free };
  next notify() noexcept {
    // [QW3] acq_rel, pairs with [QW1], [QW2] and [QW5]: releases the block, or receives it
    const std::uint32_t was = word_.exchange(notified, std::memory_order_acq_rel);
    return was == arming ? next::nothing : was == waiting ? next::pass_on : next::free;
  }

  /// False: the coroutine has been destroyed, and the caller frees the block.
  bool claim() noexcept {
    std::uint32_t expected = notified;
    // [QW4] release, pairs with [QW5]: releases the block, which the caller has from the notifier. Acquire on failure,
    // pairs with [QW5]: receives it
    return word_.compare_exchange_strong(expected, arming, std::memory_order_release, std::memory_order_acquire);
  }
  /// True: the block has been claimed, and the caller frees it.
  bool abandon() noexcept {
    // [QW5] acq_rel, pairs with [QW3] and [QW4]: the last access of the side that does not free the block
    return word_.exchange(abandoned, std::memory_order_acq_rel) == arming;
  }

 private:
  enum : std::uint32_t { arming, waiting, notified, abandoned };

  atomic<std::uint32_t> word_{arming};
};

}  // namespace async::inline v0_1::detail
