// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdio>     // for fprintf
#include <exception>  // for terminate
#include <new>        // for placement new
#include <stdexcept>  // for logic_error
#include <thread>     // for thread
#include <utility>    // for move, forward

#include "async/detail/base/chrono.hpp"       // for duration, nanoseconds
#include "async/detail/base/forks.hpp"        // for fork_member, forks, end_forked_child
#include "async/detail/base/own_section.hpp"  // for own_section
#include "async/event_loop.hpp"               // for event_loop

namespace steps::inline v0_1 {

/// An event loop with its own thread, or embedded in another loop: the AsyncTool of FTN12.
///
///   steps::AsyncTool tool;
///   steps::AsyncSteps flow{tool};
///
/// Use it to run flows beside the rest of a program (`AsyncTool tool;`), or inside an existing loop, such as that of a
/// user interface or of a network library (`AsyncTool tool(wake);` and iterate()). Do not use it where
/// async::event_loop::run() can be called, or where flows are to run on several cores (async::threadpool).
///
/// Threads     immediate(), deferred(), post(), is_same_thread() and handles: any, without waiting for the loop's
///             thread. iterate(): the thread that made the tool, only of an embedded one. Destruction: any but the
///             loop's own.
/// Lifetime    The destructor waits for the callback that is running, and perhaps for others that are ready. It
///             destroys the rest without running them.
/// Fork        In a child of fork(), a tool of the parent with a thread runs nothing and destroys nothing; callbacks
///             that are handed in, and execute() of its flows, throw async::stopped_by_fork.
/// Everything else is as with async::event_loop.
class AsyncTool : async::detail::fork_member {
 public:
  using Handle = async::event_loop::handle;             ///< refers to a callback
  using CycleResult = async::event_loop::cycle_result;  ///< what iterate() returns

  /// Starts a thread that runs the loop. Throws std::system_error when it cannot.
  AsyncTool() : fork_member(&forked) {
    async::detail::core_of(loop_).disown();  // no owner until the thread runs: callbacks go through the inbox
    thread_ = std::thread([this] {
      loop_.run();
      if (async::detail::core_of(loop_).is_left_behind()) async::detail::end_forked_child();
    });
    async::detail::forks.value.join(*this);
  }

  /// A loop that another loop drives: `wake` makes that loop call iterate() soon. Any thread may call it, and two at a
  /// time: when a callback is handed in after iterate() has returned without work at hand, and when iterate() throws
  /// what a hook has thrown. It must not throw.
  explicit AsyncTool(async::task wake) : fork_member(&forked), loop_(std::move(wake)) {}

  AsyncTool(const AsyncTool&) = delete;
  AsyncTool& operator=(const AsyncTool&) = delete;

  /// Ends the loop and its thread. On that thread it ends the program with a message.
  ~AsyncTool() {
    if (!thread_.joinable()) return;
    if (async::detail::core_of(loop_).is_left_behind()) {  // in a child of fork(): the thread is the parent's
      ::new (static_cast<void*>(&thread_)) std::thread;
      return;
    }
    if (thread_.get_id() == std::this_thread::get_id()) {
      std::fprintf(stderr, "asyncsteps: an AsyncTool is destroyed by a callback of its own\n");
      std::terminate();
    }
    async::detail::forks.value.leave(*this);
    const async::detail::own_section here;  // in a task of a pool
    loop_.stop();
    thread_.join();
  }

  /// See async::event_loop::immediate().
  Handle immediate(async::task work) { return loop_.immediate(std::move(work)); }
  /// See async::event_loop::deferred().
  Handle deferred(std::chrono::nanoseconds delay, async::task work) { return loop_.deferred(delay, std::move(work)); }
  /// The same with any duration.
  template <class Rep, class Period>
  Handle deferred(std::chrono::duration<Rep, Period> delay, async::task work) {
    return loop_.deferred(delay, std::move(work));
  }
  /// See async::event_loop::post().
  void post(async::task work) { loop_.post(std::move(work)); }
  /// True on the thread that runs the loop.
  bool is_same_thread() const noexcept { return loop_.is_same_thread(); }

  /// See async::event_loop::iterate(). Throws std::logic_error when the loop has a thread of its own.
  CycleResult iterate() {
    if (thread_.joinable()) throw std::logic_error("steps::AsyncTool::iterate: the loop has a thread of its own");
    return loop_.iterate();
  }

  /// See async::event_loop::on_unhandled(). Call it before the first callback is handed in, or in a callback.
  template <class F>
  void on_unhandled(F&& hook) {
    loop_.on_unhandled(std::forward<F>(hook));
  }

  /// Gives unused memory back to the system, soon.
  void release_memory() {
    loop_.post([this] { static_cast<void>(loop_.trim()); });
  }

  /// The loop itself, for functions that take one.
  async::event_loop& loop() noexcept { return loop_; }
  /// The loop itself.
  operator async::event_loop&() & noexcept { return loop_; }  // NOLINT: it is one
  operator async::event_loop&() && = delete;                  // it would not outlive its flows

 private:
  static bool forked(fork_member& self, async::detail::fork_stage at) noexcept {
    if (at != async::detail::fork_stage::in_child) return true;
    async::detail::core_of(static_cast<AsyncTool&>(self).loop_).leave_behind();
    return false;
  }

  async::event_loop loop_;
  std::thread thread_;
};

}  // namespace steps::inline v0_1
