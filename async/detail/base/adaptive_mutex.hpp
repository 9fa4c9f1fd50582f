// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <mutex>  // for mutex

#include "async/detail/base/backoff.hpp"  // for backoff, pause_until

namespace async::inline v0_1::detail {

/// A mutex for critical sections shorter than a sleep and a wake-up: a thread that finds it taken tries again for some
/// microseconds before it sleeps. For std::lock_guard.
///
/// Threads     any. A thread that waits longer than those tries sleeps, so an owner that has lost its processor gets it
///             back.
class adaptive_mutex {
 public:
  void lock() {
    if (!mutex_.try_lock()) [[unlikely]]
      wait();
  }
  void unlock() { mutex_.unlock(); }

 private:
  [[gnu::noinline]] void wait() {
    backoff pause;
    const auto taken = [this]() noexcept { return mutex_.try_lock(); };
    if (!pause_until(taken, pause)) mutex_.lock();
  }

  std::mutex mutex_;
};

}  // namespace async::inline v0_1::detail
