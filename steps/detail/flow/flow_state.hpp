// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>      // for uint8_t, uint16_t, uint32_t
#include <string_view>  // for string_view
#include <utility>      // for exchange

#include "async/detail/base/config.hpp"       // for ASYNCSTEPS_ASSERT
#include "async/detail/loop/ready_queue.hpp"  // for runnable
#include "async/priority.hpp"                 // for priority

namespace steps::inline v0_1::detail {

enum class run_state : std::uint8_t { idle, queued, running, waiting };

/// The next action for the current step. Stored as a whole word: or-ing a byte in beside others costs a
/// store-forwarding stall, which no instruction count shows.
enum class verdict : std::uint32_t {
  none,
  wait,     ///< the step does not end with its function
  yield,    ///< the flow goes to the end of the ready queue before the sub-steps run or the step ends
  success,  ///< success()
  error,    ///< flow.pending holds it
  cancel,
  start,  ///< queued only: run the first step of the root
  rerun   ///< queued only: run flow.cur
};

/// The word for this end in traces.
constexpr std::string_view ending(verdict last) noexcept {
  return last == verdict::error ? "error" : last == verdict::cancel ? "cancel" : "success";
}

/// The state of a flow. Only these functions change it, one per transition. The functions of the engine that act on a
/// transition (push to the ready queue, run handlers, free memory) call these.
///
///   state    verdict  the flow
///   idle     none     is being built, or has ended, or its start is on its way to its loop (executing_flag is set)
///            error    was misused while it was built; the error is raised at the start
///            cancel   was cancelled while its start was on its way to its loop
///   queued   start    is in the ready queue, and its turn begins with the first step of the root
///            rerun    the same with a run of flow.cur
///            success  the same with the end of flow.cur
///            error    the same with the unwinding of flow.cur
///   running  none     runs a function that has said nothing, or is between two functions
///            others   runs a function that has said so, or has just returned from it; never start, rerun
///   waiting  none     waits for an event
///            error    holds an error until branches have ended
///            cancel   holds a cancel until branches have ended
///
///   transition        from                          to
///   start(why)        idle: none, error             queued: start, error
///   fail_start()      idle: error, cancel           running: the same
///   cancel_start()    idle: any                     idle: cancel
///   begin_turn()      queued: any                   running: none. Returns the verdict before.
///   end_turn(why)     running: none, yield          queued: rerun, success
///   suspend()         running: wait                 waiting: none
///   wake(why)         waiting: none                 queued: rerun, success, error
///                     waiting: error                queued: error
///   recall()          queued: rerun                 waiting: none
///   mark_wait()       running: any                  running: wait instead of none, else the same
///   mark_yield()      running: none, wait           running: yield
///   mark_success()    running: none, wait           running: success
///   mark_error()      any                           the same state: cancel if it was cancel, else error
///   mark_cancel()     running: any                  running: cancel
///   clear_verdict()   running: any but cancel       running: none
///   hold_error()      running: none                 waiting: error
///   hold_cancel()     running: cancel               waiting: cancel
///   unblock_end()     any, last blocker             waiting: cancel -> running: cancel; else the same
///   begin_cancel()    any but running               running: cancel. Returns the verdict before.
///   enter_callback()  any but running               running: the same
///   leave_callback()  running: any                  the state and verdict before enter_callback(). Returns whether the
///                                                   function has cancelled the flow.
///   finish()          idle, running: any            idle: none
///
/// Threads     the flow's: its loop's thread while it executes, else the thread that has the root. No member is atomic;
///             executing_flag and start_state tell which thread that is.
class flow_state : public async::detail::runnable {
 public:
  using runnable::runnable;

  bool is_idle() const noexcept { return state_ == run_state::idle; }
  bool is_queued() const noexcept { return state_ == run_state::queued; }
  bool is_running() const noexcept { return state_ == run_state::running; }
  bool is_waiting() const noexcept { return state_ == run_state::waiting; }

