// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <pplx/pplx.h>
#include <pplx/pplxinterface.h>

#include <memory>  // for make_shared

#include "async/threadpool.hpp"  // for threadpool

namespace async::inline v0_1::interop {

/// Runs the tasks and continuations of cpprestsdk (pplx) on a threadpool. Needs cpprestsdk 2.10 or newer, and its
/// library.
///
///   async::threadpool pool;
///   async::interop::use_as_pplx_scheduler(pool);      // before the first pplx::task
///   pplx::create_task([] { return 1; }).then(…).wait();
///
/// Use it for programs on cpprestsdk that have a pool already, or whose tasks are short. Do not use it where tasks wait
/// for other tasks with wait() or get(): these block a worker, as they block a thread of pplx's own 40; use then().
///
/// Order       as tasks of the pool.
/// Threads     any.
/// Exceptions  schedule() throws stopped, queue_full and std::bad_alloc to the code that creates the task. What
///             tasks throw stays with the tasks.
/// Lifetime    the pool outlives the last task that was made with this scheduler.
class pplx_scheduler final : public pplx::scheduler_interface {
 public:
  /// For this pool.
  explicit pplx_scheduler(threadpool& pool) noexcept : pool_(pool) {}

  /// Called by pplx: posts function(argument).
  void schedule(pplx::TaskProc_t function, void* argument) override {
    pool_.execute([function, argument] { function(argument); });
  }

 private:
  threadpool& pool_;
};

/// Makes the pool the ambient scheduler of pplx, which runs all tasks that name no other. Call it once, before any
/// other use of pplx. Throws what pplx throws if it is too late.
inline void use_as_pplx_scheduler(threadpool& pool) {
  pplx::set_ambient_scheduler(std::make_shared<pplx_scheduler>(pool));
}

}  // namespace async::inline v0_1::interop
