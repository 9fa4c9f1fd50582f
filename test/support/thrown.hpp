// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <future>        // for future_errc, future_error
#include <optional>      // for optional, nullopt
#include <system_error>  // for errc, system_error

#include "async/errors.hpp"  // for dropped_call

namespace testing {

/// True when get() of the future throws a broken promise.
template <class Future>
bool is_broken(Future&& future) {
  try {
    future.get();
  } catch (const std::future_error& error) {
    return error.code() == std::future_errc::broken_promise;
  }
  return false;
}

/// Why the result was dropped, if get() of the future throws that it was.
template <class Future>
std::optional<async::dropped_call::reason> why_dropped(Future&& future) {
  try {
    static_cast<void>(future.get());
  } catch (const async::dropped_call& error) {
    return error.why();
  }
  return std::nullopt;
}

/// True when the call throws that it would deadlock.
template <class F>
bool is_deadlock(F&& f) {
  try {
    f();
  } catch (const std::system_error& error) {
    return error.code() == std::errc::resource_deadlock_would_occur;
  }
  return false;
}

}  // namespace testing
