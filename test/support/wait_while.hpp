// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <atomic>  // for atomic
#include <thread>  // for yield

namespace testing {

/// Returns once `word` holds something else than `old`. Like word.wait(old), for writers that notify nobody.
template <class T>
void wait_while(const std::atomic<T>& word, T old) noexcept {
  while (word.load(std::memory_order_acquire) == old) std::this_thread::yield();
}

}  // namespace testing
