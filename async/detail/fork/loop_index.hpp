// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <concepts>     // for integral, invocable, convertible_to
#include <cstddef>      // for size_t
#include <cstdint>      // for uint64_t
#include <iterator>     // for random_access_iterator, ranges::begin
#include <stdexcept>    // for out_of_range
#include <type_traits>  // for common_type_t, is_class_v, remove_cvref_t
#include <utility>      // for cmp_less, declval, in_range

#include "async/detail/base/never.hpp"  // for never

namespace async::inline v0_1 {

class threadpool;

namespace detail {

// Without <ranges>, which would be a twentieth of what a compiler reads for all of async/.
template <class R>
using range_iterator = decltype(std::ranges::begin(std::declval<R&>()));

template <class R>
concept random_access_range =
    requires(R& range) { std::ranges::end(range); } && std::random_access_iterator<range_iterator<R>>;

}  // namespace detail

/// A range that a loop can run over: one with random access.
template <class R>
concept loop_range = !std::same_as<std::remove_cvref_t<R>, threadpool> && detail::random_access_range<R>;

/// The grain of a loop that chooses the number of calls per run by itself.
inline constexpr std::size_t auto_grain = 0;

/// The index of parallel_for and parallel_reduce: an integer type other than bool, or a random-access iterator.
template <class Index>
concept parallel_index =
    (std::integral<Index> && !std::same_as<Index, bool> && sizeof(Index) <= sizeof(std::uint64_t)) ||
    std::random_access_iterator<Index>;

namespace detail {

/// Called with one index or element.
template <class F, class Index>
concept loop_single_body = (std::random_access_iterator<Index> && std::invocable<F&, std::iter_reference_t<Index>>) ||
                           std::invocable<F&, Index>;

/// Called with the ends of a run of neighbours, unless it can be called with one index or element.
template <class F, class Index>
concept loop_range_body = std::invocable<F&, Index, Index> && !loop_single_body<F, Index>;

}  // namespace detail

/// The body of parallel_for. Called with the integer, with the element or, where that does not compile, with the
/// iterator; or with the two ends of a run.
template <class F, class Index>
concept parallel_body = detail::loop_single_body<F, Index> || detail::loop_range_body<F, Index>;

namespace detail {

/// The ends of a loop in a call that is refused: two integers, or two iterators of one type; no array.
template <class B, class A>
concept other_end = parallel_index<std::remove_cvref_t<A>> && parallel_index<std::remove_cvref_t<B>> &&
                    (std::same_as<std::remove_cvref_t<A>, std::remove_cvref_t<B>> ||
                     (std::integral<std::remove_cvref_t<A>> && std::integral<std::remove_cvref_t<B>>));
template <class A, class B>
using index_of_ends = std::common_type_t<std::remove_cvref_t<A>, std::remove_cvref_t<B>>;

/// A function that stands where the body of a loop does, and is none.
template <class F, class Index>
concept wrong_body = std::is_class_v<F> && requires { &F::operator(); } && !parallel_body<F, Index>;
template <class F>
consteval bool explain_wrong_body() {
  static_assert(never<F>,
                "the body of parallel_for() is called as f(i) with a number, an element or an iterator, or as "
                "f(first, last) with the ends of a run");
  return true;
}

}  // namespace detail

/// A token that can end a loop early, such as std::stop_token. Several threads query it at the same time.
template <class T>
concept loop_token = requires(const T& token) {
  { token.stop_requested() } -> std::convertible_to<bool>;
};

/// The token of a loop that runs to its end.
struct no_token {
  static constexpr bool stop_requested() noexcept { return false; }  ///< never
};

namespace detail {

template <loop_token Token>
bool is_stopped(const Token& token) {
  return static_cast<bool>(token.stop_requested());
}

template <parallel_index Index>
std::uint64_t distance_of(const Index& first, const Index& last) {
  if (!(first < last)) return 0;
  if constexpr (std::integral<Index>) {
    return static_cast<std::uint64_t>(last) - static_cast<std::uint64_t>(first);
  } else {
    return static_cast<std::uint64_t>(last - first);
  }
}

/// Whether a < b, for integers of any two types; a character counts as a number.
template <class A, class B>
constexpr bool is_less(A a, B b) noexcept {
  return std::cmp_less(+a, +b);
}
/// A number in the common type of both. Throws std::out_of_range if it does not fit: below an unsigned one.
template <class Other, class A>
std::common_type_t<A, Other> common_number(A number) {
  using both = std::common_type_t<A, Other>;
  if (!std::in_range<both>(+number)) {
    throw std::out_of_range("async: a loop from a negative number to one of an unsigned type");
  }
  return static_cast<both>(number);
}

/// The index number `at`.
template <class Index>
Index index_at(const Index& first, std::uint64_t at, std::uint64_t step) {
  if constexpr (std::integral<Index>) {
    return static_cast<Index>(static_cast<std::uint64_t>(first) + at * step);
  } else {
    return first + static_cast<std::iter_difference_t<Index>>(at);
  }
}

}  // namespace detail

}  // namespace async::inline v0_1
