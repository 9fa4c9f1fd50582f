// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <coroutine>  // for coroutine_handle
#include <string>     // for string
#include <utility>    // for move

#include "steps/interop/detail/child_task.hpp"   // for task_failed
#include "steps/interop/detail/inner_steps.hpp"  // for inner_task
#include "steps/interop/task.hpp"                // for task
#include "steps/isync.hpp"                       // for ISync
#include "steps/semaphore.hpp"                   // for Semaphore

/// Coroutines in a Mutex, Semaphore, Throttle or Limiter.
namespace steps::inline v0_1::interop {

namespace detail {

template <class T>
class synced_task final : public inner_task<T, synced_task<T>> {
 public:
  synced_task(ISync& object, task<T>&& work) noexcept
      : inner_task<T, synced_task<T>>(std::move(work)), object_(object) {}

  void add_steps(IAsyncSteps& asi) {
    asi.add(
        [this](IAsyncSteps& outside) {
          outside.sync(object_, [this](IAsyncSteps& inside) { inside.add(this->runner()); });
        },
        [this](IAsyncSteps& ended, ErrorCode code) {
          if (code == errors::DefenseRejected) why_ = ended.state().error_info().str();
          if (code == errors::DefenseRejected || code == task_failed) ended.success();
        });
  }
  T await_resume() {
    this->collect();
    if (!this->has_ended()) throw Error(errors::DefenseRejected, why_);
    return this->outcome();
  }

 private:
  ISync& object_;
  std::string why_;
};

/// Takes a permit if one is at hand; does not wait for it.
class permit_at_hand {
 public:
  static constexpr bool is_fair = true;

  explicit permit_at_hand(Semaphore& from) noexcept : from_(from) {}

  bool await_ready() noexcept {
    permit_ = from_.try_acquire();
    return true;
  }
  bool await_suspend(std::coroutine_handle<>) const noexcept { return false; }
  Semaphore::Permit await_resume() noexcept { return std::move(permit_); }

 private:
  Semaphore& from_;
  Semaphore::Permit permit_;
};

/// The wait for a permit.
class permit_wait final : public inner_steps<permit_wait> {
 public:
  explicit permit_wait(Semaphore& from) noexcept : from_(from) {}

  bool begins() const noexcept { return true; }
  void add_steps(IAsyncSteps& asi) {
    asi.add(
        [this](IAsyncSteps& outside) {
          from_.acquire(outside);
          outside.add([this](IAsyncSteps&, Semaphore::Permit permit) { permit_ = std::move(permit); });
        },
        [this](IAsyncSteps& ended, ErrorCode code) {
          if (code != errors::DefenseRejected) return;
          why_ = ended.state().error_info().str();
          ended.success();
        });
  }
  Semaphore::Permit await_resume() {
    this->collect();
    if (!permit_) throw Error(errors::DefenseRejected, why_);
    return std::move(permit_);
  }

 private:
  Semaphore& from_;
  Semaphore::Permit permit_;
  std::string why_;
};

}  // namespace detail

/// A task that waits for a permit and has it as its value. It throws Error (DefenseRejected) when the queue is full.
///
///   steps::Semaphore::Permit permit = co_await steps::interop::acquire(connections);
///
/// Use it for a permit that is handed on, or given back at another time than the end of a task. Do not use it for the
/// time of one task: that is sync().
///
/// Threads, exceptions  those of with_timeout(), which can limit the wait.
/// Memory      a frame and three steps; a flow that has to wait takes a recycled block.
/// Lifetime    `semaphore` outlives the wait and the permit.
inline task<Semaphore::Permit> acquire(Semaphore& semaphore) {
  Semaphore::Permit permit = co_await detail::permit_at_hand(semaphore);
  if (permit) co_return permit;
  detail::permit_wait wait(semaphore);
  co_return co_await wait;
}

/// A task that waits for a place in `object`, runs `work` there, and gives the place back when `work` has ended, in
/// whatever way. It has the value or exception of `work`; or it throws Error (DefenseRejected) when the queue of
/// `object` is full, and `work` has not begun.
///
///   co_await steps::interop::sync(connections, ask(server));   // steps::Semaphore connections(8);
///
/// Use it for what asi.sync() is for. Do not use it to protect data for the time between two waits: on one loop nothing
/// comes between, and for flows of several threads a std::mutex that is not held during a wait is cheaper.
///
/// Recursion   in a coroutine that is a step, that of asi.sync(): a Mutex(n) lets the flow in again. The tasks of
///             when_all() and when_any(), and coroutines that are no steps, are flows of their own.
/// asi         `work` runs in a step of its own: calls on the `asi` of the coroutine's step, such as setTimeout(),
///             stack() and stop_token_of(), are InternalError there.
/// Threads, exceptions  those of with_timeout().
/// Memory      a frame, three steps and a place; a flow that has to wait takes a recycled block.
/// Lifetime    `object` outlives the wait.
template <class T>
task<T> sync(ISync& object, task<T> work) {
  detail::synced_task<T> synced(object, std::move(work));
  co_return co_await synced;
}

}  // namespace steps::inline v0_1::interop
