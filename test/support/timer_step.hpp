// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <chrono>  // for nanoseconds

#include "steps/steps.hpp"  // for IAsyncSteps, ErrorCode

namespace testing {

/// Adds a step that waits for a timer, and succeeds.
inline void add_timer(steps::IAsyncSteps& asi, std::chrono::nanoseconds delay) {
  asi.add(
      [delay](steps::IAsyncSteps& timer) {
        timer.setTimeout(delay);
        timer.waitExternal();
      },
      [](steps::IAsyncSteps& timer, steps::ErrorCode) { timer.success(); });
}

}  // namespace testing
