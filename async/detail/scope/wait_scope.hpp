// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <exception>  // for uncaught_exceptions
#include <utility>    // for exchange

#include "async/detail/scope/scope_cache.hpp"  // for task_scope

namespace async::detail {

/// Exceptions on their way on this thread that the tasks which it runs meanwhile have nothing to do with.
inline constinit thread_local int exceptions_outside = 0;

/// While it lives, the calling thread runs tasks in a wait, maybe that of a destructor.
class work_in_wait {
 public:
  work_in_wait() noexcept : before_(std::exchange(exceptions_outside, std::uncaught_exceptions())) {}
  ~work_in_wait() { exceptions_outside = before_; }
  work_in_wait(const work_in_wait&) = delete;
  work_in_wait& operator=(const work_in_wait&) = delete;

 private:
  const int before_;
};

/// The tasks that a thread may run while it waits: those of a scope and of scopes inside it, or those that its current
/// task has made.
class wait_scope {
 public:
  /// Those of the current task.
  wait_scope() noexcept = default;
  explicit wait_scope(const task_scope& s) noexcept
      : of_(&s), scope_([](const void* of) noexcept { return static_cast<const task_scope*>(of); }) {}
  /// Those of source.scope(); none while that is null.
  template <class Source>
  explicit wait_scope(const Source& source) noexcept
      : of_(&source), scope_([](const void* of) noexcept {
          return static_cast<const task_scope*>(static_cast<const Source*>(of)->scope());
        }) {}

  bool is_of_current_task() const noexcept { return of_ == nullptr; }
  /// Whether a job of this scope is one of them; false for those of the current task, which are not told by a scope.
  bool allows(const task_scope* of_job) const noexcept {
    if (of_ == nullptr) return false;
    const task_scope* const s = scope_(of_);
    return s != nullptr && s->contains(of_job);
  }

 private:
  const void* of_ = nullptr;
  const task_scope* (*scope_)(const void* of) noexcept = nullptr;
};

}  // namespace async::detail
