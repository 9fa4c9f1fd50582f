// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint32_t

#include "async/detail/base/atomics.hpp"  // for atomic

namespace async::inline v0_1::detail {

/// Counts the references to an object that ends with the last one.
///
/// Threads     any thread that holds a reference.
/// Progress    wait-free.
class reference_count {
 public:
  explicit reference_count(std::uint32_t first = 1) noexcept : count_(first) {}

  /// Adds a reference. The caller holds one, so that the count cannot reach 0 meanwhile.
  void add() noexcept { count_.fetch_add(1, std::memory_order_relaxed); }

  /// Adds a reference unless there is none left. For a caller that keeps the count itself from going.
  bool try_add() noexcept {
    std::uint32_t count = count_.load(std::memory_order_relaxed);
    // relaxed, both: nothing is published, and nothing received
    while (count != 0 &&
           !count_.compare_exchange_weak(count, count + 1, std::memory_order_relaxed, std::memory_order_relaxed)) {
    }
    return count != 0;
  }

  /// Gives a reference back. True: it was the last, and the caller destroys the object.
  bool drop() noexcept {
    // [T7] acq_rel, pairs with itself and [T8]: everything that other holders did happens before the end
    return count_.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }

  /// Whether the caller's reference is the only one, so that no others can be made. Does not give it back.
  bool is_last() const noexcept {
    // [T8] acquire, pairs with [T7]: what other holders did
    return count_.load(std::memory_order_acquire) == 1;
  }

 private:
  atomic<std::uint32_t> count_;
};

}  // namespace async::inline v0_1::detail
