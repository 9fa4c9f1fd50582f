// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <exception>  // for exception_ptr, current_exception, make_exception_ptr
#include <future>     // for future_error

#include "async/detail/base/config.hpp"  // for ASYNCSTEPS_DEFINED
#include "async/errors.hpp"              // for dropped_call

namespace async::inline v0_1::detail {

/// The exception of a promise that is given up: std::future_error, or std::bad_alloc without memory for it. (Without
/// memory, libstdc++'s destructor of std::promise ends the program.)
std::exception_ptr broken_promise() noexcept;
/// The same for work that ends without a result, with the reason.
std::exception_ptr dropped_promise(dropped_call::reason why) noexcept;

#if ASYNCSTEPS_DEFINED
ASYNCSTEPS_FUNCTION std::exception_ptr broken_promise() noexcept {
  try {
    return std::make_exception_ptr(std::future_error(std::future_errc::broken_promise));
  } catch (...) {
    return std::current_exception();
  }
}

ASYNCSTEPS_FUNCTION std::exception_ptr dropped_promise(dropped_call::reason why) noexcept {
  try {
    return std::make_exception_ptr(dropped_call(why));
  } catch (...) {
    return std::current_exception();
  }
}
#endif

}  // namespace async::inline v0_1::detail
