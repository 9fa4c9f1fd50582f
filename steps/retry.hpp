// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <array>        // for array
#include <cstddef>      // for size_t
#include <limits>       // for numeric_limits
#include <type_traits>  // for decay_t, is_convertible_v, is_invocable_r_v
#include <utility>      // for forward

#include "async/detail/base/chrono.hpp"  // for nanoseconds, milliseconds, seconds
#include "steps/errors.hpp"              // for ErrorCode

namespace steps::inline v0_1 {

namespace detail {

/// The filter of a Retry without one.
struct any_error {
  constexpr bool operator()(ErrorCode) const noexcept { return true; }
};

/// The filter of Retry::on().
template <std::size_t N>
struct one_of {
  std::array<ErrorCode, N> codes;

  constexpr bool operator()(ErrorCode code) const noexcept {
    for (const ErrorCode each : codes) {
      if (each == code) return true;
    }
    return false;
  }
};

template <class Filter>
struct filtered_retry;

}  // namespace detail

/// How often asi.retry() makes an attempt, how long it waits in between, and after which errors.
///
///   asi.retry({.attempts = 5, .delay = 50ms}, f);
///   asi.retry(steps::Retry{.attempts = 5}.on(steps::errors::Timeout, "Busy"), f);
///
/// The n-th pause lasts delay * factor^(n-1), at most max_delay. The part `jitter` of it is random, so that clients
/// that have failed together do not come back together: a pause of 100 ms with a jitter of 0.5 lasts 50 to 100 ms.
///
/// Use it for operations that may be repeated and that fail now and then: requests, connections. Do not use it for
/// errors that another attempt does not mend: name those that it may, by on() or when().
///
/// Threads     as a plain object; one object may serve many flows.            Exceptions  none.
struct Retry {
  /// attempts for no limit: until success, a filter that says no, a time limit of an enclosing step, or cancel().
  static constexpr std::size_t unlimited = (std::numeric_limits<std::size_t>::max)();

  std::size_t attempts = 3;                                         ///< the first one included; not 0
  std::chrono::nanoseconds delay = std::chrono::milliseconds(100);  ///< the first pause; 0 or less: none
  double factor = 2;                                                ///< from each pause to the next
  std::chrono::nanoseconds max_delay = std::chrono::seconds(10);    ///< no pause is longer
  double jitter = 0.5;                                              ///< the random part, 0 to 1

  /// The same, after errors with these codes only. They are literals or constants, such as those of errors::.
  template <class... Code>
  constexpr auto on(Code&&... codes) const noexcept {
    static_assert(sizeof...(Code) > 0 && (std::is_convertible_v<Code, ErrorCode> && ...),
                  "on() takes error codes: on(steps::errors::Timeout, \"Busy\")");
    static_assert((!std::is_same_v<Code, std::string> && ...),
                  "on() keeps the codes, and a temporary string does not last: pass literals or constants");
    using filter = detail::one_of<sizeof...(Code)>;
    return detail::filtered_retry<filter>{*this, filter{{ErrorCode(std::forward<Code>(codes))...}}};
  }

  /// The same, after errors for which predicate(ErrorCode) is true. It is called on the flow's loop after each failed
  /// attempt but the last. An exception of the predicate takes the error's place, without another attempt, and goes to
  /// the enclosing handlers, not to that of the retry().
  template <class F>
  constexpr auto when(F&& predicate) const {
    static_assert(std::is_invocable_r_v<bool, std::decay_t<F>&, ErrorCode>,
                  "when() takes a predicate that is called as predicate(steps::ErrorCode) and returns bool");
    return detail::filtered_retry<std::decay_t<F>>{*this, std::forward<F>(predicate)};
  }
};

namespace detail {

/// A Retry with a filter.
template <class Filter>
struct filtered_retry {
  Retry policy;
  [[no_unique_address]] Filter filter;
};

}  // namespace detail

}  // namespace steps::inline v0_1
