// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <atomic>  // for atomic
#include <chrono>  // for milliseconds, steady_clock
#include <thread>  // for yield

namespace testing {

/// Returns once `word` holds something else than `old`. Like word.wait(old), for writers that notify nobody.
template <class T>
void wait_while(const std::atomic<T>& word, T old) noexcept {
  while (word.load(std::memory_order_acquire) == old) std::this_thread::yield();
}

/// Gives what would be wrong some time to happen: returns once it has, or after that time.
inline void linger(const std::atomic<bool>& has_happened) noexcept {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
  while (!has_happened.load(std::memory_order_acquire) && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
}

}  // namespace testing
