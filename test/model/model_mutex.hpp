// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <atomic>  // for memory_order_acquire, memory_order_release

#include "async/detail/base/atomics.hpp"  // for atomic, yield_thread

namespace model {

/// Replaces std::mutex. Include relacy_runner.hpp first.
class mutex {
 public:
  void lock() noexcept {
    while (taken_.exchange(1, std::memory_order_acquire) != 0) async::detail::yield_thread();
  }
  void unlock() noexcept { taken_.store(0, std::memory_order_release); }

 private:
  async::detail::atomic<unsigned> taken_{0};
};

}  // namespace model
