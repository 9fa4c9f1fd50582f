// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <system_error>  // for system_error, make_error_code, errc

namespace async::detail {

/// Throws std::system_error (resource_deadlock_would_occur) with the text `what`.
[[noreturn, gnu::noinline]] inline void throw_would_deadlock(const char* what) {
  throw std::system_error(std::make_error_code(std::errc::resource_deadlock_would_occur), what);
}

}  // namespace async::detail
