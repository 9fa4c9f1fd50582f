// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <exception>  // for exception_ptr

#include "async/detail/base/config.hpp"            // for ASYNCSTEPS_DEFINED
#include "async/detail/future/broken_promise.hpp"  // for broken_promise, dropped_call, dropped_promise
#include "async/detail/pool/dropping.hpp"          // for dropping

namespace async::inline v0_1::detail {

/// The exception of a call that is destroyed unmade: dropped_call while a pool discards it, else a broken promise.
std::exception_ptr error_of_unmade() noexcept;

#if ASYNCSTEPS_DEFINED
ASYNCSTEPS_FUNCTION std::exception_ptr error_of_unmade() noexcept {
  return dropping::is_here() ? dropped_promise(dropped_call::reason::stopped) : broken_promise();
}
#endif

}  // namespace async::inline v0_1::detail
