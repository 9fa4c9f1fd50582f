// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <chrono>  // for nanoseconds, steady_clock

namespace testing {

/// Keeps the calling thread busy, as a function that computes does.
inline void work_for(std::chrono::nanoseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

}  // namespace testing
