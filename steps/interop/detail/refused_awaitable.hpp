// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <coroutine>    // for suspend_never
#include <type_traits>  // for is_convertible_v, is_invocable_v, is_same_v
#include <utility>      // for move

#include "async/detail/base/durations.hpp"  // for is_duration
#include "async/detail/base/never.hpp"      // for never
#include "async/fwd.hpp"                    // for blocking_pool, event, event_loop, future_group, threadpool
#include "steps/fwd.hpp"                    // for IAsyncSteps, ISync

/// What co_await in a task refuses, and what to write in its place.
namespace steps::inline v0_1::interop::detail {

template <class A>
concept is_queue = requires(A& queue) { decltype(queue.pop())::is_queue_awaitable; };

template <class A>
inline constexpr bool runs_coroutines = std::is_same_v<A, async::threadpool> ||
                                        std::is_same_v<A, async::blocking_pool> || std::is_same_v<A, async::event_loop>;

template <class A>
concept is_awaitable =
    requires(A& a) { a.await_ready(); } || requires(A& a) { a.operator co_await(); } || requires(A&& a) {
      static_cast<A&&>(a).operator co_await();
    } || requires(A&& a) { operator co_await(static_cast<A&&>(a)); } || requires(A& a) { operator co_await(a); };
template <class A>
concept is_vector = requires(A& all) {
  all.push_back(std::move(all.front()));
  all.begin();
};

/// What a refused call gives to co_await, which is no second error then, unless the value is used.
using refused = std::suspend_never;

/// True, or false and a compile-time message. A: without reference and const.
template <class A>
consteval bool is_no_refused_awaitable() {
  using async::detail::never;
  if constexpr (is_awaitable<A>) {
    return true;
  } else if constexpr (is_queue<A>) {
    static_assert(never<A>,
                  "a coroutine waits for a queue's element or room: write co_await queue.pop() or "
                  "co_await queue.push(item)");
  } else if constexpr (runs_coroutines<A>) {
    static_assert(never<A>,
                  "a coroutine goes to a pool or loop by co_await schedule(pool), and waits for a "
                  "call there by co_await post(pool, f)");
  } else if constexpr (async::detail::is_duration<A>) {
    static_assert(never<A>, "a coroutine pauses on a loop: write co_await sleep_for(loop, duration)");
  } else if constexpr (std::is_convertible_v<A*, IAsyncSteps*>) {
    static_assert(never<A>,
                  "a coroutine runs a flow and gets its results by co_await execute(flow), and those of a call by "
                  "co_await post(pool, f)");
  } else if constexpr (std::is_same_v<A, async::future_group>) {
    static_assert(never<A>, "write co_await group.when_empty()");
  } else if constexpr (std::is_same_v<A, async::event>) {
    static_assert(never<A>, "write co_await event.on_set(), of an event that is not const");
  } else if constexpr (is_vector<A>) {
    static_assert(never<A>, "a coroutine waits for several by co_await when_all(std::move(all)), or when_any()");
  } else if constexpr (std::is_convertible_v<A*, ISync*>) {
    static_assert(never<A>,
                  "a coroutine has a lock or a limit for the time of a task by co_await sync(lock, task), and a permit "
                  "of a Semaphore by co_await acquire(semaphore), see steps/interop/sync.hpp");
  } else if constexpr (std::is_invocable_v<A&>) {
    static_assert(never<A>, "co_await takes what the function returns: write co_await f()");
  } else {
    static_assert(never<A>,
                  "co_await takes a task, a future, queue.pop(), queue.push(item), event.on_set(), "
                  "async::selection(), or an awaitable of another library");
  }
  return false;
}

}  // namespace steps::inline v0_1::interop::detail
