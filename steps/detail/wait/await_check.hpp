// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <future>       // for future, shared_future
#include <type_traits>  // for is_convertible_v, is_invocable_v, is_pointer_v, is_same_v, remove_cvref_t

#include "async/detail/base/durations.hpp"      // for is_duration
#include "async/detail/base/invoke.hpp"         // for lazy_coroutine
#include "async/detail/base/never.hpp"          // for never
#include "async/detail/queue/queue_access.hpp"  // for any_queue
#include "async/detail/select/select_case.hpp"  // for is_select_case
#include "async/event.hpp"                      // for event
#include "async/future.hpp"                     // for future, shared_future
#include "async/fwd.hpp"                        // for future_group

namespace steps::inline v0_1 {
class ISync;
}

/// What await() takes and refuses, and why.
namespace steps::inline v0_1::detail {

template <class T>
inline constexpr bool is_future = false;
template <class T>
inline constexpr bool is_future<async::future<T>> = true;
template <class T>
inline constexpr bool is_future<std::future<T>> = true;

template <class T>
inline constexpr bool are_futures = false;
template <class T>
  requires(requires { typename T::value_type; })
inline constexpr bool are_futures<T> = is_future<typename T::value_type>;

template <class T>
void take_future(async::future<T>&&);
template <class T>
void take_future(async::shared_future<T>);
template <class T>
void take_future(std::future<T>&&);
template <class T>
void take_future(std::shared_future<T>);

template <class What>
concept refused_by_await = !requires(What&& what) { take_future(static_cast<What&&>(what)); } &&
                           !async::detail::any_queue<What> && !std::is_convertible_v<What, async::event&>;

template <class T>
concept pointer_like = requires(T& pointer) {
  *pointer;
  pointer.operator->();
} || std::is_pointer_v<T>;

/// A compile-time message.
template <class What>
consteval bool explain_refusal() {
  using async::detail::never;
  using type = std::remove_cvref_t<What>;
  if constexpr (async::detail::is_duration<type>) {
    static_assert(never<What>, "a pause is a select() with a time only: write select(async::after(duration))");
  } else if constexpr (async::detail::is_select_case<type>) {
    static_assert(never<What>, "a case is for select(): write select(case)");
  } else if constexpr (are_futures<type>) {
    static_assert(never<What>, "await() takes one future: write await(async::when_all(std::move(futures)))");
  } else if constexpr (std::is_invocable_v<type&>) {
    static_assert(never<What>, "a call needs threads: write await(pool, f, arguments...)");
  } else if constexpr (async::detail::lazy_coroutine<type>) {
    static_assert(never<What>, "a coroutine is a step: write add(co(f))");
  } else if constexpr (std::is_convertible_v<type*, ISync*>) {
    static_assert(never<What>, "a lock, a permit or a limit is for a step: write sync(object, f)");
  } else if constexpr (std::is_same_v<type, async::future_group>) {
    static_assert(never<What>, "write await(group.when_empty())");
  } else if constexpr (requires { type::is_queue_awaitable; }) {
    static_assert(never<What>, "a step waits for the queue itself: write await(queue), or enqueue(queue, element)");
  } else if constexpr (is_future<type>) {
    static_assert(never<What>, "await() takes the future away: write await(std::move(future))");
  } else if constexpr (std::is_same_v<type, async::event>) {
    static_assert(never<What>, "a flow refers to its event, which outlives it: pass no temporary, and no const one");
  } else if constexpr (pointer_like<type>) {
    static_assert(never<What>, "await() takes what the pointer refers to: write await(*pointer)");
  } else {
    static_assert(never<What>,
                  "await() takes a future that is moved in, a queue, an event, or a call: (pool, f, arguments...)");
  }
  return true;
}

}  // namespace steps::inline v0_1::detail
