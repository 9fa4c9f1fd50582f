// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint32_t

#include "async/detail/base/atomics.hpp"  // for atomic

namespace async::inline v0_1::detail {

/// The shared state of a callback, between its loop and its handles: the references, and whether it runs or is
/// cancelled.
///
/// Word        [ references:29 | in_transit | cancelled | claimed ]
/// Invariants  I1 `claimed` and `cancelled` exclude each other; whichever is set first stays.
///             I2 the loop holds a reference until the callback has run, or the loop has learned of the cancellation.
///             I3 a thread that cancels a callback that is not in transit tells the loop. The loop does not end before,
///                so that the thread may use it for that.
/// Threads     claim(), land(), release_on_loop(): the loop's thread. All others: any thread that holds a reference.
class callback_state {
 public:
  enum class cancelled { too_late, tell_the_loop, loop_will_see };

  /// Makes a state with a reference for the loop and `handles` for handles. `in_transit`: it lies in the loop's inbox.
  callback_state(std::uint32_t handles, bool in_transit) noexcept
      : word_((1 + handles) * one | (in_transit ? in_transit_bit : 0)) {}

  /// True until the callback is claimed or cancelled.
  bool pending() const noexcept { return (word_.load(std::memory_order_relaxed) & decided) == 0; }

  /// Claims the callback for the loop, to run or to drop it. False: it is cancelled.
  bool claim() noexcept {
    std::uint32_t word = word_.load(std::memory_order_relaxed);
    if ((word & ~in_transit_bit) == one) return true;  // no handle is left that could cancel it
    do {
      if ((word & cancelled_bit) != 0) return false;
      // Relaxed: all that matters is which of the two comes first, and a word has one order.
    } while (!word_.compare_exchange_weak(word, word | claimed_bit, std::memory_order_relaxed));
    return true;
  }

  /// The loop has taken the callback from its inbox and holds it for later. False: it is cancelled already.
  bool land() noexcept {
    // [L12] release, pairs with [L13]: the message has left the inbox and may be pushed again
    return (word_.fetch_and(~in_transit_bit, std::memory_order_release) & cancelled_bit) == 0;
  }

  /// Cancels the callback, by a handle.
  cancelled cancel() noexcept {
    std::uint32_t word = word_.load(std::memory_order_relaxed);
    do {
      if ((word & decided) != 0) return cancelled::too_late;
      // [L13] acquire, pairs with [L12]; failure is relaxed: only the value is used
    } while (
        !word_.compare_exchange_weak(word, word | cancelled_bit, std::memory_order_acquire, std::memory_order_relaxed));
    return (word & in_transit_bit) != 0 ? cancelled::loop_will_see : cancelled::tell_the_loop;
  }

  void add_ref() noexcept { word_.fetch_add(one, std::memory_order_relaxed); }

  /// Gives a reference back. True: it was the last; the caller destroys the callback.
  bool release() noexcept {
    // [L10] acquire, pairs with [L11]: the last thread sees what the others did
    if (word_.load(std::memory_order_acquire) / one == 1) return true;
    // [L11] acq_rel, pairs with [L10], [L22] and itself
    return word_.fetch_sub(one, std::memory_order_acq_rel) / one == 1;
  }

  /// release() by a handle in a turn of the callback's loop. While the loop's reference is the only other one, no other
  /// thread can touch the word.
  bool release_on_loop() noexcept {
    // [L22] acquire, pairs with [L11]: what released handles did, whose release sequence ends with the store below
    if (word_.load(std::memory_order_acquire) != 2 * one) return release();
    word_.store(one, std::memory_order_relaxed);
    return false;
  }

 private:
  static constexpr std::uint32_t claimed_bit = 1;
  static constexpr std::uint32_t cancelled_bit = 2;
  static constexpr std::uint32_t decided = claimed_bit | cancelled_bit;
  static constexpr std::uint32_t in_transit_bit = 4;
  static constexpr std::uint32_t one = 8;

  atomic<std::uint32_t> word_;
};

}  // namespace async::inline v0_1::detail
