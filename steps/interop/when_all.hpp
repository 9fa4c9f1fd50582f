// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>      // for size_t
#include <exception>    // for exception_ptr
#include <tuple>        // for tuple, apply
#include <type_traits>  // for is_lvalue_reference_v, remove_cvref_t
#include <utility>      // for move
#include <variant>      // for variant, in_place_index
#include <vector>       // for vector

#include "steps/interop/detail/child_task.hpp"     // for child_task, child_value
#include "steps/interop/detail/group_awaiter.hpp"  // for group_awaiter
#include "steps/interop/task.hpp"                  // for task

/// Coroutines that wait for several tasks: for all of them, or for the first.
namespace steps::inline v0_1::interop {

/// The result of when_any(): the task that was first, and its value.
template <class T>
struct when_any_result {
  std::size_t index;  ///< of the task, in the order given
  T value;            ///< std::monostate for a task<void>
};

namespace detail {

template <class A>
inline constexpr bool is_any_task = false;
template <class T>
inline constexpr bool is_any_task<task<T>> = true;

template <class A>
struct result_of_task;
template <class T>
struct result_of_task<task<T>> {
  using type = T;
};
template <class A>
using result_of_task_t = typename result_of_task<std::remove_cvref_t<A>>::type;

/// Tasks of different types. A base in front of group_awaiter, so that its flow ends before the tasks are destroyed.
template <class... T>
class tuple_of_tasks {
 public:
  explicit tuple_of_tasks(task<T>&&... tasks) noexcept : children(std::move(tasks)...) {}

  template <class F>
  void each([[maybe_unused]] F&& f) {
    std::apply([&](child_task<T>&... child) { (f(child), ...); }, children);
  }

 protected:
  std::tuple<child_task<T>...> children;
};
/// Tasks of one type.
template <class T>
class vector_of_tasks {
 public:
  explicit vector_of_tasks(std::vector<task<T>>&& tasks) {
    children.reserve(tasks.size());
    for (task<T>& t : tasks) children.emplace_back(std::move(t));
    tasks.clear();
  }

  template <class F>
  void each(F&& f) {
    for (child_task<T>& child : children) f(child);
  }

 protected:
  std::vector<child_task<T>> children;
};

/// The first error of those that have ended, or the last; null: none has failed.
template <class Group>
std::exception_ptr* failed_of(Group& group, bool want_first) {
  std::exception_ptr* found = nullptr;
  std::size_t at = 0;
  group.each([&](auto& child) {
    if (child.error == nullptr || (found != nullptr && (child.place < at) != want_first)) return;
    at = child.place;
    found = &child.error;
  });
  return found;
}
/// The index of the first that has succeeded; the number of tasks if none has.
template <class Group>
std::size_t winner_of(Group& group) {
  std::size_t i = 0;
  std::size_t found = 0;
  std::size_t at = 0;
  bool any = false;
  group.each([&](auto& child) {
    if (child.value.has_value() && (!any || child.place < at)) {
      any = true;
      found = i;
      at = child.place;
    }
    ++i;
  });
  return any ? found : i;
}

template <class... T>
class [[nodiscard]] all_of_tuple final : public tuple_of_tasks<T...>, public group_awaiter<all_of_tuple<T...>> {
 public:
  static constexpr bool is_race = false;
  using tuple_of_tasks<T...>::tuple_of_tasks;

  std::tuple<child_value<T>...> await_resume() {
    this->collect();
    if (std::exception_ptr* const error = failed_of(*this, true)) this->rethrow(*error);
    return std::apply([](child_task<T>&... child) { return std::tuple<child_value<T>...>(child.take_value()...); },
                      this->children);
  }
};
template <class T>
class [[nodiscard]] all_of_vector final : public vector_of_tasks<T>, public group_awaiter<all_of_vector<T>> {
 public:
  static constexpr bool is_race = false;
  using vector_of_tasks<T>::vector_of_tasks;

  auto await_resume() {
    this->collect();
    if (std::exception_ptr* const error = failed_of(*this, true)) this->rethrow(*error);
    if constexpr (!std::is_void_v<T>) {
      std::vector<T> values;
      values.reserve(this->children.size());
      for (child_task<T>& child : this->children) values.push_back(child.take_value());
      return values;
    }
  }
};

template <class... T>
class [[nodiscard]] any_of_tuple final : public tuple_of_tasks<T...>, public group_awaiter<any_of_tuple<T...>> {
 public:
  static constexpr bool is_race = true;
  using tuple_of_tasks<T...>::tuple_of_tasks;
  using value = std::variant<child_value<T>...>;

  when_any_result<value> await_resume() {
    this->collect();
    return take<0>(winner_of(*this));
  }

 private:
  template <std::size_t Index>
  when_any_result<value> take(std::size_t winner) {
    if constexpr (Index != sizeof...(T)) {
      if (winner != Index) return take<Index + 1>(winner);
      return {Index, value(std::in_place_index<Index>, std::get<Index>(this->children).take_value())};
    } else {
      std::exception_ptr none;
      std::exception_ptr* const error = failed_of(*this, false);
      this->rethrow(error != nullptr ? *error : none);
    }
  }
};
template <class T>
class [[nodiscard]] any_of_vector final : public vector_of_tasks<T>, public group_awaiter<any_of_vector<T>> {
 public:
  static constexpr bool is_race = true;
  using vector_of_tasks<T>::vector_of_tasks;

