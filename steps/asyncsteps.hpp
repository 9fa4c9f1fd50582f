// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint16_t
#include <new>      // for operator delete
#include <utility>  // for exchange, swap

#include "async/event_loop.hpp"               // for event_loop
#include "async/priority.hpp"                 // for priority
#include "async/threadpool.hpp"               // for threadpool
#include "steps/detail/instantiations.hpp"    // exports group_step
#include "steps/detail/root/pooled_flow.hpp"  // for pooled_flow
#include "steps/iasyncsteps.hpp"              // for IAsyncSteps

namespace steps::inline v0_1 {

/// A root flow: steps that run one after the other on an event loop (FTN12 2.2.3).
///
/// Use it for a piece of business logic with errors, timeouts and cancellation. Do not use it where all memory must be
/// reserved beforehand (NitroSteps), or where no object can own the flow (steps::post).
///
///   async::event_loop loop;
///   steps::AsyncSteps flow{loop};
///   flow.add([](steps::IAsyncSteps& asi) { asi.success(42); });
///   async::future<int> answer = flow.promise<int>();
///
/// On a threadpool in place of a loop, any worker that is free starts the flow and goes on with it after each wait. One
/// thread at a time runs the flow, and each step sees what the steps before have done; a thread_local object may be
/// another one after a wait or relinquish(). A step that blocks holds up its own flow only.
///
/// Threads     one at a time, which need not be the loop's; cancel(): any.
/// Lifetime    The loop or pool outlives the flow's executions. A flow that is left over can only be destroyed.
///             Destroying a flow that executes cancels it; its handlers may still use the object, but neither move from
///             it nor assign to it. While another flow is assigned to it they get that one. On another thread than the
///             loop's the destructor waits for that. A callback of the flow may destroy it, also one of a branch on
///             another loop; so may any callback of its loop, and the destructor of what its steps have captured. The
///             memory stays until that callback has returned and the branches on other loops have ended. A callback may
///             also destroy flows of other loops, whatever happens there at the same time: while it waits, its own loop
///             goes on to end flows that others destroy. So it also waits for what the handlers of those flows wait
///             for. Callbacks that wait for each other in this way wait for ever, as threads that join each other do.
/// Memory      a recycled block of 440 bytes, which holds three or four steps; further ones in chunks of 504 bytes,
///             what an executing flow adds first in up to three of 192. A chunk that has become empty stays for the
///             next steps, until the flow waits or ends. On a pool the block has 568 bytes, and a loop of its own takes
///             384 more, from its start to its end. In the steady state a flow allocates nothing.
class AsyncSteps final : public IAsyncSteps {
 public:
  /// A flow without steps. Throws std::bad_alloc. An AsyncTool is an event_loop, too.
  explicit AsyncSteps(async::event_loop& loop) : AsyncSteps(detail::pooled_flow::make(&async::detail::core_of(loop))) {}
  explicit AsyncSteps(async::threadpool& pool) : AsyncSteps(detail::pooled_flow::make_for_queue()) {
    flow_->pool = &pool.core();
  }
  /// The same with a priority: on the pool the flow starts, goes on after each wait or relinquish(), and runs its
  /// branches before or after other tasks and flows, as async::priority says.
  AsyncSteps(async::threadpool& pool, async::priority wanted) : AsyncSteps(pool) { flow_->level = wanted; }
  /// Takes the flow over, also while it executes. `other` can only be destroyed or assigned to.
  AsyncSteps(AsyncSteps&& other) noexcept : AsyncSteps(other.take()) {}
  AsyncSteps& operator=(AsyncSteps&& other) noexcept {
    if (this != &other) {
      detail::flow* before = other.take();
      if (!is_ending()) std::swap(before, flow_);
      if (before != nullptr) detail::pooled_flow::give_up(*before);
    }
    return *this;
  }
  ~AsyncSteps() {
    if (flow_ == nullptr) return;
    flags_ |= ending;
    detail::pooled_flow::give_up(*flow_);
  }

  static void operator delete(void* memory) { ::operator delete(memory); }

 private:
  explicit AsyncSteps(detail::flow* f) noexcept {
    flags_ = detail::record_flag::is_root;
    ops_ = &face_functions;
    parent_ = nullptr;
    flow_ = f;
  }

  /// In the destructor, whose handlers may use the object. Its flow stays, and it takes no other.
  static constexpr std::uint16_t ending = detail::record_flag::begun;
  bool is_ending() const noexcept { return (flags_ & ending) != 0; }
  detail::flow* take() noexcept { return is_ending() ? nullptr : std::exchange(flow_, nullptr); }

  static void delete_face(detail::step& face) noexcept { delete &static_cast<AsyncSteps&>(face); }

  static constexpr detail::step_ops face_functions{nullptr, nullptr, &delete_face, {}};
};

}  // namespace steps::inline v0_1
