// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <system_error>  // for system_error, make_error_code, errc

#include "async/detail/base/atomics.hpp"       // for wait_clock
#include "async/detail/base/naps.hpp"          // for sleep_in_naps
#include "async/detail/base/parker.hpp"        // for parker
#include "async/detail/call/result_waits.hpp"  // for is_in_callback

namespace async::detail {

/// Throws in a callback of an event loop.
inline void require_thread() {
  if (!is_in_callback()) return;
  throw std::system_error(std::make_error_code(std::errc::resource_deadlock_would_occur),
                          "async::select: a wait in a callback of an event loop would stop the loop");
}

/// Sleeps until it is woken, at most until `deadline` (null: no limit).
inline void sleep_in_select(parker& self, const wait_clock::time_point* deadline) noexcept {
  static_cast<void>(sleep_in_naps(deadline, [&self](const wait_clock::time_point* until) noexcept {
    if (until != nullptr) return self.park_until(*until);
    self.park();
    return true;
  }));
}

}  // namespace async::detail
