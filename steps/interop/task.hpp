// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <concepts>     // for convertible_to
#include <coroutine>    // for coroutine_handle, suspend_always
#include <exception>    // for exception_ptr, current_exception, terminate
#include <future>       // for future
#include <optional>     // for optional
#include <type_traits>  // for is_base_of_v
#include <utility>      // for exchange, forward, move

#include "async/detail/base/own_exceptions.hpp"        // for own_exceptions
#include "async/detail/call/future_access.hpp"         // for is_own_future
#include "steps/errors.hpp"                            // for Error, InternalError
#include "steps/interop/detail/fair_awaiter.hpp"       // for fair_awaiter
#include "steps/interop/detail/future_block.hpp"       // for step_future_awaiter
#include "steps/interop/detail/operation.hpp"          // for operation_awaiter, hosted_promise
#include "steps/interop/detail/queue_block.hpp"        // for step_queue_awaiter
#include "steps/interop/detail/refused_awaitable.hpp"  // for is_no_refused_awaitable, refused
#include "steps/interop/detail/select_block.hpp"       // for step_select_awaiter
#include "steps/interop/detail/task_state.hpp"         // for task_state

namespace steps::inline v0_1::interop {

template <class T = void>
class task;

namespace detail {

template <class T>
struct step_frame;
template <class T>
class child_task;

/// A coroutine without an awaiting one. Its end destroys the frame.
struct detached {
  struct promise_type : hosted_promise {
    detached get_return_object() const noexcept { return {}; }
    std::suspend_never initial_suspend() const noexcept { return {}; }
    std::suspend_never final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    [[noreturn]] void unhandled_exception() const noexcept { std::terminate(); }
  };
};

[[noreturn]] inline void refuse_task() {
  throw Error(errors::InternalError, "a task that has been moved from or awaited");
}

template <class A>
decltype(auto) awaiter_of(A&& awaitable) {
  if constexpr (requires { std::forward<A>(awaitable).operator co_await(); }) {
    return std::forward<A>(awaitable).operator co_await();
  } else if constexpr (requires { operator co_await(std::forward<A>(awaitable)); }) {
    return operator co_await(std::forward<A>(awaitable));
  } else {
    return std::forward<A>(awaitable);
  }
}
template <class A>
using awaiter_t = decltype(awaiter_of(std::declval<A>()));
template <class A>
using awaited_t = decltype(std::declval<awaiter_t<A>>().await_resume());
/// The same for a value that is stored.
template <class A>
using kept_t = passed_t<awaited_t<A>>;

/// Awaits an awaitable of another library on behalf of a coroutine that may be destroyed meanwhile.
template <class R, class A>
detached wait_for(A awaitable, trigger<R> end) {
  std::exception_ptr error;
  try {
    if constexpr (std::is_void_v<R>) {
      co_await static_cast<A&&>(awaitable);
      end.keep();
    } else {
      end.keep(co_await static_cast<A&&>(awaitable));
    }
  } catch (...) {
    error = std::current_exception();
  }
  end.finish(std::move(error));
}

/// An awaitable of another library: awaited as it is, or on behalf of a coroutine that is a step.
/// A is an lvalue reference, or the type of an awaitable that is moved.
template <class A>
class foreign_awaiter final : public operation_awaiter<foreign_awaiter<A>, kept_t<A>> {
  using base = operation_awaiter<foreign_awaiter<A>, kept_t<A>>;

 public:
  foreign_awaiter(A&& awaitable, bool hosted) noexcept : awaitable_(static_cast<A&&>(awaitable)), hosted_(hosted) {}

  bool await_ready() {
    if (hosted_ && !may_ask_twice) return false;
    const bool is_ready = direct_.emplace(static_cast<A&&>(awaitable_)).awaiter.await_ready();
    if (hosted_ && !is_ready) direct_.reset();
    return is_ready;
  }
  /// A bool where that is enough: a handle to resume takes stack each time where calls are not optimised.
  template <class P>
  auto await_suspend(std::coroutine_handle<P> coroutine) {
    using suspended = decltype(direct_->awaiter.await_suspend(coroutine));
    if constexpr (std::is_void_v<suspended>) {
      if (hosted_) return base::await_suspend(coroutine);
      direct_->awaiter.await_suspend(coroutine);
      return true;
    } else if constexpr (std::is_same_v<suspended, bool>) {
      return hosted_ ? base::await_suspend(coroutine) : direct_->awaiter.await_suspend(coroutine);
    } else {
      if (!hosted_) return std::coroutine_handle<>(direct_->awaiter.await_suspend(coroutine));
      return base::await_suspend(coroutine) ? std::coroutine_handle<>(std::noop_coroutine()) : coroutine;
    }
  }
  kept_t<A> await_resume() {
    if (!direct_.has_value()) return base::await_resume();
    return direct_->awaiter.await_resume();
  }
  void start(trigger<kept_t<A>> end) { wait_for<kept_t<A>, A>(static_cast<A&&>(awaitable_), std::move(end)); }

