// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <algorithm>  // for min

#include "async/detail/loop/loop_core.hpp"  // for loop_core

namespace async::detail {

/// The host's view of a loop between turns, when other threads may be in it.
struct host_view {
  bool has_work = true;     // turn() would find something to do, without a look at the clock
  bool has_timers = false;  // turn(true) may find more
};

/// While it lives, the calling thread is in a turn of the loop that it hosts. At the end it renews the view.
class hosted_turn {
 public:
  hosted_turn(loop_core& core, host_view& view) : scope_(core), view_(view) {}
  ~hosted_turn() {
    loop_core& core = scope_.core;
    view_ = {core.has_work(), !core.timers_.none_waiting()};
  }
  hosted_turn(const hosted_turn&) = delete;
  hosted_turn& operator=(const hosted_turn&) = delete;

 private:
  loop_core::turn_scope scope_;
  host_view& view_;
};

/// Drives a loop between other work, by a thread that sleeps elsewhere: a worker of a pool. It takes the place of run()
/// and iterate(), which users cannot call for such a loop.
///
/// Threads     one at a time. Another thread may follow when the first has called release().
/// Progress    turn() and sleep() wait while another thread claims the loop for a moment, see loop_entry.
class loop_host {
 public:
  /// The loop was made with a `wake` that makes its host call turn(). It has no owner until then.
  explicit loop_host(loop_core& core) noexcept : core_(core) {
    core.hosted_ = true;
    core.disown();
  }
  loop_host(const loop_host&) = delete;
  loop_host& operator=(const loop_host&) = delete;

  loop_core& core() const noexcept { return core_; }

  /// Whether turn() would find something to do without a look at the clock, as far as the host can know.
  bool has_work() const noexcept { return view_.has_work || is_called(); }
  /// The same, for work that other threads, including the former host, have brought since the last turn. Any thread may
  /// ask.
  bool is_called() const noexcept {
    // relaxed: a hint; sleep() decides
    return core_.inbox_.has_messages() || core_.touched_.load(std::memory_order_relaxed);
  }
  /// Whether turn(true) may find more: a timer waits.
  bool has_timers() const noexcept { return view_.has_timers; }

  /// Runs one bounded turn; ends sleep(). `look`: reads the clock, otherwise only when it is time to. Passes on what
  /// the hook for unhandled exceptions throws.
  void turn(bool look) {
    const hosted_turn scope(core_, view_);
    core_.touched_.store(false, std::memory_order_relaxed);  // the work that it reports is done here
    core_.deliver_messages();
    core_.fire_timers(look || core_.ran_since_clock_ >= core_.clock_interval_ ||
                      (core_.ready_.empty() && !core_.timers_.any_due()));
    core_.run_ready();
  }

  /// Calls f() in a turn. Inside of a turn of this loop it just calls f(). Must not be called inside of a turn of
  /// another loop.
  template <class F>
  void visit(F f) {
    if (current_loop == &core_) return f();
    const hosted_turn scope(core_, view_);
    f();
  }

  /// Announces that turn() will not be called before `deadline`, unless the loop is woken. Brings `deadline` forward to
  /// that of the first timer. False: there is something to do. turn() ends the announcement.
  bool sleep(loop_core::time_point& deadline) {
    const hosted_turn scope(core_, view_);
    if (core_.has_work()) return false;
    core_.touched_.store(false, std::memory_order_relaxed);  // a thread that enters from here on ends the sleep
    core_.settle_timers();
    core_.clock_interval_ = 1;
    deadline = (std::min)(deadline, core_.timers_.next_deadline());
    return core_.inbox_.sleep(true);
  }

  /// Lets another thread become the host, and calls it if there is work.
  void release() noexcept {
    if (view_.has_work) core_.touched_.store(true, std::memory_order_relaxed);  // relaxed: see is_called()
    core_.disown();
  }

  // --- the end: by a thread that has stopped all hosts ---

  /// Cancels waiting flows. From here on, runnables and timers only release what they hold.
  void begin_close() {
    const hosted_turn scope(core_, view_);
    core_.closing_ = true;
    core_.extensions_.close();
  }
  /// Drops all work, and the work that this creates. True: there was some.
  bool drain() {
    const hosted_turn scope(core_, view_);
    core_.extensions_.close();
    bool any = false;
    while (core_.has_work() || !core_.timers_.empty() || core_.inbox_.has_messages()) {
      any = true;
      core_.timers_.clear([](timer_node& node) { node.fire(node); });
      core_.deliver_messages();
      core_.run_ready();
    }
    return any;
  }

 private:
  loop_core& core_;
  host_view view_;
};

}  // namespace async::detail
