// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <future>  // for future, shared_future
#include <type_traits>  // for is_base_of_v, is_convertible_v, is_invocable_v, is_pointer_v, is_same_v, remove_cvref_t, remove_reference_t

#include "async/detail/base/durations.hpp"      // for is_duration
#include "async/detail/base/invoke.hpp"         // for lazy_coroutine
#include "async/detail/queue/queue_access.hpp"  // for any_queue
#include "async/detail/select/select_case.hpp"  // for is_select_case
#include "async/event.hpp"                      // for event
#include "async/future.hpp"                     // for future, shared_future
#include "async/fwd.hpp"                        // for blocking_pool, future_group, threadpool

namespace steps::inline v0_1 {
class ISync;
}

/// What await() refuses, and why.
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

template <class T>
inline constexpr bool is_pool = std::is_base_of_v<async::threadpool, T> || std::is_base_of_v<async::blocking_pool, T>;

template <class What>
concept refused_by_await =
    !requires(What&& what) { take_future(static_cast<What&&>(what)); } && !async::detail::any_queue<What> &&
    !std::is_convertible_v<What, async::event&> && !is_pool<std::remove_reference_t<What>>;

template <class T>
concept pointer_like = requires(T& pointer) {
  *pointer;
  pointer.operator->();
} || std::is_pointer_v<T>;

template <class What>
struct refusal {
  using type = std::remove_cvref_t<What>;
  static constexpr bool ok = true;
  static_assert(!async::detail::is_duration<type>,
                "a pause is a select() with a time only: write select(async::after(duration))");
  static_assert(!async::detail::is_select_case<type>, "a case is for select(): write select(case)");
  static_assert(!are_futures<type>, "await() takes one future: write await(async::when_all(std::move(futures)))");
  static_assert(!std::is_invocable_v<type&>, "a call needs threads: write await(pool, f, arguments...)");
  static_assert(!async::detail::lazy_coroutine<type>, "a coroutine is a step: write add(co(f))");
  static_assert(!std::is_convertible_v<type*, ISync*>,
                "a lock, a permit or a limit is for a step: write sync(object, f)");
  static_assert(!std::is_same_v<type, async::future_group>, "write await(group.when_empty())");
  static constexpr bool is_of_queue = requires { type::is_queue_awaitable; };
  static_assert(!is_of_queue, "a step waits for the queue itself: write await(queue), or enqueue(queue, element)");
  static_assert(!pointer_like<type>, "await() takes what the pointer refers to: write await(*pointer)");
  static_assert(!is_future<type>, "await() takes the future away: write await(std::move(future))");
  static_assert(!std::is_same_v<type, async::event>,
                "a flow refers to its event, which outlives it: pass no temporary, and no const one");
  static constexpr bool is_explained = async::detail::is_duration<type> || async::detail::is_select_case<type> ||
                                       are_futures<type> || std::is_invocable_v<type&> ||
                                       async::detail::lazy_coroutine<type> || std::is_convertible_v<type*, ISync*> ||
                                       std::is_same_v<type, async::future_group> || pointer_like<type> ||
                                       is_future<type> || std::is_same_v<type, async::event>;
  static_assert(is_explained,
                "await() takes a future that is moved in, a queue, an event, or a call: (pool, f, arguments...)");
};
template <class What>
inline constexpr bool explain_refusal = refusal<What>::ok;

}  // namespace steps::inline v0_1::detail