  verdict current_verdict() const noexcept { return static_cast<verdict>(user); }
  bool has_no_verdict() const noexcept { return is(verdict::none); }
  bool has_succeeded() const noexcept { return is(verdict::success); }
  bool is_failing() const noexcept { return is(verdict::error); }
  bool is_cancelled() const noexcept { return is(verdict::cancel); }
  /// True when the function that is running may still add sub-steps.
  bool is_open() const noexcept { return current_verdict() <= verdict::yield; }

  // --- turns ---

  void start(verdict why) noexcept {
    ASYNCSTEPS_ASSERT(is_idle() && (is(verdict::none) || is(verdict::error)));
    ASYNCSTEPS_ASSERT(why == verdict::start || why == verdict::error);
    queue(why);
  }
  /// The start has failed for lack of memory, or a destructor has cancelled it meanwhile; the execution ends at once.
  void fail_start() noexcept {
    ASYNCSTEPS_ASSERT(is_idle() && (is(verdict::error) || is(verdict::cancel)));
    state_ = run_state::running;
  }
  void cancel_start() noexcept {
    ASYNCSTEPS_ASSERT(is_idle());
    set(verdict::cancel);
  }
  verdict begin_turn() noexcept {
    ASYNCSTEPS_ASSERT(is_queued());
    const verdict why = current_verdict();
    set(verdict::none);
    state_ = run_state::running;
    return why;
  }
  void end_turn(verdict why) noexcept {
    ASYNCSTEPS_ASSERT(is_running() && (is(verdict::none) || is(verdict::yield)));
    ASYNCSTEPS_ASSERT(why == verdict::rerun || why == verdict::success);
    queue(why);
  }
  void suspend() noexcept {
    ASYNCSTEPS_ASSERT(is_running() && is(verdict::wait));
    set(verdict::none);
    state_ = run_state::waiting;
  }
  void wake(verdict why) noexcept {
    ASYNCSTEPS_ASSERT(is_waiting() && (is(verdict::none) || (is(verdict::error) && why == verdict::error)));
    ASYNCSTEPS_ASSERT(why == verdict::rerun || why == verdict::success || why == verdict::error);
    queue(why);
  }

  /// The caller takes the flow out of the ready queue, and wakes it.
  void recall() noexcept {
    ASYNCSTEPS_ASSERT(is_queued() && is(verdict::rerun));
    set(verdict::none);
    state_ = run_state::waiting;
  }

  // --- what the running function says of its step ---

  void mark_wait() noexcept {
    ASYNCSTEPS_ASSERT(is_running());
    if (is(verdict::none)) set(verdict::wait);
  }
  void mark_yield() noexcept {
    ASYNCSTEPS_ASSERT(is_running() && current_verdict() <= verdict::wait);
    set(verdict::yield);
  }
  void mark_success() noexcept {
    ASYNCSTEPS_ASSERT(is_running() && current_verdict() <= verdict::wait);
    set(verdict::success);
  }
  /// Also from outside of a turn, by what raises an error at the current step. A cancel is stronger.
  void mark_error() noexcept {
    if (!is(verdict::cancel)) set(verdict::error);
  }
  void mark_cancel() noexcept {
    ASYNCSTEPS_ASSERT(is_running());
    set(verdict::cancel);
  }
  /// The engine has acted on the verdict.
  void clear_verdict() noexcept {
    ASYNCSTEPS_ASSERT(is_running() && !is(verdict::cancel));
    set(verdict::none);
  }

  // --- the end ---

  /// The error waits for the end of branches on other loops.
  void hold_error() noexcept {
    ASYNCSTEPS_ASSERT(is_running() && is(verdict::none) && end_blockers_ != 0);
    set(verdict::error);
    state_ = run_state::waiting;
  }
  void hold_cancel() noexcept {
    ASYNCSTEPS_ASSERT(is_running() && is(verdict::cancel) && end_blockers_ != 0);
    state_ = run_state::waiting;
  }
  /// A cancel that waits for the end of a branch, which may be in a callback further up the stack.
  bool is_cancel_held() const noexcept { return is_waiting() && is(verdict::cancel); }
  /// A held cancel or a held error.
  bool is_end_held() const noexcept {
    return end_blockers_ != 0 && is_waiting() && (is(verdict::cancel) || is(verdict::error));
  }

