// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>    // for uint32_t
#include <exception>  // for current_exception
#include <new>        // for placement new
#include <utility>    // for move

#include "async/detail/base/block_cache.hpp"     // for allocate_block, free_block
#include "async/detail/loop/callback_state.hpp"  // for callback_state
#include "async/detail/loop/loop_core.hpp"       // for loop_core
#include "async/detail/loop/loop_entry.hpp"      // for loop_entry
#include "async/detail/trace/trace_points.hpp"   // for ASYNCSTEPS_TRACE_SPAN
#include "async/errors.hpp"                      // for stopped_by_fork
#include "async/task.hpp"                        // for task

namespace async::inline v0_1::detail {

/// A task that a loop runs once, unless it is cancelled before. Handles refer to it.
///
/// On the loop's thread, immediate() and deferred() arm it as a timer. Other threads, and post() on any thread, send it
/// as a message. Once the loop holds it, the message is free to report that another thread has cancelled it.
class callback final : timer_node, message {
 public:
  using time_point = loop_core::time_point;

  /// Due in the next turn; from the loop's thread.
  static callback* immediate(loop_core& core, task&& work) {
    callback* const c = make(core, std::move(work), 1, way::held);
    core.timers().arm_now(*c);
    return c;
  }

  /// Due at `deadline`; from the loop's thread.
  static callback* deferred(loop_core& core, time_point deadline, task&& work) {
    callback* const c = make(core, std::move(work), 1, way::held);
    core.timers().arm(*c, deadline);
    return c;
  }

  /// Runs when the loop takes it from its inbox; from any thread.
  static callback* sent(loop_core& core, task&& work) {
    callback* const c = make(core, std::move(work), 1, way::sent_to_run);
    send(*c);
    return c;
  }

  /// The same without a handle.
  static void post(loop_core& core, task&& work) { send(*make(core, std::move(work), 0, way::sent_to_run)); }

  /// Due at `deadline`; from any thread.
  static callback* sent(loop_core& core, time_point deadline, task&& work) {
    callback* const c = make(core, std::move(work), 1, way::sent_to_wait);
    c->deadline_ = deadline;
    send(*c);
    return c;
  }

  bool pending() const noexcept { return state_.pending(); }
  void add_ref() noexcept { state_.add_ref(); }

  /// Gives a handle's reference back.
  void release() noexcept {
    if (current_loop == &core_ ? state_.release_on_loop() : state_.release()) destroy();
  }

  /// True: the callback will not run. False: it has started, or was cancelled before.
  bool cancel() noexcept {
    const callback_state::cancelled result = state_.cancel();
    if (result == callback_state::cancelled::tell_the_loop && tell_loop()) drop_reference();
    return result != callback_state::cancelled::too_late;
  }

 private:
  enum class way : unsigned char { held, sent_to_run, sent_to_wait };

  callback(loop_core& core, task&& work, std::uint32_t handles, way how) noexcept
      : timer_node(&due),
        message(&received),
        state_(handles, how != way::held),
        way_(how),
        core_(core),
        work_(std::move(work)) {}

  static callback* make(loop_core& core, task&& work, std::uint32_t handles, way how) {
    if (core.is_left_behind()) [[unlikely]]
      throw stopped_by_fork();
    return ::new (allocate_block(sizeof(callback), alignof(callback))) callback(core, std::move(work), handles, how);
  }

  static void send(callback& c) noexcept {
    if (!c.core_.push(c)) received(c, delivery::dropped);
  }

  void destroy() noexcept {
    this->~callback();
    free_block(this, sizeof(callback), alignof(callback));
  }

  /// The callback is cancelled. True: the loop has forgotten it, and the caller gives the loop's reference back.
  /// Between turns the thread has left the loop by then: what the task owns is destroyed in no callback, and may own
  /// the loop.
  bool tell_loop() noexcept {
    const loop_entry entry(core_, loop_entry::who::owner);
    if (entry) {
      core_.timers().disarm(*this);
    } else {
      core_.push(*this);
    }
    return static_cast<bool>(entry);
  }

  /// Gives the loop's reference back, and destroys the task.
  void drop_reference() noexcept {
    work_.reset();
    if (state_.release()) destroy();
  }

  void run() {
    try {
      ASYNCSTEPS_TRACE_SPAN(callback, "callback", 0);
      work_();
    } catch (...) {
      loop_core& core = core_;
      std::exception_ptr error = std::current_exception();
      drop_reference();
      if (error == nullptr) throw;  // pthread_exit()
      core.unhandled(std::move(error));
      return;
    }
    drop_reference();
  }

  static void due(timer_node& node) {
    auto& self = static_cast<callback&>(node);
    if (!self.state_.claim()) {
      self.core_.owe_cancel(+1);  // cancelled by another thread, whose message will end it
    } else if (self.core_.closing()) {
      self.drop_reference();
    } else {
      self.run();
    }
  }

  static void received(message& m, delivery how) {
    auto& self = static_cast<callback&>(m);
    const way by = self.way_;
    if (by == way::held) {  // cancelled by another thread
      if (self.armed()) {
        self.core_.timers().disarm(self);
      } else {
        self.core_.owe_cancel(-1);
      }
      self.drop_reference();
    } else if (how == delivery::dropped || self.core_.closing()) {
      static_cast<void>(self.state_.claim());
      self.drop_reference();
    } else if (by == way::sent_to_run) {
      if (self.state_.claim()) {
        self.run();
      } else {
        self.drop_reference();
      }
    } else if (self.state_.land()) {
      self.way_ = way::held;
      self.core_.timers().arm(self, self.deadline_);
    } else {
      self.drop_reference();
    }
  }

  callback_state state_;
  way way_;  // belongs to the loop, once the loop has the callback
  loop_core& core_;
  task work_;
  time_point deadline_{};
};

}  // namespace async::inline v0_1::detail
