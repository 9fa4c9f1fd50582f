// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <mutex>  // for mutex

#include "async/detail/base/backoff.hpp"  // for backoff

namespace async::inline v0_1::detail {

/// A mutex for critical sections shorter than a sleep and a wake-up: a thread that finds it taken tries again for about
/// a microsecond before it sleeps. For std::lock_guard.
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
    for (backoff pause; !pause.exhausted(0);) {
      pause.wait();
      if (mutex_.try_lock()) return;
    }
    mutex_.lock();
  }

  std::mutex mutex_;
};

}  // namespace async::inline v0_1::detail
