// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint32_t

#include "async/detail/base/atomics.hpp"  // for atomic

namespace async::detail {

/// How many refer to something that ends with the last of them.
///
/// Threads     whoever holds a reference.
/// Progress    wait-free.
class reference_count {
 public:
  explicit reference_count(std::uint32_t first = 1) noexcept : count_(first) {}

  /// One more: by whoever holds one, so that the count cannot reach 0 meanwhile.
  void add() noexcept { count_.fetch_add(1, std::memory_order_relaxed); }

  /// Gives one back. True: it was the last, and what is counted is the caller's to destroy.
  bool drop() noexcept {
    // [T7] acq_rel, pairs with itself and [T8]: what the others did happens before the end
    return count_.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }

  /// True: the caller's is the only one, and others cannot be made. Without giving it back.
  bool is_last() const noexcept {
    // [T8] acquire, pairs with [T7]: what the others did
    return count_.load(std::memory_order_acquire) == 1;
  }

  /// Takes back one that nobody else has seen, and that is not the last.
  void undo_add() noexcept { count_.fetch_sub(1, std::memory_order_relaxed); }

  /// Whether there are others than the caller's, at this moment.
  bool has_others() const noexcept { return count_.load(std::memory_order_relaxed) > 1; }

 private:
  atomic<std::uint32_t> count_;
};

}  // namespace async::detail