  /// One more reason to hold an end by error or cancel: branches that have not ended, or a callback on the stack that
  /// goes on to use the flow.
  void block_end() noexcept { ++end_blockers_; }
  bool has_end_blockers() const noexcept { return end_blockers_ != 0; }
  enum class unblocked : std::uint8_t { nothing, error, cancel };
  /// One reason less. error: the held error goes on, wake() follows. cancel: the held cancel does.
  unblocked unblock_end() noexcept {
    const bool is_held = is_end_held();
    ASYNCSTEPS_ASSERT(end_blockers_ != 0);
    if (--end_blockers_ != 0 || !is_held) return unblocked::nothing;
    if (is(verdict::error)) return unblocked::error;
    state_ = run_state::running;
    return unblocked::cancel;
  }
  /// One reason less; the caller goes on with the error that is held, if there is one.
  void forget_blocker() noexcept {
    ASYNCSTEPS_ASSERT(end_blockers_ != 0 && !is_cancel_held());
    --end_blockers_;
  }

  verdict begin_cancel() noexcept {
    ASYNCSTEPS_ASSERT(!is_running());
    state_ = run_state::running;
    return static_cast<verdict>(std::exchange(user, word(verdict::cancel)));
  }
  void finish() noexcept {
    ASYNCSTEPS_ASSERT(is_idle() || is_running());
    set(verdict::none);
    has_remains_ = true;
    state_ = run_state::idle;
  }

  // --- functions of users outside of a turn, such as destructors ---

  struct interrupted {
    run_state state;
    verdict of_step;
  };
  interrupted enter_callback() noexcept {
    ASYNCSTEPS_ASSERT(!is_running());
    return {std::exchange(state_, run_state::running), current_verdict()};
  }
  enum class callback_end : std::uint8_t { unchanged, cancelled };
  /// cancelled: the function has cancelled the flow, and the caller does so now, in the state of before.
  [[nodiscard]] callback_end leave_callback(interrupted before) noexcept {
    ASYNCSTEPS_ASSERT(is_running());
    state_ = before.state;
    if (!is(verdict::cancel)) return callback_end::unchanged;
    set(before.of_step);
    return callback_end::cancelled;
  }

  // --- marks ---

  /// True from finish() until the objects and memory of the execution have been cleared, see remains.hpp.
  bool has_remains() const noexcept { return has_remains_; }
  void clear_remains() noexcept { has_remains_ = false; }

  /// A place in the loop's ready queue is reserved for the flow, from its start to its end.
  void add_place() noexcept {
    ASYNCSTEPS_ASSERT(!has_place_);
    has_place_ = true;
  }
  /// True: there was one, and the caller gives it back to the queue.
  bool remove_place() noexcept { return std::exchange(has_place_, false); }

  /// The root is gone, or there has never been one: the flow is released at its end.
  bool is_detached() const noexcept { return detached_; }
  void detach() noexcept { detached_ = true; }

 private:
  using runnable::user;  // the verdict

  static constexpr std::uint32_t word(verdict v) noexcept { return static_cast<std::uint32_t>(v); }
  bool is(verdict v) const noexcept { return user == word(v); }
  void set(verdict v) noexcept { user = word(v); }
  void queue(verdict why) noexcept {
    set(why);
    state_ = run_state::queued;
  }

  run_state state_ = run_state::idle;
  bool has_remains_ = false;
  bool has_place_ = false;
  bool detached_ = false;
  std::uint8_t end_blockers_ = 0;

 public:
  async::priority level = async::priority::normal;  ///< of a flow on a pool
  std::uint16_t burst = 100;                        ///< steps in a row
};

}  // namespace steps::inline v0_1::detail
