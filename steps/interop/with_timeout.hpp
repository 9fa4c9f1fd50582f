// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <utility>  // for move

#include "async/detail/base/chrono.hpp"          // for duration, nanoseconds
#include "async/detail/base/config.hpp"          // for ASYNCSTEPS_SHARED
#include "steps/detail/wait/timeout.hpp"         // for timer_scope, add_timer, nonnegative_nanoseconds
#include "steps/interop/detail/child_task.hpp"   // for child_runner, task_failed
#include "steps/interop/detail/inner_steps.hpp"  // for inner_task
#include "steps/interop/task.hpp"                // for task

/// Coroutines with a time limit for one task.
namespace steps::inline v0_1::interop {

namespace detail {

/// The error at the task's step when its time is up, or that of a task around it.
inline constexpr char time_is_up[] = "steps::interop: the time of a task is up";

struct time_limit : steps::detail::timer_scope {
  explicit time_limit(bool& up) noexcept : timer_scope(&passed), is_up(up) {}

  static void passed(timer_node& node) {
    auto& self = static_cast<time_limit&>(node);
    self.is_up = true;
    if (!self.raise_in_step(time_is_up)) self.is_up = false;
  }
  ASYNCSTEPS_SHARED static constexpr steps::detail::scope_ops ops{steps::detail::scope_ops::kind::leave_first, nullptr,
                                                                  &left};

  bool& is_up;  // the error comes from this limit
};

/// The function of a step that runs a task for a limited time.
template <class T>
class limited_runner {
 public:
  limited_runner(child_runner<T>&& runner, std::chrono::nanoseconds limit, bool& is_up) noexcept
      : runner_(std::move(runner)), limit_(limit), is_up_(is_up) {}

  void operator()(IAsyncSteps& asi) {
    if (runner_.has_begun() || steps::detail::add_timer<time_limit>(asi, limit_, is_up_)) runner_(asi);
  }

 private:
  child_runner<T> runner_;
  std::chrono::nanoseconds limit_;
  bool& is_up_;
};

template <class T>
class limited_task final : public inner_task<T, limited_task<T>> {
 public:
  limited_task(std::chrono::nanoseconds limit, task<T>&& work) noexcept
      : inner_task<T, limited_task<T>>(std::move(work)), limit_(limit) {}

  /// Errors from outside, such as a timeout of the coroutine's step, are not for the coroutine.
  void add_steps(IAsyncSteps& asi) {
    asi.add(limited_runner<T>(this->runner(), limit_, is_up_), [this](IAsyncSteps& ended, ErrorCode code) {
      if (code == task_failed || (code == time_is_up && is_up_)) ended.success();
    });
  }
  T await_resume() {
    this->collect();
    if (is_up_) throw Error(errors::Timeout, "with_timeout(): the task has not ended in time");
    return this->outcome();
  }

 private:
  const std::chrono::nanoseconds limit_;
  bool is_up_ = false;
};

}  // namespace detail

/// A task that gives `work` at most this time: it has the value or exception of `work`, or throws Error (Timeout).
///
///   std::string answer = co_await steps::interop::with_timeout(2s, ask(server));
///
/// Use it where a coroutine goes on after a timeout, or gives each of its waits a limit of its own. For all that a step
/// does, asi.setTimeout() is enough. For the first of several queues, events and futures, use async::selection() with
/// async::after().
///
/// When the time is up, the task is destroyed where it waits, with the tasks that it awaits, and has gone when Timeout
/// is thrown. A call that it has running by post() on a pool goes on, and its result is dropped. A task that computes
/// without a wait is not interrupted.
///
/// Time        begins when the returned task is awaited; by the clock of the flow's loop. Zero and less: what needs no
///             turn of the loop is in time.
/// Threads     in a coroutine that is a step: the flow's loop. In one that is none: a flow on the pool whose thread
///             this is or, on a thread that runs an event_loop, on that loop; the coroutine resumes in a turn of this
///             flow's loop. While it waits on a pool it must not be destroyed.
/// asi         `work` runs in a step of its own: calls on the `asi` of the coroutine's step, such as setTimeout(),
///             stack() and stop_token_of(), are InternalError there.
/// Exceptions  of `work`; Error (Timeout); Error (InternalError) where this thread has no pool and no loop, and for a
///             task that has been moved from or awaited; std::bad_alloc. When a step has no memory for the wait, that
///             is the step's error, and the coroutine ends.
/// Memory      a frame, one step and a timer. In a NitroSteps: one of its MaxTimeouts, and one of its steps.
template <class T, class Rep, class Period>
task<T> with_timeout(std::chrono::duration<Rep, Period> limit, task<T> work) {
  detail::limited_task<T> limited(steps::detail::nonnegative_nanoseconds(limit), std::move(work));
  co_return co_await limited;
}

}  // namespace steps::inline v0_1::interop
