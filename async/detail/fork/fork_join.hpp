// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <exception>    // for exception_ptr, current_exception, rethrow_exception
#include <memory>       // for destroy_at
#include <new>          // for placement new
#include <type_traits>  // for is_trivially_copyable_v
#include <utility>      // for move

#include "async/detail/fork/fork_state.hpp"        // for fork_state
#include "async/detail/future/broken_promise.hpp"  // for broken_promise
#include "async/detail/pool/credit_turn.hpp"       // for settle_credits
#include "async/detail/pool/job.hpp"               // for job
#include "async/detail/pool/participant.hpp"       // for participant, job_deque
#include "async/detail/pool/pool_core.hpp"         // for wait_until, take_back, try_fork
#include "async/detail/pool/pool_worker.hpp"       // for end_if_returned
#include "async/detail/scope/scope_cache.hpp"      // for task_scope, begin_scope, end_scope, current_scope, scope_guard
#include "async/detail/wait/pool_functions.hpp"    // for wait_until

namespace async::inline v0_1::detail {

/// The second of two calls. It lies on the stack of the thread that makes the first call, and that thread waits until
/// it is done, so that nothing is allocated or counted.
///
/// A thief that takes it gives it a scope, by which the waiting thread recognises the tasks that it creates. Without a
/// thief it has no scope.
template <class G>
class stack_job : public job {
 public:
  using outcome = fork_state<task_scope>::outcome;

  explicit stack_job(const G& second) noexcept : job{&come}, g_(second) {}
  ~stack_job() {}
  stack_job(const stack_job&) = delete;
  stack_job& operator=(const stack_job&) = delete;

  const fork_state<task_scope>& state() const noexcept { return state_; }

  /// Skips the call if it has not begun, and the tasks that it creates.
  void cancel() noexcept {
    if (task_scope* const s = state_.cancel()) s->cancel();
  }
  /// Called once, when it is done: frees the scope, and returns what the call threw, or null.
  std::exception_ptr close() noexcept {
    if (task_scope* const s = state_.scope()) end_scope(*s);
    if (state_.result() != outcome::failed) return nullptr;
    std::exception_ptr error = std::move(error_);
    std::destroy_at(&error_);
    return error;
  }

 private:
  static void come(job* base) {
    auto* const self = static_cast<stack_job*>(base);
    settle_credits();  // no group counts this task, whose scope may be a group's
    outcome o = outcome::skipped;
    task_scope* mine = current_scope();
    bool is_wanted = true;
    try {
      mine = &begin_scope(mine);
      is_wanted = self->state_.begin(*mine);
    } catch (...) {  // no memory for a scope: then no thread helps, and only the scope around cancels it
    }
    try {
      const scope_guard inside(mine);
      if (is_wanted && (mine == nullptr || !mine->is_cancelled())) {
        self->g_(true);
        end_if_returned();
        o = outcome::made;
      }
    } catch (...) {
      end_if_returned();
      std::exception_ptr error = std::current_exception();
      const bool ends_thread = error == nullptr;  // pthread_exit()
      ::new (static_cast<void*>(&self->error_)) std::exception_ptr(ends_thread ? broken_promise() : std::move(error));
      self->state_.finish(outcome::failed);
      if (ends_thread) throw;
      return;
    }
    self->state_.finish(o);
  }

  const G g_;
  fork_state<task_scope> state_;
  union {
    std::exception_ptr error_;  // when it has failed
  };
};

/// Takes the second call back. False: a thief has taken it.
[[gnu::always_inline]] inline bool take_back(participant& part, job& second) {
  job_deque::element other;
  if (part.own.pop_expected(&second, other)) [[likely]]
    return true;
  return other && part.pool.take_back(part, other, &second);
}

[[gnu::noinline]] inline void wait_for_second(participant& part, const fork_state<task_scope>& second) {
  part.pool.wait_until(part, wait_scope(second),
                       [&second] { return second.result() != fork_state<task_scope>::outcome::open; });
}

/// Calls f() and g(false), but not g() when `around` is cancelled: then false.
template <class F, class G>
[[gnu::noinline]] bool call_in_turn(task_scope* around, const F& f, const G& g) {
  f();
  if (around != nullptr && around->is_cancelled()) return false;
  g(false);
  return true;
}

/// Calls f() on this thread, and g(stolen) on this thread or another; `stolen` is true on another. Returns when both
/// are done. Throws what f() threw, else what g() threw. False: g() was not called, because `around`, the current
/// scope, is cancelled. g is copied: let it hold references.
template <class F, class G>
[[gnu::always_inline]] inline bool fork_join(participant& part, task_scope* around, const F& f, const G& g) {
  static_assert(std::is_trivially_copyable_v<G>);
  using second_call = stack_job<G>;
  second_call second(g);
  if (!part.pool.try_fork(part, &second, around)) [[unlikely]]
    return call_in_turn(around, f, g);  // no memory
  try {
    f();
    end_if_returned();
  } catch (...) {
    end_if_returned();
    if (!take_back(part, second)) {
      second.cancel();
      wait_for_second(part, second.state());
      static_cast<void>(second.close());
    }
    throw;
  }
  if (take_back(part, second)) [[likely]] {
    if (around != nullptr && around->is_cancelled()) [[unlikely]]
      return false;
    g(false);
    return true;
  }
  wait_for_second(part, second.state());
  if (const std::exception_ptr error = second.close()) std::rethrow_exception(error);
  return second.state().result() == second_call::outcome::made;
}

}  // namespace async::inline v0_1::detail