  when_any_result<child_value<T>> await_resume() {
    this->collect();
    const std::size_t winner = winner_of(*this);
    if (winner != this->children.size()) return {winner, this->children[winner].take_value()};
    std::exception_ptr none;
    std::exception_ptr* const error = failed_of(*this, false);
    this->rethrow(error != nullptr ? *error : none);
  }
};

}  // namespace detail

/// Runs tasks side by side, and resumes the coroutine when all have ended: with a std::tuple of their values, in the
/// order given. The value of a task<void> is std::monostate, so that each task has its place.
///
///   auto found = co_await steps::interop::when_all(find_user(id), find_orders(id));
///   auto& [user, orders] = found;  // see `Compilers` in coroutine.hpp
///
/// Use it for waits that do not depend on each other. Do not use it for plain calls that compute
/// (async::parallel_invoke, async::when_all() for futures).
///
/// The tasks are branches of a parallel() of the flow: the first exception cancels the others, which are destroyed
/// where they wait, and is thrown when all have ended. A timeout, error or cancel of the coroutine's step ends all
/// tasks before the step ends. Await the returned object at once, or once by name.
///
/// Takes       tasks as rvalues. They begin when they are awaited.
/// asi         each task runs in a branch of its own: calls on the `asi` of the coroutine's step, such as setTimeout(),
///             stack() and stop_token_of(), are InternalError there.
/// Threads     in a step of an AsyncSteps on a loop, or of a NitroSteps: that loop, where the tasks take turns at their
///             waits. In an AsyncSteps on a pool: each task on any free worker, at the same time as the others; they
///             guard what they share. In a coroutine that is no step: a flow on the pool whose thread this is or, on a
///             thread that runs an event_loop, on that loop; the coroutine resumes in a turn of this flow's loop. While
///             it waits on a pool it must not be destroyed.
/// Exceptions  that of the first task that failed. std::bad_alloc, before any task has begun or for the result; in a
///             step, the former is the step's error, and the coroutine ends. Error (InternalError): a task has no
///             coroutine, or this thread has no pool and no loop.
/// Memory      for each task a block as for a branch of parallel(), recycled. In a NitroSteps: MaxParallel branches;
///             more of them are InternalError at the step.
template <class... A>
  requires(detail::is_any_task<std::remove_cvref_t<A>> && ...)
auto when_all(A&&... tasks) noexcept {
  static_assert((!std::is_lvalue_reference_v<A> && ...), "when_all() takes the tasks away: write std::move(task)");
  if constexpr ((!std::is_lvalue_reference_v<A> && ...)) {
    return detail::all_of_tuple<detail::result_of_task_t<A>...>(std::move(tasks)...);
  } else {
    return detail::refused();
  }
}
/// The same for any number of tasks of one type. Gives a std::vector of their values, or nothing for task<void>.
/// Without tasks it does not wait. Throws std::bad_alloc; nothing has been taken then.
template <class T>
auto when_all(std::vector<task<T>>&& tasks) {
  return detail::all_of_vector<T>(std::move(tasks));
}
/// Refused: when_all() takes the tasks away.
template <class T>
detail::refused when_all(const std::vector<task<T>>&) {
  static_assert(async::detail::never<T>, "when_all() takes the tasks away: write std::move(tasks)");
  return {};
}

/// Runs tasks side by side until one of them succeeds, and resumes the coroutine with its index and value when the
/// others have ended.
///
///   auto [index, answer] = co_await steps::interop::when_any(ask(near), ask(far));   // answer: a std::variant
///
/// Use it to ask several sources for the same. Do not use it for a time limit: a failure of the task would be dropped
/// until the time is up. That is with_timeout(). The alternatives of the variant are those of the tasks, in their
/// order; for tasks of one type pass a vector, and the value has that type.
///
/// The tasks are branches of a race() of the flow: the first that succeeds cancels the others, which are destroyed
/// where they wait; all have ended before the coroutine resumes. An exception of a task is dropped while others run.
/// When all fail, the last one is thrown. When several succeed at the same time, one wins, and the values of the others
/// are destroyed. So do not use it to take elements of queues: async::selection() loses none. Everything else is as
/// with when_all().
template <class... A>
  requires(detail::is_any_task<std::remove_cvref_t<A>> && ...)
auto when_any(A&&... tasks) noexcept {
  static_assert(sizeof...(A) != 0, "when_any() of no tasks would never end");
  static_assert((!std::is_lvalue_reference_v<A> && ...), "when_any() takes the tasks away: write std::move(task)");
  if constexpr (sizeof...(A) != 0 && (!std::is_lvalue_reference_v<A> && ...)) {
    return detail::any_of_tuple<detail::result_of_task_t<A>...>(std::move(tasks)...);
  } else {
    return detail::refused();
  }
}
/// The same for any number of tasks of one type: the value is a T. An empty vector is an Error (InternalError) where it
/// is awaited. Throws std::bad_alloc; nothing has been taken then.
template <class T>
auto when_any(std::vector<task<T>>&& tasks) {
  return detail::any_of_vector<T>(std::move(tasks));
}
/// Refused: when_any() takes the tasks away.
template <class T>
detail::refused when_any(const std::vector<task<T>>&) {
  static_assert(async::detail::never<T>, "when_any() takes the tasks away: write std::move(tasks)");
  return {};
}

}  // namespace steps::inline v0_1::interop
