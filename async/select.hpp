// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <concepts>     // for constructible_from, move_constructible, same_as
#include <cstddef>      // for size_t
#include <type_traits>  // for decay_t, remove_const_t, remove_reference_t
#include <utility>      // for forward, in_place

#include "async/detail/base/chrono.hpp"            // for duration
#include "async/detail/call/future_access.hpp"     // for is_own_future
#include "async/detail/queue/queue_access.hpp"     // for any_queue, queue_access
#include "async/detail/select/select_awaiter.hpp"  // for select_awaitable, awaited_case
#include "async/detail/select/select_case.hpp"     // for pop_case, push_case, ready_case, set_case, limit_case
#include "async/detail/select/select_handler.hpp"  // for no_handler, passed_over, thread_call
#include "async/detail/select/select_limit.hpp"    // for clock_limit
#include "async/detail/select/select_sleep.hpp"    // for sleep_in_select, require_thread
#include "async/detail/select/selection.hpp"       // for selection
#include "async/event.hpp"                         // for event, event_call
#include "async/future.hpp"                        // exports future, shared_future

namespace async::inline v0_1 {

/// The result of select() when no case is left that can take effect.
inline constexpr std::size_t nothing_left = static_cast<std::size_t>(-1);

// asi.select() of flows takes the same cases. Their handlers get `asi` in front there, see steps/iasyncsteps.hpp.
// Coroutines wait by co_await selection(), with the handlers of threads.

/// A case of select() that takes an element out of a queue or bounded_queue, and calls f(element) with an rvalue.
///
/// When the queue is closed and drained, the case is passed over; with a third argument, it takes effect and calls
/// closed(). f may call any function of the queue.
template <class Queue, class F, class Closed = detail::passed_over>
auto on_pop(Queue& queue, F&& f, Closed&& closed = {}) {
  static_assert(detail::any_queue<Queue>, "on_pop(queue, f) takes an async::queue or an async::bounded_queue");
  if constexpr (detail::any_queue<Queue>) {
    static_assert(std::move_constructible<typename Queue::value_type>,
                  "on_pop(queue, f) moves the element out of the queue");
    return detail::pop_case<Queue, std::decay_t<F>, std::decay_t<Closed>>(queue, std::forward<F>(f),
                                                                          std::forward<Closed>(closed));
  }
}

/// A case of select() that enqueues an element made of `item` in a bounded_queue, and calls f().
///
/// `item` is untouched unless the case takes effect, so that std::move(item) may be tried again and again. When the
/// queue is closed, the case is passed over; with a fourth argument, it takes effect and calls closed().
template <class Queue, class Item, class F = detail::no_handler, class Closed = detail::passed_over>
auto on_push(Queue& queue, Item&& item, F&& f = {}, Closed&& closed = {}) {
  constexpr bool is_bounded = detail::queue_access::is_bounded<Queue>;
  static_assert(is_bounded, "on_push(queue, item, f) takes an async::bounded_queue; async::queue is never full");
  if constexpr (is_bounded) {
    static_assert(std::constructible_from<typename Queue::value_type, Item>,
                  "on_push(queue, item, f) makes an element of item");
    return detail::push_case<Queue, Item&&, std::decay_t<F>, std::decay_t<Closed>>(
        queue, std::forward<Item>(item), std::forward<F>(f), std::forward<Closed>(closed));
  }
}

/// A case of select() that takes effect when a future or shared_future is ready, and calls f(future). The future stays
/// the caller's: get() in f does not wait. A future without a state is passed over, so a loop takes each result once.
/// In a flow, a future that is moved in is the step's, which cancels it if it is not ready when the wait ends; of a
/// shared_future the step keeps a copy.
template <class Future, class F = detail::no_handler>
auto on_ready(Future&& future, F&& f = {}) {
  using future_type = std::remove_reference_t<Future>;
  constexpr bool is_future = detail::is_own_future<std::remove_const_t<future_type>>;
  static_assert(is_future, "on_ready(future, f) takes an async::future or an async::shared_future");
  if constexpr (is_future) {
    return detail::ready_case<Future, std::decay_t<F>>(std::forward<Future>(future), std::forward<F>(f));
  }
}

/// A case of select() that takes effect when an event is set, or has been since the wait began, and calls f(). The
/// event outlives the wait, and each call of set() that can end it.
template <class Event, class F = detail::no_handler>
auto on_set(Event& event, F&& f = {}) {
  constexpr bool is_event = std::same_as<Event, async::event>;
  static_assert(is_event, "on_set(event, f) takes an async::event");
  if constexpr (is_event) {
    return detail::set_case<Event, detail::event_call, std::decay_t<F>>(event, std::forward<F>(f));
  }
}

/// A case of select() that takes effect after a time, from this call on (steady clock), and calls f(). Limits of 0 and
/// below have passed at once, limits of decades never do. In a flow or coroutine the time counts from its wait on.
template <class Rep, class Period, class F = detail::no_handler>
auto after(std::chrono::duration<Rep, Period> limit, F&& f = {}) {
  return detail::limit_case<std::decay_t<F>>(detail::clock_limit(limit), std::forward<F>(f));
}

/// A case of select() that takes effect if no other one does at once, wherever it stands, and calls f(). With it
/// select() does not wait. A task that polls with it occupies its worker; polling with after(0s) lets other tasks run.
template <class F = detail::no_handler>
auto otherwise(F&& f = {}) {
  return detail::otherwise_case<std::decay_t<F>>(std::in_place, std::forward<F>(f));
}

/// Waits for the first of several queues, futures, events and time limits. Exactly one case takes effect: its handler
/// is called on this thread, and its index is returned.
///
///   std::size_t which = async::select(
///       async::on_pop(orders, [&](order o) { ... }),
///       async::on_ready(stop, [&](async::future<void>&) { ... }),
///       async::after(10ms, [&] { ... }));
///
/// Use it in a thread that serves several sources. Do not use it for one source (blocking_dequeue(), get()), for
/// futures alone that a continuation can take (when_any()), in steps of flows (asi.select()), or in coroutines, which
/// must not block (co_await async::selection()).
///
/// Cases       on_pop, on_push, on_ready, on_set, after, otherwise; any number, made in the call.
/// Order       that of the cases is their priority: when several are ready, the first one takes effect. A first case
///             that is always ready starves the others; rotate them where that matters.
/// Elements    an element stays in its queue until this thread takes it. Cases that do not take effect change nothing.
/// Closing     cases of closed and drained queues, and futures without a state, are passed over. When no other case is
///             left than after() and otherwise(), select() returns nothing_left at once and calls no handler, so that
///             `while (select(...) != nothing_left)` ends when all queues are closed. With after() alone it sleeps. An
///             after() whose time has passed, in front of one of them, takes effect before that one is looked at: put
///             after(0s) last.
/// Waiting     spins for a few microseconds, then sleeps without using the CPU. In a task of a pool whose workers are
///             all busy, from 250 us on, a stand-in thread runs queued tasks, and the worker itself turns loops, with
///             their flows, that wait for it: hold no lock that these need. If a task polls with shorter waits, other
///             threads run the tasks and loops. No thread does so while the pool has none. Throws std::system_error
///             (resource_deadlock_would_occur) in a callback of an event loop instead of sleeping.
/// Fairness    waiters of a queue are woken first come, first served; a thread that does not sleep may get the element
///             before them.
/// Threads     any number may select on the same queues, beside threads that use them directly. A future as its
///             members: one thread at a time.
/// Exceptions  what the handler throws: its case has taken effect, and an element that it has not kept is gone.
///             What T's constructor throws, as from dequeue() and enqueue(): an element that was being taken is gone.
///             std::bad_alloc when it has to sleep: nothing was taken. No handler is called after the last two.
/// Lifetime    queues, futures and events must live until it returns.
/// Progress    the calls that it makes on a queue are those of the queue. Where these wait until another thread has
///             finished its call, neither otherwise() nor after() takes effect before. Other threads pay for a waiter
///             as for one of blocking_dequeue(), and take the lock of a list.
/// Memory      one recycled block while it sleeps.
/// Example     test/example/select.cpp
template <class... Cases>
std::size_t select(Cases&&... cases) {
  constexpr bool are_cases = (detail::is_select_case<Cases> && ...) && sizeof...(Cases) != 0;
  static_assert(are_cases, "select() takes cases that are made in the call: on_pop(), on_push(), on_ready(), ...");
  if constexpr (are_cases) {
    if constexpr (detail::are_plain<Cases...>) {
      detail::selection<Cases...> all(cases...);
      std::size_t found = all.tell_if_limit(all.try_all());
      if (found == all.pending) {
        detail::require_thread();
        found = all.wait(detail::sleep_in_select);
      }
      all.finish(found, detail::thread_call());
      return found;
    }
  }
  return nothing_left;
}

/// select() for coroutines of any type: waits without a thread, calls the handler of the case that takes effect in the
/// coroutine, and gives the index of that case, or nothing_left. Await it at once, and once only.
///
///   std::size_t which = co_await async::selection(
///       async::on_pop(orders, [&](order o) { ... }),
///       async::on_set(closing, [&] { ... }),
///       async::after(10ms, [&] { ... }));
///
/// Use it in a coroutine that serves several sources. Do not use it for one source (co_await queue.pop(), co_await
/// std::move(future), co_await event.on_set()).
///
/// Cases       those of select(), with the same order, handlers and closing. An item of on_push() is untouched unless
///             its case takes effect.
/// Resumption  inside the call that enqueues, takes, closes, sets or makes ready, on its thread, as after co_await
///             queue.pop(): hold no lock there that the coroutine needs. As a step (steps::interop::co) on its flow's
///             loop.
/// Time        after() counts from the wait on, by the clock of a loop: of a step, the flow's. Another coroutine uses
///             the event loop whose callback it is in, or else, as in a pool, a loop of threadpool::shared(), which
///             rests while that pool is paused. It resumes in a turn of that loop.
/// Fairness    first come, first served, as select().
/// Destruction a coroutine that is destroyed while it waits leaves all queues in constant time and takes no element
///             along; wake-ups that it has not used go to other waiters. Destroy it on the thread that would resume it,
///             or while no other thread can wake it; a step does so by itself.
/// Exceptions  those of select(), thrown in the coroutine; std::future_error (broken_promise) when the loop that has
///             the time has gone. std::bad_alloc leaves everything as it was.
/// Lifetime    queues, futures and events outlive the wait. g++ before 13 destroys a lambda twice that captures what is
///             not trivially destructible, if it is made in that expression: name it before.
/// Memory      one recycled block while it waits, and a callback of the loop with after().
/// Example     test/example/coroutine_select.cpp
template <class... Cases>
auto selection(Cases&&... cases) {
  constexpr bool are_cases = (detail::is_select_case<Cases> && ...) && sizeof...(Cases) != 0;
  static_assert(are_cases, "selection() takes cases that are made in the call: on_pop(), on_push(), on_ready(), ...");
  if constexpr (detail::are_plain_cases<Cases...>()) {
    return detail::select_awaitable<typename detail::awaited_case<Cases>::type...>(std::in_place,
                                                                                   std::forward<Cases>(cases)...);
  } else {
    return detail::select_awaitable<>(std::in_place);
  }
}

}  // namespace async::inline v0_1
