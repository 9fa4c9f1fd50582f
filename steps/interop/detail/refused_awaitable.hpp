// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <type_traits>  // for is_convertible_v, is_same_v

#include "async/detail/base/durations.hpp"  // for is_duration
#include "async/fwd.hpp"                    // for blocking_pool, event_loop, threadpool
#include "steps/fwd.hpp"                    // for ISync

/// What co_await in a task refuses, and what to write in its place.
namespace steps::inline v0_1::interop::detail {

template <class A>
concept is_queue = requires(A& queue) { decltype(queue.pop())::is_queue_awaitable; };

template <class A>
inline constexpr bool runs_coroutines = std::is_same_v<A, async::threadpool> ||
                                        std::is_same_v<A, async::blocking_pool> || std::is_same_v<A, async::event_loop>;

/// True, or a compile-time message. A: without reference and const.
template <class A>
inline constexpr bool is_no_refused_awaitable = [] {
  static_assert(!is_queue<A>,
                "a coroutine waits for a queue's element or room: write co_await queue.pop() or "
                "co_await queue.push(item)");
  static_assert(!runs_coroutines<A>,
                "a coroutine goes to a pool or loop by co_await schedule(pool), and waits for a "
                "call there by co_await post(pool, f)");
  static_assert(!async::detail::is_duration<A>,
                "a coroutine pauses on a loop: write co_await sleep_for(loop, duration)");
  static_assert(
      !std::is_convertible_v<A*, ISync*>,
      "a coroutine has a lock, a permit or a limit as a step has it: asi.sync(lock, co(f)), or flow.sync(lock, "
      "co(f)) and co_await execute(flow)");
  return true;
}();

}  // namespace steps::inline v0_1::interop::detail
