// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "async/detail/base/atomics.hpp"         // for wait_clock
#include "async/detail/base/naps.hpp"            // for sleep_in_naps
#include "async/detail/base/parker.hpp"          // for parker
#include "async/detail/base/would_deadlock.hpp"  // for throw_would_deadlock
#include "async/detail/call/result_waits.hpp"    // for is_in_callback

namespace async::inline v0_1::detail {

/// Throws in a callback of an event loop.
inline void require_thread() {
  if (is_in_callback())
    throw_would_deadlock("async::select: a wait in a callback of an event loop would stop the loop");
}

/// Sleeps until it is woken, at most until `deadline` (null: no limit).
inline void sleep_in_select(parker& self, const wait_clock::time_point* deadline) noexcept {
  static_cast<void>(sleep_in_naps(deadline, [&self](const wait_clock::time_point* until) noexcept {
    if (until != nullptr) return self.park_until(*until);
    self.park();
    return true;
  }));
}

}  // namespace async::inline v0_1::detail
