// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <concepts>     // for invocable, convertible_to, floating_point, integral, same_as
#include <cstddef>      // for size_t
#include <cstdint>      // for uint64_t
#include <iterator>     // for iter_reference_t, random_access_iterator, ranges::begin, ranges::distance
#include <memory>       // for unique_ptr, make_unique
#include <type_traits>  // for common_type_t, invoke_result_t, is_const_v, is_rvalue_reference_v, is_void_v
#include <utility>      // for forward, move

#include "async/detail/base/invoke.hpp"       // for invoke
#include "async/detail/fork/loop_index.hpp"   // for parallel_index, index_at, distance_of, loop_token
#include "async/detail/fork/split_range.hpp"  // for split_range, loop_habit
#include "async/threadpool.hpp"               // for threadpool

namespace async::inline v0_1 {

namespace detail {

template <class F, class T, class X>
concept returns_nothing = std::invocable<F&, T&, X> && std::is_void_v<std::invoke_result_t<F&, T&, X>>;

/// Whether the first parameter of a callable that is not overloaded is a value or const: what it does with that is
/// lost.
template <class F>
inline constexpr bool takes_copy = false;
template <class A>
inline constexpr bool is_no_outlet = !std::is_reference_v<A> || std::is_const_v<std::remove_reference_t<A>>;
template <class R, class A, class... P>
inline constexpr bool takes_copy<R (*)(A, P...)> = is_no_outlet<A>;
template <class C, class R, class A, class... P>
inline constexpr bool takes_copy<R (C::*)(A, P...)> = is_no_outlet<A>;
template <class C, class R, class A, class... P>
inline constexpr bool takes_copy<R (C::*)(A, P...) const> = is_no_outlet<A>;
template <class F>
  requires requires { &F::operator(); }
inline constexpr bool takes_copy<F> = takes_copy<decltype(&F::operator())>;

/// fold(value, i) or fold(value, *i): returns the new value, or changes `value` in place and returns nothing.
template <class F, class Index, class T>
concept single_fold = (std::random_access_iterator<Index> && std::invocable<F&, T, std::iter_reference_t<Index>>) ||
                      std::invocable<F&, T, Index>;
template <class F, class Index, class T>
concept in_place_fold = (std::random_access_iterator<Index> && returns_nothing<F, T, std::iter_reference_t<Index>>) ||
                        returns_nothing<F, T, Index>;

}  // namespace detail

/// The body of parallel_reduce: f(value, i) for one number or element, which returns the new value or, with `T& value`,
/// nothing; or f(first, last, value) for a run.
template <class F, class Index, class T>
concept reduce_body =
    detail::single_fold<F, Index, T> || detail::in_place_fold<F, Index, T> || std::invocable<F&, Index, Index, T>;

/// The join of parallel_reduce: combines two values.
template <class J, class T>
concept reduce_join = std::invocable<J&, T, T> && std::convertible_to<std::invoke_result_t<J&, T, T>, T>;

namespace detail {

/// Stands for a join that a call lacks.
struct no_join {};

/// Functions that stand where the body and the join of a reduce do, and are none.
template <class Body, class Join, class Index, class T>
concept wrong_reduce = !(reduce_body<Body, Index, T> && reduce_join<Join, T>);
template <class Body, class Join, class Index, class T>
consteval bool explain_wrong_reduce() {
  constexpr bool is_body = reduce_body<Body, Index, T>;
  static_assert(is_body,
                "the body of parallel_reduce() follows the identity. It is called as f(value, x) with a number, an "
                "element or an iterator, or as f(first, last, value) with the ends of a run");
  static_assert(!is_body || !std::same_as<Join, no_join>,
                "parallel_reduce() needs a join behind the body: join(left, right) combines the values of two parts, "
                "as std::plus<>() does");
  static_assert(!is_body || std::same_as<Join, no_join> || reduce_join<Join, T>,
                "the join of parallel_reduce() is called as join(left, right) with two values, and returns one");
  return true;
}

/// A value, or a pointer to a large one: each split of the range puts one on the stack.
template <class T, bool IsLarge = (sizeof(T) > 256)>
class reduce_value {
 public:
  explicit reduce_value(const T& from) : value_(from) {}
  T& get() noexcept { return value_; }

 private:
  T value_;
};
template <class T>
class reduce_value<T, true> {
 public:
  explicit reduce_value(const T& from) : value_(std::make_unique<T>(from)) {}
  T& get() noexcept { return *value_; }

