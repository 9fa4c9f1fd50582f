// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <atomic>   // for atomic
#include <cstdint>  // for uint64_t

namespace testing {

/// Moments of calls on several threads: a call ends before another one starts exactly when its end happens before that
/// start. So the order is right on machines whose processors' clocks differ, too, and on those that reorder stores.
class call_clock {
 public:
  using moment = std::uint64_t;

  /// Calls whose ends are less than this have ended.
  moment start() const noexcept { return ended_.load(std::memory_order_acquire); }  // pairs with end()
  moment end() noexcept { return ended_.fetch_add(1, std::memory_order_acq_rel); }  // pairs with start(), and itself

 private:
  std::atomic<moment> ended_{0};
};

}  // namespace testing
