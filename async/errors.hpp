// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <future>     // for future_error, future_errc
#include <stdexcept>  // for runtime_error

#include "async/detail/base/config.hpp"  // for ASYNCSTEPS_SHARED_TYPE

namespace async::inline v0_1 {

/// Thrown by a post to a pool that has been stopped. The task was not accepted; it is destroyed on the calling thread.
class ASYNCSTEPS_SHARED_TYPE stopped : public std::runtime_error {
 public:
  stopped() : std::runtime_error("async: the thread pool has been stopped") {}

 protected:
  explicit stopped(const char* text) : std::runtime_error(text) {}
};

/// Thrown in a child of fork() by a post to a pool, or to a loop with a thread, of the parent, and by waits for tasks
/// there: their threads exist in the parent only. The task was not accepted; it is destroyed on the calling thread. Use
/// the shared pool, which the child makes anew, or a new pool or loop.
class ASYNCSTEPS_SHARED_TYPE stopped_by_fork : public stopped {
 public:
  stopped_by_fork() : stopped("async: the pool or loop belongs to the parent process") {}
};

/// Tag of stop(discard): tasks that have not begun are dropped.
struct discard_t {
  explicit discard_t() = default;
};
/// The tag object.
inline constexpr discard_t discard{};

/// Thrown by a post to a pool whose bounded queue is full and whose policy is `reject`. The task was not accepted.
class ASYNCSTEPS_SHARED_TYPE queue_full : public std::runtime_error {
 public:
  queue_full() : std::runtime_error("async: the queue of the thread pool is full") {}
};

/// The error in the future of a call that was never made, or of a flow, a when_all() or a when_any() that was ended:
/// cancel() has ended it; stop() of its pool has; or the pool has refused the call where no post could throw, as in
/// then(pool, f). A broken promise that tells why; handlers of flows get the codes BrokenPromise, Stopped and
/// QueueFull.
class ASYNCSTEPS_SHARED_TYPE dropped_call : public std::future_error {
 public:
  /// Why there is no result: the pool has been stopped, its queue was full, or the call or flow has been cancelled. A
  /// flow is cancelled by cancel() of its future, by its own cancel(), and by its destruction.
  enum class reason { stopped, queue_full, cancelled };

  /// Constructs the error for a reason.
  explicit dropped_call(reason why) : std::future_error(std::future_errc::broken_promise), why_(why) {}

  /// Returns why there is no result.
  reason why() const noexcept { return why_; }
  /// The text of stopped or of queue_full, or that the work has been cancelled. Valid as long as the program.
  const char* what() const noexcept override {
    if (why_ == reason::cancelled) return "async: the call or flow has been cancelled";
    return why_ == reason::stopped ? "async: the thread pool has been stopped"
                                   : "async: the queue of the thread pool is full";
  }

 private:
  reason why_;
};

}  // namespace async::inline v0_1
