// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <future>  // for future_errc, future_error

#include "async/detail/base/config.hpp"  // for ASYNCSTEPS_FUNCTION

namespace async::inline v0_1::detail {

/// Throws std::future_error. Apart, since its inlined constructor makes strings.
[[noreturn]] void throw_future_error(std::future_errc why);

#if ASYNCSTEPS_DEFINED
[[noreturn, gnu::noinline]] ASYNCSTEPS_FUNCTION void throw_future_error(std::future_errc why) {
  throw std::future_error(why);
}
#endif

}  // namespace async::inline v0_1::detail
