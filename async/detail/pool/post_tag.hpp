// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <atomic>  // for memory_order_relaxed

#include "async/detail/base/config.hpp"          // for ASYNCSTEPS_FUNCTION
#include "async/detail/loop/loop_core.hpp"       // for current_loop
#include "async/detail/pool/pool_worker.hpp"     // for this_worker
#include "async/detail/pool/shutdown_state.hpp"  // for shutdown_state
#include "async/detail/scope/scope_cache.hpp"    // for posted_task, posted_by_flow

namespace async::inline v0_1::detail {

/// While a pool stops, what a turn of a loop posts is a flow's work, and so is what such work posts. The stop does not
/// wait for it for as long as for other tasks, see flow_watch: flows that go on calling their pool never run out of it.
task_scope* tag_while_closing() noexcept;

/// The tag of a job that the calling thread posts from inside the pool.
inline task_scope* post_tag(const shutdown_state& its) noexcept {
  return its.is_closing() ? tag_while_closing() : &posted_task;
}

#if ASYNCSTEPS_DEFINED
[[gnu::noinline, gnu::cold]] ASYNCSTEPS_FUNCTION task_scope* tag_while_closing() noexcept {
  // relaxed: the thread's own
  const bool is_of_flow =
      current_loop != nullptr || (this_worker != nullptr && this_worker->runs_for_flow.load(std::memory_order_relaxed));
  return is_of_flow ? &posted_by_flow : &posted_task;
}
#endif

}  // namespace async::inline v0_1::detail
