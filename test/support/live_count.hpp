// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <atomic>  // for atomic

namespace testing {

/// Base of types whose living objects are counted, by type: struct item : live_count<item> { … }; item::live().
template <class T>
class live_count {
 public:
  live_count() noexcept { count.fetch_add(1, std::memory_order_relaxed); }
  live_count(const live_count&) noexcept { count.fetch_add(1, std::memory_order_relaxed); }
  live_count& operator=(const live_count&) noexcept = default;
  ~live_count() { count.fetch_sub(1, std::memory_order_relaxed); }

  static int live() noexcept { return count.load(std::memory_order_relaxed); }

 private:
  static inline std::atomic<int> count{0};
};

}  // namespace testing
