// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <concepts>   // for integral, invocable
#include <cstddef>    // for size_t
#include <cstdint>    // for uint64_t
#include <iterator>   // for iter_reference_t, ranges::begin, ranges::distance
#include <stdexcept>  // for invalid_argument

#include "async/detail/base/invoke.hpp"       // for invoke_and_drop
#include "async/detail/fork/loop_index.hpp"   // for parallel_index, parallel_body, loop_token
#include "async/detail/fork/split_range.hpp"  // for split_range, loop_habit
#include "async/threadpool.hpp"               // for threadpool

namespace async::inline v0_1 {

namespace detail {

/// A part of a loop.
template <class Index, class F>
struct loop_piece {
  const Index& first;
  const Index& last;
  const std::uint64_t calls;
  const std::uint64_t step;
  F& f;

  void operator()(std::uint64_t from, std::uint64_t count) {
    if constexpr (loop_range_body<F, Index>) {
      const std::uint64_t end = from + count;
      detail::invoke_and_drop(f, detail::index_at(first, from, step),
                              end == calls ? Index(last) : index_at(first, end, step));
    } else if constexpr (std::integral<Index>) {
      auto i = static_cast<std::uint64_t>(detail::index_at(first, from, step));
      for (; count != 0; --count, i += step) detail::invoke_and_drop(f, static_cast<Index>(i));
    } else {
      Index it = detail::index_at(first, from, step);
      for (std::uint64_t i = 0; i != count; ++i, static_cast<void>(++it)) {
        if constexpr (std::invocable<F&, std::iter_reference_t<Index>>) {
          detail::invoke_and_drop(f, *it);
        } else {
          detail::invoke_and_drop(f, it);
        }
      }
    }
  }
  loop_piece upper() const noexcept { return *this; }
  void join(loop_piece&) const noexcept {}
};

template <class Index, class F>
inline constinit loop_habit habit_of{};  // one per module: only a hint

template <class Index, class F, class Token>
bool run_loop(threadpool& pool, const Index& first, const Index& last, std::uint64_t count, std::uint64_t step, F& f,
              std::size_t grain, const Token& token) {
  loop_piece<Index, F> piece{first, last, count, step, f};
  return detail::split_range(pool.core(), count, grain, habit_of<Index, F>, piece,
                             [&token] { return is_stopped(token); });
}

// The forms of parallel_for(), which own the body.

template <class Index, class F, class Token>
bool loop_over(threadpool& pool, const Index& first, const Index& last, F& f, std::size_t grain, const Token& token) {
  return detail::run_loop(pool, first, last, distance_of(first, last), 1, f, grain, token);
}
template <class A, class B, class F, class Token>
bool loop_over_common(threadpool& pool, A first, B last, F& f, std::size_t grain, const Token& token) {
  if (!is_less(first, last)) return true;
  return detail::loop_over(pool, common_number<B>(first), common_number<A>(last), f, grain, token);
}
template <class Index, class F, class Token>
bool loop_by_step(threadpool& pool, Index first, Index last, Index step, F& f, std::size_t grain, const Token& token) {
  if (!(step > 0)) throw std::invalid_argument("async::parallel_for: the step is not positive");
  const auto by = static_cast<std::uint64_t>(step);
  const std::uint64_t distance = distance_of(first, last);
  return detail::run_loop(pool, first, last, distance / by + (distance % by != 0 ? 1 : 0), by, f, grain, token);
}
template <class R, class F, class Token>
bool loop_over_range(threadpool& pool, R& range, F& f, std::size_t grain, const Token& token) {
  const auto first = std::ranges::begin(range);
  return detail::loop_over(pool, first, first + std::ranges::distance(range), f, grain, token);
}

}  // namespace detail

/// Calls f(i) for each i of [first, last), in parallel. i is an integer, the element that a random-access iterator
/// points to, or the iterator itself if `f` takes that. A body with two parameters is called for chunks, f(first,
/// last). Returns when all calls are done. Does nothing unless first < last.
///
/// Use it for loops whose calls do not depend on each other. Do not use it to run blocking calls in the background
/// (threadpool::post), nor for tasks that find further tasks (task_group).
///
/// Returns     true if all calls were made; false if the loop was cancelled, see Cancel.
/// Threads     the calling thread, of the pool or any other, and idle threads of the pool. All of them call the same
///             object `f` at the same time.
/// Order       none. No two calls can rely on running at the same time. Each thread takes chunks.
/// Grain       the number of neighbours that a thread takes at a time. auto_grain takes few at first, then more, and
///             splits the rest when other threads want work, which suits calls of any length, even or uneven. When the
///             last loops of the same type took less than twenty microseconds, the loop begins without waking threads,
///             for about ten. It looks at the clock after at most 1024 calls: if calls differ much, and the long ones
///             come late, give a grain.
/// Waiting     a busy, paused or stopped pool does not hold up the loop: the calling thread then makes all calls
///             itself. Loops nest as deep as the stack allows: a level takes about a kilobyte of it, and what f takes.
///             A thread that waits for the last calls runs only calls of this loop and tasks that they have made, see
///             task_group. In a step or another callback of an event loop, which stands still meanwhile, the calls may
///             wait for futures, as tasks do.
/// Cancel      the loop ends early, after the current runs, when an enclosing group is cancelled or when
///             token.stop_requested(). A token is a std::stop_token or any other type with that member.
/// Exceptions  the first exception ends the loop early, after the current runs; of several, one is thrown.
///             std::bad_alloc before the first call. Without memory later on, fewer threads take part.
template <parallel_index Index, parallel_body<Index> F, loop_token Token = no_token>
bool parallel_for(threadpool& pool, Index first, Index last, F f, std::size_t grain = auto_grain,
                  const Token& token = {}) {
  return detail::loop_over(pool, first, last, f, grain, token);
}

/// The same for numbers of different types, such as 0 and v.size(), in their common type. Throws std::out_of_range if
/// `first` does not fit in that type.
template <std::integral A, std::integral B, parallel_body<std::common_type_t<A, B>> F, loop_token Token = no_token>
  requires(parallel_index<A> && parallel_index<B> && !std::same_as<A, B>)
bool parallel_for(threadpool& pool, A first, B last, F f, std::size_t grain = auto_grain, const Token& token = {}) {
  return detail::loop_over_common(pool, first, last, f, grain, token);
}

/// The same for first, first + step, first + 2 * step, … below last. Throws std::invalid_argument unless step > 0.
template <std::integral Index, parallel_body<Index> F, loop_token Token = no_token>
  requires parallel_index<Index>
bool parallel_for(threadpool& pool, Index first, Index last, Index step, F f, std::size_t grain = auto_grain,
                  const Token& token = {}) {
  return detail::loop_by_step(pool, first, last, step, f, grain, token);
}

/// The same for the elements of a range.
template <loop_range R, parallel_body<detail::range_iterator<R>> F, loop_token Token = no_token>
bool parallel_for(threadpool& pool, R&& range, F f, std::size_t grain = auto_grain, const Token& token = {}) {
  return detail::loop_over_range(pool, range, f, grain, token);
}

/// The same on threadpool::shared().
template <parallel_index Index, parallel_body<Index> F, loop_token Token = no_token>
bool parallel_for(Index first, Index last, F f, std::size_t grain = auto_grain, const Token& token = {}) {
  return detail::loop_over(threadpool::shared(), first, last, f, grain, token);
}
template <std::integral A, std::integral B, parallel_body<std::common_type_t<A, B>> F, loop_token Token = no_token>
  requires(parallel_index<A> && parallel_index<B> && !std::same_as<A, B>)
bool parallel_for(A first, B last, F f, std::size_t grain = auto_grain, const Token& token = {}) {
  return detail::loop_over_common(threadpool::shared(), first, last, f, grain, token);
}
template <std::integral Index, parallel_body<Index> F, loop_token Token = no_token>
  requires parallel_index<Index>
bool parallel_for(Index first, Index last, Index step, F f, std::size_t grain = auto_grain, const Token& token = {}) {
  return detail::loop_by_step(threadpool::shared(), first, last, step, f, grain, token);
}
template <loop_range R, parallel_body<detail::range_iterator<R>> F, loop_token Token = no_token>
bool parallel_for(R&& range, F f, std::size_t grain = auto_grain, const Token& token = {}) {
  return detail::loop_over_range(threadpool::shared(), range, f, grain, token);
}

/// Refused: a body that cannot be called.
template <class A, detail::other_end<A> B, detail::wrong_body<detail::index_of_ends<A, B>> F, class... Rest>
bool parallel_for(threadpool&, A&&, B&&, F, Rest...) {
  return detail::explain_wrong_body<F>();
}
template <loop_range R, detail::wrong_body<detail::range_iterator<R>> F, class... Rest>
bool parallel_for(threadpool&, R&&, F, Rest...) {
  return detail::explain_wrong_body<F>();
}
template <class A, detail::other_end<A> B, detail::wrong_body<detail::index_of_ends<A, B>> F, class... Rest>
bool parallel_for(A&&, B&&, F, Rest...) {
  return detail::explain_wrong_body<F>();
}
template <loop_range R, detail::wrong_body<detail::range_iterator<R>> F, class... Rest>
bool parallel_for(R&&, F, Rest...) {
  return detail::explain_wrong_body<F>();
}

}  // namespace async::inline v0_1