 private:
  std::unique_ptr<T> value_;
};

template <class Index, class T, class Body, class Join>
struct reduce_piece {
  const Index& first;
  const T& identity;
  Body& body;
  Join& both;
  reduce_value<T> value;

  void operator()(std::uint64_t from, std::uint64_t count) {
    T& sum = value.get();
    if constexpr (single_fold<Body, Index, T> || in_place_fold<Body, Index, T>) {
      Index at = detail::index_at(first, from, 1);
      for (std::uint64_t i = 0; i != count; ++i, static_cast<void>(++at)) {
        if constexpr (std::integral<Index>) {
          take(sum, at);
        } else if constexpr (std::invocable<Body&, T, std::iter_reference_t<Index>> ||
                             std::invocable<Body&, T&, std::iter_reference_t<Index>>) {
          take(sum, *at);
        } else {
          take(sum, at);
        }
      }
    } else {
      sum = detail::invoke(body, detail::index_at(first, from, 1), index_at(first, from + count, 1), std::move(sum));
    }
  }
  template <class X>
  void take(T& sum, X&& x) {
    if constexpr (returns_nothing<Body, T, X>) {
      static_assert(!takes_copy<Body>, "a body that returns nothing changes the value: it takes it as T& value");
      detail::invoke(body, sum, std::forward<X>(x));
    } else {
      using result = std::invoke_result_t<Body&, T, X>;
      static_assert(!std::is_rvalue_reference_v<result>, "the body returns the new value, not a reference to it");
      static_assert(!std::integral<T> || !std::floating_point<result>,
                    "the body returns a floating-point value, which an integer would cut: write 0.0, not 0");
      sum = detail::invoke(body, std::move(sum), std::forward<X>(x));
    }
  }
  reduce_piece upper() const { return {first, identity, body, both, reduce_value<T>(identity)}; }
  void join(reduce_piece& upper) {
    value.get() = detail::invoke(both, std::move(value.get()), std::move(upper.value.get()));
  }
};

template <class Index, class T, class Body, class Join>
inline constinit loop_habit reduce_habit_of{};  // one per module: only a hint

// The forms of parallel_reduce(), which own the body and the join.

template <class Index, class T, class Body, class Join, class Token>
T reduce_over(threadpool& pool, const Index& first, const Index& last, const T& identity, Body& body, Join& join,
              std::size_t grain, const Token& token) {
  reduce_piece<Index, T, Body, Join> piece{first, identity, body, join, reduce_value<T>(identity)};
  detail::split_range(pool.core(), distance_of(first, last), grain, reduce_habit_of<Index, T, Body, Join>, piece,
                      [&token] { return is_stopped(token); });
  return std::move(piece.value.get());
}
template <class A, class B, class T, class Body, class Join, class Token>
T reduce_over_common(threadpool& pool, A first, B last, const T& identity, Body& body, Join& join, std::size_t grain,
                     const Token& token) {
  if (!is_less(first, last)) return identity;
  return detail::reduce_over(pool, common_number<B>(first), common_number<A>(last), identity, body, join, grain, token);
}
template <class R, class T, class Body, class Join, class Token>
T reduce_over_range(threadpool& pool, R& range, const T& identity, Body& body, Join& join, std::size_t grain,
                    const Token& token) {
  const auto first = std::ranges::begin(range);
  return detail::reduce_over(pool, first, first + std::ranges::distance(range), identity, body, join, grain, token);
}

}  // namespace detail

/// Reduces [first, last) to one value, in parallel: integers, the elements that iterators point to, or the iterators if
/// `body` takes these. The calling thread begins with a copy of `identity`, and so does each thread that takes a part
/// of the range from another. They add neighbours with `body`, and combine these parts with `join`, in their order.
///
/// Use it for sums, minima, histograms and the like. Do not use it where calls only have an effect (parallel_for).
///
///   long sum = async::parallel_reduce(pool, numbers.begin(), numbers.end(), 0L, std::plus<>(), std::plus<>());
///
/// T           the type of `identity`: 0L for a sum of longs. It should be cheap to move; for a large value choose a
///             body that takes it by reference, or one for runs.
/// `body`      body(value, i) adds one and returns the new value, not a reference; body(T& value, i) adds one in place
///             and returns nothing; body(first, last, value) adds a run and returns the new value.
/// `join`      join(left, right) is associative, need not be commutative, and join(identity, x) is x. How the range is
///             split may differ from run to run, and so may the result of a join that is not quite associative, such as
///             the addition of doubles.
/// Returns     the value; `identity` unless first < last. After a cancellation, a part of the value; the return value
///             does not tell.
/// Everything else is as with parallel_for.
template <parallel_index Index, class T, reduce_body<Index, T> Body, reduce_join<T> Join, loop_token Token = no_token>
T parallel_reduce(threadpool& pool, Index first, Index last, T identity, Body body, Join join,
                  std::size_t grain = auto_grain, const Token& token = {}) {
  return detail::reduce_over(pool, first, last, identity, body, join, grain, token);
}

/// The same for numbers of different types, such as 0 and v.size(), in their common type. Throws std::out_of_range if
/// `first` does not fit in that type.
template <std::integral A, std::integral B, class T, reduce_body<std::common_type_t<A, B>, T> Body, reduce_join<T> Join,
          loop_token Token = no_token>
  requires(parallel_index<A> && parallel_index<B> && !std::same_as<A, B>)
T parallel_reduce(threadpool& pool, A first, B last, T identity, Body body, Join join, std::size_t grain = auto_grain,
                  const Token& token = {}) {
  return detail::reduce_over_common(pool, first, last, identity, body, join, grain, token);
}

/// The same for the elements of a range.
template <loop_range R, class T, reduce_body<detail::range_iterator<R>, T> Body, reduce_join<T> Join,
          loop_token Token = no_token>
T parallel_reduce(threadpool& pool, R&& range, T identity, Body body, Join join, std::size_t grain = auto_grain,
                  const Token& token = {}) {
  return detail::reduce_over_range(pool, range, identity, body, join, grain, token);
}

/// The same on threadpool::shared().
template <parallel_index Index, class T, reduce_body<Index, T> Body, reduce_join<T> Join, loop_token Token = no_token>
T parallel_reduce(Index first, Index last, T identity, Body body, Join join, std::size_t grain = auto_grain,
                  const Token& token = {}) {
  return detail::reduce_over(threadpool::shared(), first, last, identity, body, join, grain, token);
}
template <std::integral A, std::integral B, class T, reduce_body<std::common_type_t<A, B>, T> Body, reduce_join<T> Join,
          loop_token Token = no_token>
  requires(parallel_index<A> && parallel_index<B> && !std::same_as<A, B>)
T parallel_reduce(A first, B last, T identity, Body body, Join join, std::size_t grain = auto_grain,
                  const Token& token = {}) {
  return detail::reduce_over_common(threadpool::shared(), first, last, identity, body, join, grain, token);
}
template <loop_range R, class T, reduce_body<detail::range_iterator<R>, T> Body, reduce_join<T> Join,
          loop_token Token = no_token>
T parallel_reduce(R&& range, T identity, Body body, Join join, std::size_t grain = auto_grain,
                  const Token& token = {}) {
  return detail::reduce_over_range(threadpool::shared(), range, identity, body, join, grain, token);
}

/// Refused: a body or join that cannot be called, and a call without a join.
template <class A, detail::other_end<A> B, class T, class Body, class Join = detail::no_join, class... Rest>
  requires detail::wrong_reduce<Body, Join, detail::index_of_ends<A, B>, T>
T parallel_reduce(threadpool&, A&&, B&&, T identity, Body, Join = {}, Rest...) {
  static_assert(detail::explain_wrong_reduce<Body, Join, detail::index_of_ends<A, B>, T>());
  return identity;
}
template <loop_range R, class T, class Body, class Join = detail::no_join, class... Rest>
  requires detail::wrong_reduce<Body, Join, detail::range_iterator<R>, T>
T parallel_reduce(threadpool&, R&&, T identity, Body, Join = {}, Rest...) {
  static_assert(detail::explain_wrong_reduce<Body, Join, detail::range_iterator<R>, T>());
  return identity;
}
template <class A, detail::other_end<A> B, class T, class Body, class Join = detail::no_join, class... Rest>
  requires detail::wrong_reduce<Body, Join, detail::index_of_ends<A, B>, T>
T parallel_reduce(A&&, B&&, T identity, Body, Join = {}, Rest...) {
  static_assert(detail::explain_wrong_reduce<Body, Join, detail::index_of_ends<A, B>, T>());
  return identity;
}
template <loop_range R, class T, class Body, class Join = detail::no_join, class... Rest>
  requires detail::wrong_reduce<Body, Join, detail::range_iterator<R>, T>
T parallel_reduce(R&&, T identity, Body, Join = {}, Rest...) {
  static_assert(detail::explain_wrong_reduce<Body, Join, detail::range_iterator<R>, T>());
  return identity;
}

}  // namespace async::inline v0_1
