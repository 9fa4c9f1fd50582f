// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "async/detail/base/atomics.hpp"  // for atomic
#include "async/detail/base/backoff.hpp"  // for backoff

namespace async::inline v0_1::detail {

/// A lock of one byte, for critical sections of a few instructions. Uncontended it is cheaper than std::mutex: one
/// read-modify-write to lock, a store to unlock. For std::lock_guard, or spin_guard where a call of that would cost
/// more than the lock.
///
/// Threads     any. A waiting thread yields its processor after some microseconds. It naps when that does not help: the
///             owner may have lost its processor to a waiting thread of a higher real-time priority.
class spin_lock {
 public:
  [[gnu::always_inline]] void lock() noexcept {
    // [M1] acquire, pairs with [M2]: what the last owner did
    while (held_.exchange(true, std::memory_order_acquire)) [[unlikely]]
      wait();
  }
  [[gnu::always_inline]] void unlock() noexcept {
    held_.store(false, std::memory_order_release);  // [M2] release, pairs with [M1]: what this owner did
  }
  /// Whether a thread has it. Relaxed: certain only where no other thread can take it or give it back.
  bool is_held() const noexcept { return held_.load(std::memory_order_relaxed); }

 private:
  [[gnu::noinline]] void wait() const noexcept {
    for (backoff pause; held_.load(std::memory_order_relaxed);) pause.wait();  // only a hint
  }

  atomic<bool> held_{false};
};

/// Holds a spin_lock as long as it lives.
class spin_guard {
 public:
  [[gnu::always_inline]] explicit spin_guard(spin_lock& lock) noexcept : lock_(lock) { lock_.lock(); }
  [[gnu::always_inline]] ~spin_guard() { lock_.unlock(); }
  spin_guard(const spin_guard&) = delete;
  spin_guard& operator=(const spin_guard&) = delete;

 private:
  spin_lock& lock_;
};

}  // namespace async::inline v0_1::detail
