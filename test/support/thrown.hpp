// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <future>        // for future_errc, future_error
#include <system_error>  // for errc, system_error

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