 private:
  struct direct {
    explicit direct(A&& awaitable) : awaiter(awaiter_of(static_cast<A&&>(awaitable))) {}
    awaiter_t<A> awaiter;
  };
  /// An awaiter that tells its state and keeps it: it is asked in the frame, and again where it has been moved to.
  static constexpr bool may_ask_twice =
      std::is_same_v<awaiter_t<A>, A&&> && requires(const std::remove_cvref_t<A>& awaiter) { awaiter.await_ready(); };

  A&& awaitable_;  // lives until the full expression with co_await ends, or the coroutine's frame
  const bool hosted_;
  std::optional<direct> direct_;  // none where another coroutine awaits
};

/// An awaiter that stays where it is: g++ 12 copies one that await_transform() returns by reference.
template <class A>
struct borrowed {
  bool await_ready() const noexcept { return false; }
  template <class P>
  bool await_suspend(std::coroutine_handle<P> coroutine) {
    return awaiter.await_suspend(coroutine);
  }
  decltype(auto) await_resume() { return awaiter.await_resume(); }

  A& awaiter;
};

template <class T>
inline constexpr bool is_future = false;
template <class T>
inline constexpr bool is_future<std::future<T>> = true;
template <class T>
inline constexpr bool is_future<std::shared_future<T>> = true;

/// The part of a task's promise that does not depend on its type.
struct task_promise_base : hosted_promise {
  struct final_awaiter {
    bool await_ready() const noexcept { return false; }
    template <class P>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<P> ended) const noexcept {
      const std::coroutine_handle<> next = ended.promise().continuation;
      return ended.promise().state.end() ? next : std::noop_coroutine();
    }
    void await_resume() const noexcept {}
  };

  std::suspend_always initial_suspend() const noexcept { return {}; }
  final_awaiter final_suspend() const noexcept { return {}; }
  void unhandled_exception() noexcept { error = std::current_exception(); }

  template <class A>
  decltype(auto) await_transform(A&& awaitable) {
    static_assert(!is_future<std::remove_cvref_t<A>>,
                  "a std::future cannot tell when it is ready: co_await when_ready(loop, std::move(future)), or "
                  "post(pool, f) in place of pool.post(f)");
    using type = std::remove_cvref_t<A>;
    constexpr bool is_taken = std::is_same_v<A, type>;
    if constexpr (async::detail::lazy_coroutine<type>) {
      static_assert(is_taken, "co_await takes the task away: write co_await std::move(task)");
      return std::forward<A>(awaitable).operator co_await();
    } else if constexpr (requires { type::is_queue_awaitable; }) {
      static_assert(is_taken,
                    "pop(), push() and on_set() are awaited once: write co_await queue.pop() or, of one that is "
                    "kept, co_await std::move(kept)");
      using awaiter = step_queue_awaiter<typename type::call>;
      return fair_awaiter<awaiter>(this->home, std::forward<A>(awaitable).take_call());
    } else if constexpr (requires { type::is_select_awaitable; }) {
      static_assert(is_taken,
                    "a selection is awaited once: write co_await async::selection(...) or, of one that is kept, "
                    "co_await std::move(kept)");
      using awaiter = typename type::template awaiter<step_select_awaiter>;
      return fair_awaiter<awaiter>(this->home, std::forward<A>(awaitable).take_cases());
    } else if constexpr (async::detail::is_own_future<std::remove_cvref_t<A>>) {
      constexpr bool is_named = async::detail::is_unique_future<type> && !is_taken;
      static_assert(!is_named, "co_await takes the future away: write co_await std::move(future)");
      using awaiter = fair_awaiter<step_future_awaiter<type>>;
      if constexpr (is_named) {
        return awaiter(this->home, type());
      } else {
        return awaiter(this->home, std::forward<A>(awaitable));
      }
    } else if constexpr (requires { type::is_fair; }) {
      return fair_awaiter<type>(this->home, std::forward<A>(awaitable));
    } else if constexpr (std::is_base_of_v<withdrawable, std::remove_cvref_t<A>> || is_future<std::remove_cvref_t<A>>) {
      return borrowed<std::remove_reference_t<A>>{awaitable};
    } else if constexpr (is_no_refused_awaitable<type>()) {
      static_assert(std::is_lvalue_reference_v<A> || std::is_move_constructible_v<A>,
                    "an awaitable of another library is moved out of the coroutine, which may be destroyed while it "
                    "waits: it must be movable");
      return foreign_awaiter<A>(std::forward<A>(awaitable), this->home != nullptr);
    } else {
      return refused();
    }
  }

