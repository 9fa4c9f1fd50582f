// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint32_t

#include "async/detail/base/atomics.hpp"  // for atomic, wait_on_word, wake_one

namespace async::inline v0_1::detail {

/// Parks one thread: a single permit, given by unpark() and taken by park().
///
/// Use it when one known thread waits for others and re-checks its own condition after each wake-up. Do not use it for
/// several waiting threads (event_count, std::condition_variable).
///
/// Threads     park*: the owning thread only. unpark: any thread.
/// Order       what happened before unpark() is visible after the park() that took its permit.
/// Progress    unpark is wait-free. It takes one system call when the owner sleeps, none otherwise.
/// Lifetime    unpark may still pass the address of the word to the kernel after park() has returned. A wake-up of a
///             dead or reused word is harmless, since every sleeper of this library re-checks. But the memory must not
///             be unmapped while another thread is inside unpark().
class parker {
 public:
  parker() = default;
  parker(const parker&) = delete;
  parker& operator=(const parker&) = delete;

  /// Takes the permit, sleeping until there is one.
  void park() noexcept {
    if (begin()) return;
    do {
      wait_on_word(state_, parked);
    } while (!take_permit());
  }

  /// Takes the permit, sleeping at most until `deadline`. False: there was none in time.
  bool park_until(wait_clock::time_point deadline) noexcept {
    if (begin()) return true;
    bool in_time = true;
    while (in_time) {
      in_time = wait_on_word(state_, parked, &deadline);
      if (take_permit()) return true;
    }
    // [P1] acquire, pairs with [P2]: a permit given between the time-out and this line counts
    return state_.exchange(empty, std::memory_order_acquire) == permit;
  }

  /// Gives the permit and wakes the owner if it sleeps. True: it was asleep. Permits do not add up.
  bool unpark() noexcept {
    // [P2] release, pairs with [P1], [P3] and [P4]: publishes what the owner was woken for
    if (state_.exchange(permit, std::memory_order_release) != parked) return false;
    wake_one(state_);
    return true;
  }

 private:
  // Values of state_; fetch_sub leads from permit to empty and from empty to parked.
  static constexpr std::uint32_t parked = 0xffffffffU;
  static constexpr std::uint32_t empty = 0;
  static constexpr std::uint32_t permit = 1;

  /// Announces the sleep. True: a permit was there and is taken.
  bool begin() noexcept {
    // [P3] acquire, pairs with [P2]
    return state_.fetch_sub(1, std::memory_order_acquire) == permit;
  }

  bool take_permit() noexcept {
    std::uint32_t expected = permit;
    // [P4] acquire, pairs with [P2]; failure is relaxed: nothing was received
    return state_.compare_exchange_strong(expected, empty, std::memory_order_acquire, std::memory_order_relaxed);
  }

  atomic<std::uint32_t> state_{empty};
};

}  // namespace async::inline v0_1::detail
