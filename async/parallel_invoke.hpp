// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <concepts>     // for invocable, same_as
#include <type_traits>  // for remove_cvref_t
#include <utility>      // for forward

#include "async/detail/base/invoke.hpp"        // for invoke_and_drop
#include "async/detail/base/resumptions.hpp"   // for resumptions, resumptions_apart
#include "async/detail/fork/fork_join.hpp"     // for fork_join
#include "async/detail/pool/participant.hpp"   // for participant
#include "async/detail/pool/pool_core.hpp"     // for pool_core
#include "async/detail/pool/wait_in_turn.hpp"  // for is_in_callback, wait_in_turn
#include "async/detail/scope/scope_cache.hpp"  // for current_scope
#include "async/detail/wait/visit.hpp"         // for visit, working_visit
#include "async/threadpool.hpp"                // for threadpool

namespace async::inline v0_1 {

namespace detail {

template <class F>
concept plain_call = std::invocable<F&> && !std::same_as<std::remove_cvref_t<F>, threadpool>;

/// Not inlined: a function that calls it, often a recursive one, has less to save when it has nothing to fork.
template <class F, class... Rest>
[[gnu::noinline]] bool invoke_all(participant& part, task_scope* around, F& f, Rest&... rest) {
  const auto first = [&f] { detail::invoke_and_drop(f); };
  if constexpr (sizeof...(Rest) == 0) {
    first();
    return true;
  } else if constexpr (sizeof...(Rest) == 1) {
    return fork_join(part, around, first, [&](bool) { (detail::invoke_and_drop(rest), ...); });
  } else {
    bool all = true;
    return fork_join(part, around, first,
                     [&](bool stolen) {
                       if (stolen) {
                         const visit here(part.pool);
                         all = invoke_all(here.part(), current_scope(), rest...);
                       } else {
                         all = invoke_all(part, around, rest...);
                       }
                     }) &&
           all;
  }
}

/// For a thread that is not at work for the pool, or is in a callback of an event loop or in a coroutine that it has
/// resumed.
template <class F, class... Rest>
[[gnu::noinline]] bool begin_and_invoke_all(pool_core& pool, task_scope* around, F& f, Rest&... rest) {
  const working_visit here(pool);
  const wait_in_turn allowed;
  const resumptions_apart from_those_around;
  return invoke_all(here.part(), around, f, rest...);
}

}  // namespace detail

/// Calls all functions, in parallel as far as threads are free, and returns when all are done: fork and join without a
/// task_group. The calling thread calls the first.
///
/// Use it for two or more independent calls: divide and conquer. Do not use it for a number of calls that is only known
/// at run time (task_group, parallel_for), nor for calls that block for long, nor for recursion that is tens of
/// thousands of calls deep (task_group): it takes stack as any call does, some 300 bytes a level and what the functions
/// take.
///
///   async::parallel_invoke(pool, [&] { a = fibonacci(pool, n - 1); }, [&] { b = fibonacci(pool, n - 2); });
///
/// Returns     true if all were called; false if an enclosing group was cancelled and some were skipped.
/// Threads     any, inside the pool and outside. The calling thread calls each function that no other thread has
///             taken: all of them while the pool is paused or stopped. While it waits for a taken function, it runs
///             only tasks that this function has made, see task_group. In a step or another callback of an event loop,
///             which stands still meanwhile, the functions may wait for futures, as tasks do.
/// Exceptions  when a function throws, those that have not begun are skipped. When several throw, the caller gets the
///             exception of the first in the list. std::bad_alloc before any call, or instead of one of the calls.
/// Memory      tasks lie on the stack: no allocation in the steady state.
/// Lifetime    the functions are not copied, and are used until it returns.
template <detail::plain_call F, detail::plain_call... Rest>
bool parallel_invoke(threadpool& pool, F&& f, Rest&&... rest) {
  detail::task_scope* const around = detail::current_scope();
  if (around != nullptr && around->is_cancelled()) [[unlikely]]
    return false;
  detail::pool_core& core = pool.core();
  if (detail::participant* const part = core.part_at_work();
      part != nullptr && !detail::is_in_callback() && !detail::resumptions.resumes) [[likely]]
    return detail::invoke_all(*part, around, f, rest...);
  return detail::begin_and_invoke_all(core, around, f, rest...);
}

/// The same on threadpool::shared().
template <detail::plain_call F, detail::plain_call... Rest>
bool parallel_invoke(F&& f, Rest&&... rest) {
  return parallel_invoke(threadpool::shared(), std::forward<F>(f), std::forward<Rest>(rest)...);
}

}  // namespace async::inline v0_1
