// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "async/detail/base/atomics.hpp"  // for wait_clock

namespace async::inline v0_1 {

/// The clock of an event loop. The default is the steady clock; see manual_clock for virtual time.
struct time_source {
  using time_point = detail::wait_clock::time_point;  ///< a time point of the steady clock

  /// Returns the time, which never goes back; null: the steady clock. Called by any thread that uses the loop.
  time_point (*now)(void* self) noexcept = nullptr;
  /// Moves the time to `until`. run() calls it instead of sleeping until a timer is due. Null, or if `now` is
  /// null: run() sleeps for the same time on the steady clock.
  void (*skip_to)(void* self, time_point until) noexcept = nullptr;
  void* self = nullptr;  ///< the argument of both functions
};

}  // namespace async::inline v0_1
