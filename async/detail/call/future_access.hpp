// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <future>   // for future, shared_future
#include <utility>  // for exchange, forward, move

#include "async/detail/call/result_state.hpp"  // for result

namespace async::inline v0_1 {

template <class T>
class future;
template <class T>
class shared_future;

namespace detail {

template <class T>
inline constexpr bool is_unique_future = false;
template <class T>
inline constexpr bool is_unique_future<future<T>> = true;
template <class T>
inline constexpr bool is_shared_future = false;
template <class T>
inline constexpr bool is_shared_future<shared_future<T>> = true;
/// Whether T is a future of this library.
template <class T>
inline constexpr bool is_own_future = is_unique_future<T> || is_shared_future<T>;

/// The type of the standard library for a future; any other type as it is.
template <class T>
struct standard_type {
  using type = T;
};
template <class T>
struct standard_type<future<T>> {
  using type = std::future<typename standard_type<T>::type>;
};
template <class T>
struct standard_type<shared_future<T>> {
  using type = std::shared_future<typename standard_type<T>::type>;
};

/// The way to the state of a future.
struct future_access {
  template <class Future>
  static auto* state(const Future& f) noexcept {
    return f.state_;
  }
  /// A future with this state, whose reference it takes over.
  template <class T>
  static future<T> make(result<T>* state) noexcept {
    return future<T>(state);
  }
  /// The state with the future's reference, which the caller takes over; null: there is none.
  template <class Future>
    requires is_own_future<Future>
  static auto* take(Future&& f) noexcept {
    return std::exchange(f.state_, nullptr);
  }
  /// then(f), for the only user of `source`: cancel() of what it returns cancels `source`, too.
  template <class T, class F>
  static auto then_of_owner(future<T>&& source, F&& f) {
    using base = typename future<T>::base;
    return base::template continue_with<future<T>, true>(base::no_pool, std::move(source), std::forward<F>(f));
  }
};

}  // namespace detail
}  // namespace async::inline v0_1
