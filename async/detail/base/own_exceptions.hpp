// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <exception>  // for uncaught_exceptions
#include <utility>    // for exchange

#include "async/detail/base/config.hpp"  // for ASYNCSTEPS_SHARED

namespace async::inline v0_1::detail {

/// The number of exceptions in flight on this thread that do not concern the code that it runs.
ASYNCSTEPS_SHARED inline constinit thread_local int exceptions_outside = 0;

/// While it lives, the calling thread runs tasks inside a wait, or a coroutine that it resumes: perhaps in a destructor
/// during unwinding, which does not concern them.
class own_exceptions {
 public:
  own_exceptions() noexcept : before_(std::exchange(exceptions_outside, std::uncaught_exceptions())) {}
  ~own_exceptions() { exceptions_outside = before_; }
  /// The number of exceptions in flight in the code that this thread runs.
  static int count() noexcept { return std::uncaught_exceptions() - exceptions_outside; }
  own_exceptions(const own_exceptions&) = delete;
  own_exceptions& operator=(const own_exceptions&) = delete;

 private:
  const int before_;
};

}  // namespace async::inline v0_1::detail
