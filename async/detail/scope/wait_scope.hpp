// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "async/detail/scope/scope_cache.hpp"  // for task_scope

namespace async::inline v0_1::detail {

/// The tasks that a waiting thread may run: those of a scope and of scopes inside it, or those that its current task
/// has made.
class wait_scope {
 public:
  /// The tasks made by the current task.
  wait_scope() noexcept = default;
  explicit wait_scope(const task_scope& s) noexcept
      : of_(&s), scope_([](const void* of) noexcept { return static_cast<const task_scope*>(of); }) {}
  /// The tasks of source.scope(), which is asked each time; none while it is null.
  template <class Source>
  explicit wait_scope(const Source& source) noexcept
      : of_(&source), scope_([](const void* of) noexcept {
          return static_cast<const task_scope*>(static_cast<const Source*>(of)->scope());
        }) {}

  /// The tasks made by the current task, for a wait that is over when another thread calls pool_core::wake() for it.
  static wait_scope with_wake_up() noexcept {
    wait_scope s;
    s.has_wake_up_ = true;
    return s;
  }

  bool is_of_current_task() const noexcept { return of_ == nullptr; }
  bool has_wake_up() const noexcept { return has_wake_up_; }
  /// Whether a job of this scope is one of them. False if they are those of the current task: a scope does not tell
  /// these.
  bool allows(const task_scope* of_job) const noexcept {
    if (of_ == nullptr) return false;
    const task_scope* const s = scope_(of_);
    return s != nullptr && s->contains(of_job);
  }

 private:
  const void* of_ = nullptr;  // a scope or a source of any type; null: the current task
  const task_scope* (*scope_)(const void* of) noexcept = nullptr;
  bool has_wake_up_ = false;
};

/// Asks ready() of a wait.
struct asked_condition {
  const void* ready;
  bool (*ask)(const void*);
  bool operator()() const { return ask(ready); }
};

}  // namespace async::inline v0_1::detail
