// SPDX-License-Identifier: BSL-1.0
// floor: 0
#pragma once
#include <cstdio>     // for fprintf
#include <exception>  // for exception_ptr, terminate

namespace async::detail {

/// A callable that gets the exceptions that nobody else takes.
struct unhandled_hook {
  virtual ~unhandled_hook() = default;
  virtual void operator()(std::exception_ptr error) = 0;
};

/// Writes what the exception says, and ends the program.
[[noreturn]] inline void terminate_for(const std::exception_ptr& error) noexcept {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "asyncsteps: unhandled exception: %s\n", e.what());
  } catch (...) {
    std::fprintf(stderr, "asyncsteps: unhandled exception of unknown type\n");
  }
  std::terminate();
}

}  // namespace async::detail
