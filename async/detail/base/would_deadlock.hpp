// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <system_error>  // for system_error, make_error_code, errc

#include "async/detail/base/config.hpp"  // for ASYNCSTEPS_FUNCTION

namespace async::inline v0_1::detail {

/// Throws std::system_error (resource_deadlock_would_occur) with the text `what`.
[[noreturn]] void throw_would_deadlock(const char* what);

/// The text of errors where modules share nothing, so that this one does not know what the thread is in.
inline constexpr const char* unknown_here =
    "called in a task or turn that another module runs, with which this one shares no state; see \"Shared libraries\" "
    "in async/README.md";

/// The text of errors where the threads of a pool could not be woken, since modules share nothing.
inline constexpr const char* cannot_wake =
    "the pool is of another module, with which this one shares no state, and whose threads it cannot wake on this "
    "system; see \"Shared libraries\" in async/README.md";

#if ASYNCSTEPS_DEFINED
[[noreturn, gnu::noinline]] ASYNCSTEPS_FUNCTION void throw_would_deadlock(const char* what) {
  throw std::system_error(std::make_error_code(std::errc::resource_deadlock_would_occur), what);
}
#endif

}  // namespace async::inline v0_1::detail
