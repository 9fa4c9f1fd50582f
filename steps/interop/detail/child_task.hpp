// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <coroutine>    // for coroutine_handle
#include <cstddef>      // for size_t
#include <exception>    // for exception_ptr, current_exception
#include <optional>     // for optional
#include <type_traits>  // for conditional_t, is_void_v
#include <utility>      // for exchange, move
#include <variant>      // for monostate

#include "async/detail/base/atomics.hpp"            // for atomic
#include "async/detail/base/config.hpp"             // for ASYNCSTEPS_ASSERT, ASYNCSTEPS_TSAN
#include "async/detail/future/unseen_by_tsan.hpp"   // for unseen_by_tsan
#include "steps/iasyncsteps.hpp"                    // for IAsyncSteps
#include "steps/interop/detail/operation.hpp"       // for host
#include "steps/interop/detail/step_coroutine.hpp"  // for run_until_wait
#include "steps/interop/task.hpp"                   // for task

/// Tasks that a coroutine awaits, each run by a step or a branch of its own.
namespace steps::inline v0_1::interop::detail {

/// The value of a task where results are collected.
template <class T>
using child_value = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

/// The error of a step or branch whose task has ended by an exception, which its child_task keeps.
inline constexpr char task_failed[] = "steps::interop: a task has failed";

/// The number of tasks that have ended so far.
class ended_tasks {
 public:
  /// Relaxed: numbers only; the end of the branches publishes the results.
  std::size_t next() noexcept { return count_.fetch_add(1, std::memory_order_relaxed); }

 private:
  async::detail::atomic<std::size_t> count_{0};
};

/// A task with its outcome. It stays where it is while it runs; the loop of its step writes it, and the awaiting
/// coroutine reads it when all have ended.
template <class T>
class child_task {
 public:
  using value_type = child_value<T>;
  using promise = typename task<T>::promise_type;

  explicit child_task(task<T>&& t) noexcept : work_(std::move(t)) {}
  child_task(child_task&&) = default;  // before it begins
  child_task& operator=(child_task&&) = delete;
  ~child_task() {
#if ASYNCSTEPS_TSAN
    const async::detail::unseen_by_tsan quiet;  // an exception's count of references is in the standard library
    error = nullptr;
#endif
  }

  /// True until the task has begun, unless it was moved from or awaited.
  bool can_begin() const noexcept { return work_.can_begin(); }
  /// True until the task has ended, unless it was moved from.
  bool has_coroutine() const noexcept { return static_cast<bool>(work_.coroutine_); }
  std::coroutine_handle<promise> coroutine() const noexcept { return work_.coroutine_; }
  /// Destroys the coroutine where it is.
  void destroy_coroutine() noexcept {
    if (has_coroutine()) std::exchange(work_.coroutine_, nullptr).destroy();
  }
  /// Takes the outcome of the coroutine, which has ended.
  void take_outcome(ended_tasks& ended) noexcept {
    promise& from = coroutine().promise();
    error = std::move(from.error);
    if (error == nullptr) {
      try {
        if constexpr (std::is_void_v<T>) {
          value.emplace();
        } else {
          value.emplace(std::move(*from.value));
        }
      } catch (...) {
        error = std::current_exception();
      }
    }
    place = ended.next();
  }

  value_type&& take_value() noexcept {
    ASYNCSTEPS_ASSERT(value.has_value());
    return std::move(*value);
  }

  std::optional<value_type> value;
  std::exception_ptr error;
  std::size_t place = 0;  // among those that have ended, if it has a value or an error

 private:
  task<T> work_;
};

/// The function of a step that runs a task, such as the only step of a branch.
template <class T>
class child_runner {
 public:
  child_runner(child_task<T>& c, ended_tasks& ended) noexcept : child_(&c), ended_(&ended) {}
  child_runner(child_runner&& other) noexcept : child_(std::exchange(other.child_, nullptr)), ended_(other.ended_) {}
  child_runner& operator=(child_runner&&) = delete;
  ~child_runner() {
    if (child_ != nullptr) child_->destroy_coroutine();
  }

  bool has_begun() const noexcept { return home_.has_value(); }

  void operator()(IAsyncSteps& asi) {
    const auto coroutine = child_->coroutine();
    if (!home_.has_value()) {
      asi.flags_ |= steps::detail::record_flag::begun;
      coroutine.promise().home = &home_.emplace(asi);
      home_->next = coroutine;
    }
    if (!detail::run_until_wait(asi, *home_, coroutine)) return;
    child_->take_outcome(*ended_);
    if (child_->error != nullptr) asi.errorNoThrow(task_failed);
  }

 private:
  child_task<T>* child_;  // null: moved from
  ended_tasks* ended_;
  std::optional<host> home_;
};

}  // namespace steps::inline v0_1::interop::detail
