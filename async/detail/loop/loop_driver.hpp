// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for size_t
#include <utility>  // for exchange

#include "async/detail/base/unhandled.hpp"  // for hook_ref
#include "async/detail/loop/loop_core.hpp"  // for loop_core

namespace async::inline v0_1::detail {

/// Drives a loop between other work, by threads that sleep elsewhere: the workers of a pool. It takes the place of
/// run() and iterate(), which users cannot call for such a loop.
///
/// The loop calls its `wake` when it has got work: with the first message after those that a turn has taken, and when a
/// thread has been in the loop between turns. A turn follows.
///
/// Threads     turns: one thread at a time; between turns the loop has no owner.
/// Progress    a turn waits while another thread claims the loop for a moment, see loop_entry.
class loop_driver {
 public:
  /// The loop was made with such a `wake`.
  explicit loop_driver(loop_core& core) noexcept : core_(core) {
    core.is_of_pool_ = true;
    core.inbox_.always_wake();
    core.disown();
    core.owner_.share();
  }
  loop_driver(const loop_driver&) = delete;
  loop_driver& operator=(const loop_driver&) = delete;

  loop_core& core() const noexcept { return core_; }

  /// Makes turns of the calling thread cheap until unbias(). No other thread may make a turn in between.
  void bias() noexcept { core_.owner_.bias(thread_token()); }
  void unbias() noexcept { core_.owner_.unbias(); }

  /// Whether messages wait for a turn. Sees those of the calling thread, also one whose wake another thread owes.
  bool has_messages() const noexcept { return core_.inbox_.has_messages(); }

  /// By the thread that is in the loop: whether nothing belongs to it, no flow, timer or message. Then its hook for
  /// unhandled exceptions is `hook` again, whatever the last flow has set.
  bool vacate(const hook_ref& hook) noexcept {
    if (!is_vacant()) return false;
    if (core_.unhandled_ != hook) [[unlikely]]
      core_.unhandled_ = hook;
    return true;
  }

  /// While it lives, the calling thread is in a turn of the loop. Must not be made inside a turn of the same loop.
  class turn {
   public:
    explicit turn(loop_driver& of) : scope_(of.core_) {}
    turn(const turn&) = delete;
    turn& operator=(const turn&) = delete;

    /// Delivers messages, fires due timers, runs what is ready: a bounded number of each. `look`: reads the clock,
    /// otherwise only when it is time to. Passes on what the hook for unhandled exceptions throws.
    void run(bool look) {
      loop_core& core = scope_.core;
      core.deliver_messages();
      core.fire_timers(look || core.ran_since_clock_ >= core.clock_interval_);
      core.run_ready();
    }

    /// Whether there is more to do at once. Messages count: their `wake` may have led to this turn, which has not taken
    /// them while older ones were left.
    bool has_work() noexcept { return scope_.core.has_work() || scope_.core.inbox_.has_messages(); }
    /// The time of the first timer, or time_point::max().
    loop_core::time_point next_deadline() noexcept {
      loop_core& core = scope_.core;
      if (!core.timers_.maybe_armed() || core.timers_.none_waiting()) return (loop_core::time_point::max)();
      if (core.timers_.has_fresh()) core.settle_timers();
      return core.timers_.next_deadline();
    }
    /// The runnable that has run last, for a prefetch: it may have gone. Null: none has run.
    const void* last_run() const noexcept { return scope_.core.ready_.last(); }

    // --- the end: by a thread that has stopped all workers ---

    /// Cancels waiting flows. From here on, runnables and timers only release what they hold.
    void begin_close() {
      scope_.core.closing_ = true;
      scope_.core.extension_.close();
    }
    /// Drops all work, and the work that this creates. True: there was some.
    bool drain() {
      loop_core& core = scope_.core;
      core.extension_.close();
      bool any = false;
      while (core.has_work() || !core.timers_.empty() || core.inbox_.has_messages()) {
        any = true;
        core.timers_.clear([](timer_node& node) { node.fire(node); });
        core.deliver_messages();
        core.run_ready();
      }
      return any;
    }

    /// The number of root flows that this has cancelled since the last call.
    std::size_t take_cancelled_flows() noexcept { return std::exchange(scope_.core.cancelled_flows_, 0U); }

   private:
    loop_core::turn_scope scope_;
  };

 private:
  bool is_vacant() const noexcept {
    return core_.ready_.reserved() == 0 && !core_.has_tenant() &&
           (!core_.timers_.maybe_armed() || core_.timers_.empty()) && core_.messages_.empty() && !has_messages();
  }

  loop_core& core_;
};

}  // namespace async::inline v0_1::detail
