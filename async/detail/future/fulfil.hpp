// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <exception>    // for exception_ptr, current_exception, make_exception_ptr
#include <future>       // for promise, future_error
#include <type_traits>  // for is_void_v
#include <utility>      // for forward, move

#include "async/detail/base/config.hpp"    // for ASYNCSTEPS_DIRECT_PROMISES
#include "async/detail/base/platform.hpp"  // for call_once_may_throw

/// Makes a std::future ready, through a promise that has a single setter.
///
/// std::promise lets several threads try to set it, and throws for all but the first. libstdc++ uses std::call_once for
/// that, and glibc's makes a system call each time, to wake threads that might wait for the once. That takes three
/// quarters of the time of a small task with a future. Promises of this library have one setter and need no once. So
/// with the releases of libstdc++ that config.hpp lists, the result is stored in the shared state as the destructor of
/// std::promise stores its error, without a once. With other libraries the functions of std::promise are called.
namespace async::inline v0_1::detail {

struct sole_setter;

}  // namespace async::inline v0_1::detail

#if ASYNCSTEPS_DIRECT_PROMISES
/// A friend of std::promise and a member of its shared state, like libstdc++'s own setters of this name.
template <class R>
struct std::__future_base::_State_baseV2::_Setter<R, async::detail::sole_setter> {
  /// Constructs the value. If that throws, the promise is as before.
  template <class V>
  static void store(std::promise<R>& promise, V&& value) {
    promise._M_storage->_M_set(std::forward<V>(value));
  }
  static void store_error(std::promise<R>& promise, std::exception_ptr&& error) noexcept {
    promise._M_storage->_M_error = std::move(error);
  }
  static void publish(std::promise<R>& promise) noexcept {
    _State_baseV2& state = *promise._M_future;
    state._M_result = std::move(promise._M_storage);
    // release, pairs with the acquire of std::future's waits: publishes the result
    state._M_status._M_store_notify_all(_Status::__ready, std::memory_order_release);
  }
};
#endif

namespace async::inline v0_1::detail {

#if ASYNCSTEPS_DIRECT_PROMISES
template <class R>
using setter_of = std::__future_base::_State_baseV2::_Setter<R, sole_setter>;
inline constexpr bool fulfil_may_throw = true;
#else
inline constexpr bool fulfil_may_throw = call_once_may_throw;
#endif

/// Gives the promise its value; none for a promise of void. Throws what the value's constructor throws; after that only
/// fail() may follow, and only if fulfil_may_throw.
template <class R, class... V>
void fulfil(std::promise<R>& promise, V&&... value) {
#if ASYNCSTEPS_DIRECT_PROMISES
  if constexpr (!std::is_void_v<R>) setter_of<R>::store(promise, std::forward<V>(value)...);
  setter_of<R>::publish(promise);
#else
  promise.set_value(std::forward<V>(value)...);
#endif
}

template <class R>
void fail(std::promise<R>& promise, std::exception_ptr&& error) {
#if ASYNCSTEPS_DIRECT_PROMISES
  setter_of<R>::store_error(promise, std::move(error));
  setter_of<R>::publish(promise);
#else
  promise.set_exception(std::move(error));
#endif
}

/// The exception of a promise that is given up: std::future_error, or std::bad_alloc without memory for it. (Without
/// memory, libstdc++'s destructor of std::promise ends the program.)
std::exception_ptr broken_promise() noexcept;

/// Like fulfil(), but an exception of the value's constructor becomes the future's. Where the standard library offers
/// no way for that, the future becomes ready when the promise is destroyed, as a broken promise.
template <class R, class V>
void fulfil_or_fail(std::promise<R>& promise, V&& value) noexcept {
  std::exception_ptr error;
  try {
    return fulfil(promise, std::forward<V>(value));
  } catch (...) {
    error = std::current_exception();
  }
  if constexpr (fulfil_may_throw) fail(promise, std::move(error));  // after the catch block, which holds a reference
}

#if ASYNCSTEPS_DEFINED
ASYNCSTEPS_FUNCTION std::exception_ptr broken_promise() noexcept {
  try {
    return std::make_exception_ptr(std::future_error(std::future_errc::broken_promise));
  } catch (...) {
    return std::current_exception();
  }
}
#endif

}  // namespace async::inline v0_1::detail
