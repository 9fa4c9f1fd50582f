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

/// The error in the future of a call that was never made: stop(discard) has dropped it, or the pool has refused it
/// where no post could throw, as in then(pool, f). A broken promise that tells why; handlers of flows get the codes
/// Stopped and QueueFull.
class ASYNCSTEPS_SHARED_TYPE dropped_call : public std::future_error {
 public:
  /// Why a call was not made: the pool has been stopped, or its queue was full.
  enum class reason { stopped, queue_full };

  /// Constructs the error for a reason.
  explicit dropped_call(reason why) : std::future_error(std::future_errc::broken_promise), why_(why) {}

  /// Returns why the call was not made.
  reason why() const noexcept { return why_; }
  /// The text of stopped or of queue_full. Valid as long as the program.
  const char* what() const noexcept override {
    return why_ == reason::stopped ? "async: the thread pool has been stopped"
                                   : "async: the queue of the thread pool is full";
  }

 private:
  reason why_;
};

}  // namespace async::inline v0_1
