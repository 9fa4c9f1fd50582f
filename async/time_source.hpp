// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "async/detail/base/atomics.hpp"  // for wait_clock

namespace async {

/// Where a loop takes its time from. The default is the steady clock; see manual_clock for virtual time.
struct time_source {
  using time_point = detail::wait_clock::time_point;  ///< a moment of the steady clock

  /// The time, which never goes back; null: the steady clock. By any thread that uses the loop.
  time_point (*now)(void* self) noexcept = nullptr;
  /// What run() does instead of sleeping until a timer is due: moves the time there. Null: run() sleeps, as long by the
  /// steady clock.
  void (*skip_to)(void* self, time_point until) noexcept = nullptr;
  void* self = nullptr;  ///< what both are called with
};

}  // namespace async
