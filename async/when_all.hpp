// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <array>        // for array
#include <cstddef>      // for size_t
#include <future>       // for future_errc
#include <iterator>     // for input_iterator, iter_value_t
#include <memory>       // for addressof
#include <tuple>        // for tuple, forward_as_tuple
#include <type_traits>  // for decay_t, is_lvalue_reference_v
#include <utility>      // for forward, move
#include <vector>       // for vector

#include "async/detail/base/future_errors.hpp"  // for throw_future_error
#include "async/detail/base/never.hpp"          // for never
#include "async/detail/call/call_result.hpp"    // for make_state
#include "async/detail/call/future_access.hpp"  // for future_access, is_own_future, is_unique_future, is_shared_future
#include "async/detail/call/when_result.hpp"    // for when_all_state, when_any_state, state_of, count_of
#include "async/future.hpp"                     // for future, make_ready_future

namespace async::inline v0_1 {

/// The result of when_any(): the futures, and the index of one that is ready; -1 (as std::size_t) if there are none.
template <class Sequence>
struct when_any_result {
  std::size_t index;  ///< of a future that is ready
  Sequence futures;   ///< all futures, in their order
};

namespace detail {

template <class F>
inline constexpr bool is_given_away = !is_unique_future<std::decay_t<F>> || !std::is_lvalue_reference_v<F>;

template <class Sequence>
void require_states(const Sequence& all) {
  for (std::size_t i = 0; i != count_of(all); ++i) {
    if (state_of(all, i) == nullptr) throw_future_error(std::future_errc::no_state);
  }
}
/// The sequence is made from `futures` when nothing can fail any more.
template <class Sequence, class From>
future<Sequence> all_of(From&& futures) {
  detail::require_states(futures);
  auto* const state = make_state<when_all_state<Sequence>>(std::forward<From>(futures));
  future<Sequence> made = future_access::make<Sequence>(state);
  state->begin();
  return made;
}
/// The same.
template <class Sequence, class From>
future<when_any_result<Sequence>> any_of(From&& futures) {
  detail::require_states(futures);
  using found = when_any_result<Sequence>;
  auto* const state = make_state<when_any_state<found, Sequence>>(std::forward<From>(futures));
  future<found> made = future_access::make<found>(state);
  state->begin();
  return made;
}
/// Throws std::future_error (no_state) for a future that is named twice, and is given away.
template <class... F>
void require_each_once(F&&... futures) {
  const std::array<const void*, sizeof...(F)> at{std::addressof(futures)...};
  const std::array<bool, sizeof...(F)> is_given{!std::is_lvalue_reference_v<F>...};
  for (std::size_t i = 0; i != at.size(); ++i) {
    for (std::size_t k = 0; k != i; ++k) {
      if (at[i] == at[k] && (is_given[i] || is_given[k])) throw_future_error(std::future_errc::no_state);
    }
  }
}
template <class It>
auto gathered(It first, It last) {
  std::vector<std::iter_value_t<It>> all;
  for (; first != last; ++first) {
    if constexpr (is_unique_future<std::iter_value_t<It>>) {
      all.push_back(std::move(*first));
    } else {
      all.push_back(*first);
    }
  }
  return all;
}

}  // namespace detail

/// A future that is ready when all of these are: a std::tuple of them, each ready, with its value or exception.
///
///   async::future<std::tuple<async::future<int>, async::future<std::string>>> both =
///       async::when_all(pool.post(count), pool.post(read));
///
/// Use it to go on after several results, with then(), co_await or asi.await(). Do not use it in place of a loop that
/// calls get() for each, where a thread waits anyway.
///
/// Takes       futures of this library: a future as an rvalue, a shared_future also as an lvalue, which is copied.
/// Cancel      cancel() of the returned future, before it is ready, breaks it and drops these futures. So does its end,
///             if nothing else waits for it. The calls go on. Shared futures that live long keep nothing of it.
/// Threads     any. No thread waits meanwhile.
/// Exceptions  std::bad_alloc, and std::future_error (no_state) for a future without a state; nothing has been taken
///             then, except from a range of iterators.
/// Memory      one recycled block, and that of the vector.
template <class... F>
  requires(detail::is_own_future<std::decay_t<F>> && ...)
future<std::tuple<std::decay_t<F>...>> when_all(F&&... futures) {
  static_assert((detail::is_given_away<F> && ...), "when_all() takes the futures away: write std::move(future)");
  if constexpr (sizeof...(F) == 0) {
    return make_ready_future(std::tuple<>());
  } else if constexpr ((detail::is_given_away<F> && ...)) {
    detail::require_each_once(std::forward<F>(futures)...);
    return detail::all_of<std::tuple<std::decay_t<F>...>>(std::forward_as_tuple(std::forward<F>(futures)...));
  }
}
/// The same for any number of futures of a type: a std::vector of them.
template <class F>
  requires detail::is_own_future<F>
future<std::vector<F>> when_all(std::vector<F>&& futures) {
  return detail::all_of<std::vector<F>>(std::move(futures));
}
template <class F>
  requires detail::is_shared_future<F>
future<std::vector<F>> when_all(const std::vector<F>& futures) {
  return detail::all_of<std::vector<F>>(std::vector<F>(futures));
}
/// Refused: when_all() takes the futures away.
template <class F>
  requires detail::is_unique_future<F>
future<std::vector<F>> when_all(const std::vector<F>&) {
  static_assert(detail::never<F>, "when_all() takes the futures away: write std::move(futures)");
  return {};
}
/// The same for those between two iterators. Futures are moved from, shared ones copied.
template <std::input_iterator It>
  requires detail::is_own_future<std::iter_value_t<It>>
future<std::vector<std::iter_value_t<It>>> when_all(It first, It last) {
  return detail::all_of<std::vector<std::iter_value_t<It>>>(detail::gathered(first, last));
}

/// A future that is ready when one of these is: all of them, and the index of one that is ready.
///
///   auto first = async::when_any(pool.post(ask, near), pool.post(ask, far)).get();
///   if (first.index == 0) std::get<1>(first.futures).cancel();
///
/// The others go on, and can be waited for, or cancelled. Everything else is as with when_all().
template <class... F>
  requires(detail::is_own_future<std::decay_t<F>> && ...)
future<when_any_result<std::tuple<std::decay_t<F>...>>> when_any(F&&... futures) {
  static_assert((detail::is_given_away<F> && ...), "when_any() takes the futures away: write std::move(future)");
  if constexpr (sizeof...(F) == 0) {
    return make_ready_future(when_any_result<std::tuple<>>{static_cast<std::size_t>(-1), {}});
  } else if constexpr ((detail::is_given_away<F> && ...)) {
    detail::require_each_once(std::forward<F>(futures)...);
    return detail::any_of<std::tuple<std::decay_t<F>...>>(std::forward_as_tuple(std::forward<F>(futures)...));
  }
}
/// The same for any number of futures of a type.
template <class F>
  requires detail::is_own_future<F>
future<when_any_result<std::vector<F>>> when_any(std::vector<F>&& futures) {
  return detail::any_of<std::vector<F>>(std::move(futures));
}
template <class F>
  requires detail::is_shared_future<F>
future<when_any_result<std::vector<F>>> when_any(const std::vector<F>& futures) {
  return detail::any_of<std::vector<F>>(std::vector<F>(futures));
}
/// Refused: when_any() takes the futures away.
template <class F>
  requires detail::is_unique_future<F>
future<when_any_result<std::vector<F>>> when_any(const std::vector<F>&) {
  static_assert(detail::never<F>, "when_any() takes the futures away: write std::move(futures)");
  return {};
}
/// The same for those between two iterators.
template <std::input_iterator It>
  requires detail::is_own_future<std::iter_value_t<It>>
future<when_any_result<std::vector<std::iter_value_t<It>>>> when_any(It first, It last) {
  return detail::any_of<std::vector<std::iter_value_t<It>>>(detail::gathered(first, last));
}

}  // namespace async::inline v0_1