  std::coroutine_handle<> continuation;
  task_state state;
  std::exception_ptr error;
};

template <class T>
struct task_promise final : task_promise_base {
  task<T> get_return_object() noexcept;
  template <class U = T>
  void return_value(U&& result) {
    static_assert(std::convertible_to<U&&, T>,
                  "co_return takes what converts to the task's type without a cast: name the type, co_return T(...)");
    value.emplace(std::forward<U>(result));
  }
  T get() {
    if (error != nullptr) std::rethrow_exception(std::move(error));
    return std::move(*value);
  }
  std::optional<T> value;
};
template <>
struct task_promise<void> final : task_promise_base {
  task<void> get_return_object() noexcept;
  void return_void() const noexcept {}
  void get() {
    if (error != nullptr) std::rethrow_exception(std::move(error));
  }
};

}  // namespace detail

/// A coroutine that computes a T. It begins when it is awaited; its end resumes the awaiting coroutine.
///
///   steps::interop::task<int> twice(async::threadpool& pool, int x) {
///     co_return 2 * co_await steps::interop::post(pool, measure, x);
///   }
///
/// Use it for functions that wait: as a step with co(), from another coroutine with co_await, on its own with start().
/// Take parameters by value: the frame keeps nothing else. Do not make it of a lambda with captures, unless the lambda
/// lives longer than the coroutine. (co() keeps its lambda.)
///
/// Threads     as each co_await says. A coroutine that is a step always runs on its flow's loop.
/// Exceptions  an exception that leaves the coroutine is thrown where it is awaited. The call throws std::bad_alloc
///             when there is no memory for the frame. A task that has been moved from or awaited is an Error
///             (InternalError) where it is awaited, in the future of start(), and at the step of co().
/// Memory      frames of up to 512 bytes are recycled blocks. A loop may await any number of tasks that end without a
///             wait: the stack does not grow. Tasks that await each other in a chain may take stack for each level, as
///             function calls do.
/// Lifetime    the object owns the frame. Its destructor destroys a coroutine that has not begun, or that waits, with
///             the tasks that it awaits. That happens on the thread that would resume it.
template <class T>
class [[nodiscard]] task {
  static_assert(!std::is_reference_v<T>, "task<T> gives a value: return a pointer in place of a reference");

 public:
  static constexpr async::detail::lazy_mark is_task{};  ///< true; marks it among awaitables
  using promise_type = detail::task_promise<T>;         ///< for the compiler

  /// Takes the coroutine over, and leaves `other` without one.
  task(task&& other) noexcept : coroutine_(std::exchange(other.coroutine_, nullptr)) {}
  task& operator=(task other) noexcept {
    std::swap(coroutine_, other.coroutine_);
    return *this;
  }
  ~task() {
    if (coroutine_) coroutine_.destroy();
  }

  /// Runs the coroutine, once, and gives its value or throws its exception: `co_await f(x)`, or
  /// `co_await std::move(kept)`. Throws Error (InternalError) where it has been moved from or awaited.
  auto operator co_await() && {
    if (!can_begin()) detail::refuse_task();
    return awaiter{coroutine_};
  }

 private:
  friend promise_type;
  template <class>
  friend struct detail::step_frame;
  template <class>
  friend class detail::child_task;

  struct awaiter {
    bool await_ready() const noexcept { return false; }
    template <class P>
    bool await_suspend(std::coroutine_handle<P> parent) noexcept {
      promise_type& promise = coroutine.promise();
      promise.home = detail::host_of(parent);
      promise.continuation = parent;
      const async::detail::own_exceptions of_coroutine;
      coroutine.resume();
      return promise.state.await();
    }
    T await_resume() { return coroutine.promise().get(); }

    std::coroutine_handle<promise_type> coroutine;
  };

  explicit task(std::coroutine_handle<promise_type> c) noexcept : coroutine_(c) {}

  /// True until it is awaited, unless it was moved from.
  bool can_begin() const noexcept { return coroutine_ && !coroutine_.promise().continuation; }

  std::coroutine_handle<promise_type> coroutine_;
};

template <class T>
task<T> detail::task_promise<T>::get_return_object() noexcept {
  return task<T>(std::coroutine_handle<task_promise>::from_promise(*this));
}
inline task<void> detail::task_promise<void>::get_return_object() noexcept {
  return task<void>(std::coroutine_handle<task_promise>::from_promise(*this));
}

}  // namespace steps::inline v0_1::interop
