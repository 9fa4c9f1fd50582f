// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <algorithm>  // for find, min, min_element
#include <iterator>   // for begin, end
#include <memory>     // for make_unique
#include <string>     // for string, to_string
#include <utility>    // for exchange, move

#include "program.hpp"
#include "reference_state.hpp"

namespace testing::program {

/// A small, slow interpreter of step programs under virtual time, written from the rules and from nothing else: the
/// numbers in brackets are theirs. It has a list of flows that are ready, takes the first, lets it have one turn (one
/// step's function and what follows from it, [26]), and when none is ready moves the time to the next timer.
class reference : private reference_state {
 public:
  using reference_state::verdict;

  explicit reference(const tree& program) : program_(program) {}

  history run() {
    flow& root = start(nullptr, "/");
    root_ = &root;
    root.stack.push_back(frame{});
    for (const node& step : program_.steps) root.stack.back().todo.push_back(&step);
    if (program_.cancel_at_tick != 0)
      timers_.push_back({program_.cancel_at_tick, nullptr, 0, timer::cancel_root, nullptr});
    for (;;) {
      if (log_.size() > 2000) verdict_ = verdict::too_long;
      if (verdict_ == verdict::too_long || root_->ended) break;
      if (!ready_.empty()) {
        flow* next = ready_.front();
        ready_.pop_front();
        next->queued = false;
        turn(*next);
        while (next->bursts && next->queued) {  // [26]
          unqueue(*next);
          turn(*next);
        }
      } else if (!fire_next_timer()) {
        write(*root_, "stuck");
        cancel(*root_);
      }
    }
    return log_;
  }

  verdict result() const { return verdict_; }
  int runs() const { return runs_; }

 private:
  // ---- one turn

  void turn(flow& now) {
    const bool resumed = now.raised || now.complete_top;
    if (now.raised) {
      const error cause = *std::exchange(now.raised, std::nullopt);
      unwind(now, cause);
    } else if (std::exchange(now.complete_top, false)) {
      complete(now);
    } else if (std::exchange(now.rerun_top, false)) {
      call(now);
      return;
    }
    if (now.queued) {  // there is a step to run: in this turn
      unqueue(now);
    } else if (resumed) {
      return;
    }
    frame& top = now.stack.back();
    if (top.todo.empty() && top.of == nullptr) {  // a program without steps
      complete(now);
      return;
    }
    if (top.todo.empty()) {  // only a loop goes on without a step to begin, or a retry: the next iteration or attempt
      call(now);
      return;
    }
    const node* next = top.todo.front();
    top.todo.pop_front();
    now.stack.push_back(frame{});
    frame& fresh = now.stack.back();
    fresh.of = next;
    fresh.handler = next->on_error != handler::none;
    fresh.loop_runs = is_loop(*next);
    fresh.next_pause = next->pause;
    if (next->what == kind::sync && !lock(now, fresh)) return;
    call(now);
  }

  /// Calls the function of the innermost step.
  void call(flow& now) {
    frame& top = now.stack.back();
    const node& of = *top.of;
    if (is_group(of)) {
      begin_branches(now, top);
      return;
    }
    if (of.what == kind::event) {
      wait_for_event(now, top);
      return;
    }
    const bool last = is_loop(of) && is_numbered(of) && top.iteration == of.count;
    if (last) {  // [22] an empty repeat or forEach
      leave_loop(now);
      return;
    }
    if (of.what == kind::retry && of.count == 0) {  // [47]
      now.slot_state = flow::slot_state::empty;
      unwind(now, {"InternalError", "", ""});
      return;
    }
    if (top.pause != 0) {  // [47]
      top.wait = arm(now, std::exchange(top.pause, 0), timer::rerun, of);
      return;
    }
    if (of.what == kind::every && is_early(now, top)) return;
    std::string text = "run " + std::to_string(of.id);
    if (is_numbered(of)) text += " i=" + std::to_string(top.iteration);
    if (of.what == kind::every) text += begin_round(top);
    if (of.takes) {
      if (now.slot_state == flow::slot_state::unspecified) verdict_ = verdict::unspecified_result;
      if (now.slot_state != flow::slot_state::full) {  // [4]
        unwind(now, {"InternalError", "", ""});
        return;
      }
      text += " arg=" + std::to_string(now.slot);
    }
    now.slot_state = flow::slot_state::empty;  // [3] to the next step and to nobody later
    write(now, text);
    ++runs_;
    if ((of.what == kind::loop || of.what == kind::every) && top.iteration == of.count) {
      unwind(now, {"LoopBreak", "", ""});
      return;
    }
    ++top.iteration;
    change_event(of);
    for (const node& sub : of.sub) top.todo.push_back(&sub);
    if (of.on_cancel) top.cancel_handler = true;
    if (of.timeout != 0) top.timer = arm(now, of.timeout, timer::timeout, of);
    if (runs_ == program_.cancel_at_run) {
      cancel(*root_);
      return;
    }
    finish(now, top, of);
  }

  /// [46] Ends if the event is set, or has been since the step's first run.
  void wait_for_event(flow& now, frame& top) {
    flag& of = events_[top.of->event];
    now.slot_state = flow::slot_state::empty;
    if (top.sets < 0) top.sets = of.sets;
    const bool again = std::exchange(top.called, false);
    if (of.is_set || of.sets != top.sets) {
      complete(now);
    } else {
      top.listed = true;
      of.waiters.insert(again ? of.waiters.begin() : of.waiters.end(), &now);
    }
  }

  /// [49] True: the tick of the round is to come.
  bool is_early(flow& now, frame& top) {
    now.slot_state = flow::slot_state::empty;
    if (top.due < 0) top.due = now_;
    if (top.began >= 0) {
      top.took = now_ - top.began;
      top.overran = now_ > top.due;
      top.began = -1;
      if (now_ == top.due && top.of->pause != 0) verdict_ = verdict::simultaneous;
    }
    if (now_ >= top.due) return false;
    top.wait = arm(now, top.due - now_, timer::rerun, *top.of);
    return true;
  }

  /// [50] Sets the tick after that of this round. Returns what the round is told.
  std::string begin_round(frame& top) {
    const int period = top.of->pause;
    const int late = now_ - top.due;
    int missed = 0;
    if (late != 0 && period != 0 && late % period == 0) verdict_ = verdict::simultaneous;
    if (period == 0) {
      top.due = now_;
    } else if (top.of->policy == 2) {
      top.due += period;
    } else {
      missed = late / period;
      const bool anew = top.of->policy == 1 && (top.overran || missed != 0);
      top.due = anew ? now_ + period : top.due + (missed + 1) * period;
    }
    top.began = now_;
    return " n=" + std::to_string(top.iteration) + " missed=" + std::to_string(missed) +
           " late=" + std::to_string(late) + " took=" + std::to_string(top.took);
  }

  /// The last action of the function, and its effect on the flow.
  void finish(flow& now, frame& top, const node& of) {
    const std::string info = "info " + std::to_string(of.id);
    switch (of.end) {
      case ending::error:
      case ending::error_no_throw:
      case ending::error_swallowed:         // [8]
      case ending::error_no_throw_success:  // [8]
        unwind(now, {of.code, info, ""});
        return;
      case ending::break_loop:
      case ending::break_loop_no_throw:
        jump(now, "LoopBreak", of.code);
        return;
      case ending::continue_loop:
      case ending::continue_loop_no_throw:
        jump(now, "LoopCont", of.code);
        return;
      case ending::success:
        if (!top.todo.empty()) {  // [5]
          unwind(now, {"InternalError", "", ""});
          return;
        }
        put(now, of.result);
        complete(now);
        return;
      case ending::wait_success:
      case ending::wait_success_direct:
        top.wait = arm(now, of.delay, timer::success, of);
        return;
      case ending::wait_error:
      case ending::wait_error_direct:
        top.wait = arm(now, of.delay, timer::error, of);
        return;
      case ending::wait:
        return;
      case ending::none:
        if (!top.todo.empty()) {
          queue(now);
        } else if (!top.cancel_handler && top.timer == 0) {  // [2] else they hold the step
          complete(now);
        }
        return;
    }
  }

  // ---- ends of steps

  /// The innermost step has ended well; so has each step around it that has nothing left to do.
  void complete(flow& now) {
    for (;;) {
      frame& top = now.stack.back();
      if (top.of == nullptr) {
        now.stack.pop_back();
        end(now);
        return;
      }
      disarm(top);  // [2] its cancel handler is not called on success
      top.cancel_handler = false;
      if (top.loop_runs) {  // whether there is another iteration is seen in its turn
        queue(now);
        return;
      }
      drop(now);
      if (!now.stack.back().todo.empty()) {
        queue(now);
        return;
      }
    }
  }

  void leave_loop(flow& now) {
    now.stack.back().loop_runs = false;
    now.slot_state = flow::slot_state::unspecified;
    complete(now);
  }

  /// Forgets the innermost step and what it holds.
  void drop(flow& now) {
    frame& top = now.stack.back();
    disarm(top);
    leave_event(now, top);
    if (top.queued_on_mutex) {  // [18]
      auto& waiters = mutexes_[top.of->mutex].waiters;
      waiters.erase(std::find(waiters.begin(), waiters.end(), &now));
    }
    const bool unlocks = top.holds_mutex;
    const int which = top.of != nullptr ? top.of->mutex : 0;
    now.stack.pop_back();
    if (unlocks) unlock(which);
  }

  void end(flow& now) {
    now.ended = true;
    if (now.parent == nullptr) {
      write(now, "end");
      return;
    }
    flow& parent = *now.parent;
    frame& top = parent.stack.back();
    const bool wins = top.of->what == kind::race;
    if (wins) {  // [36]
      cancel_branches(top);
    } else if (--top.branches->left != 0) {
      return;
    }
    parent.complete_top = true;
    parent.slot_state = wins ? now.slot_state : flow::slot_state::empty;  // [25]
    parent.slot = now.slot;
    queue(parent);
  }

  // ---- errors

  void jump(flow& now, const std::string& code, const std::string& label) {
    bool known = false;
    for (const flow* at = &now; at != nullptr; at = at->parent) {
      for (const frame& of : at->stack) known = known || (of.loop_runs && (label.empty() || of.of->label == label));
    }
    unwind(now, known ? error{code, "", label} : error{"InternalError", "", ""});  // [23]
  }

  /// [10] From the innermost step outward: pending sub-steps, timer, cancel handler, error handler.
  void unwind(flow& now, error cause) {
    now.slot_state = flow::slot_state::empty;  // [3]
    for (;;) {
      frame& top = now.stack.back();
      top.todo.clear();
      disarm(top);
      cancel_branches(top);  // [28]
      if (std::exchange(top.cancel_handler, false)) write(now, "oncancel " + std::to_string(top.of->id));
      if (top.loop_runs && takes_jump(top, cause)) {
        if (cause.code == "LoopBreak") {
          leave_loop(now);
        } else {
          complete(now);  // the iteration, not the loop
        }
        return;
      }
      if (top.of != nullptr && top.of->what == kind::retry && is_retried(now, cause)) {
        top.pause = std::exchange(top.next_pause, (std::min)(top.next_pause * 2, longest_pause));
        queue(now);
        return;
      }
      // A sync that waits has not begun the step that its handler guards [29].
      if (top.handler && !top.queued_on_mutex) {
        leave_event(now, top);
        top.handler = false;
        if (handle(now, cause)) return;
      }
      if (top.of == nullptr) {
        now.stack.clear();
        fail(now, cause);
        return;
      }
      drop(now);
    }
  }

  /// [48] True: the error, which has left an attempt of the innermost step, leads to another one.
  bool is_retried(flow& now, const error& cause) {
    frame& top = now.stack.back();
    if (top.rescued || top.iteration >= top.of->count) return false;
    if (cause.info.empty() && (cause.code == "LoopBreak" || cause.code == "LoopCont")) return false;
    for (const frame& around : now.stack) {
      if (&around != &top && has_expired(around)) return false;
    }
    return top.of->policy == 0 || std::find(std::begin(retried), std::end(retried), cause.code) != std::end(retried);
  }

  static bool takes_jump(const frame& loop, const error& cause) {
    return (cause.code == "LoopBreak" || cause.code == "LoopCont") && cause.info.empty() &&
           (cause.label.empty() || cause.label == loop.of->label);
  }

  /// [11] Calls the handler of the innermost step; true: it recovered.
  bool handle(flow& now, error& cause) {
    const node& of = *now.stack.back().of;
    now.stack.back().rescued = true;
    write(now, "onerror " + std::to_string(of.id) + " " + cause.code + (cause.info.empty() ? "" : " " + cause.info));
    switch (of.on_error) {
      case handler::none:
      case handler::silent:
        return false;
      case handler::error:
      case handler::error_no_throw:
      case handler::add_error:
        cause = {of.new_code, "info of handler " + std::to_string(of.id), ""};
        return false;
      case handler::success:
        put(now, of.new_result);
        complete(now);
        return true;
      case handler::add:
        for (const node& step : of.rescue) now.stack.back().todo.push_back(&step);
        queue(now);
        return true;
    }
    return false;
  }

  /// No handler took the error.
  void fail(flow& now, const error& cause) {
    now.ended = true;
    if (now.parent == nullptr) {
      write(now, "unhandled " + cause.code + (cause.info.empty() ? "" : " " + cause.info));  // [13]
      return;
    }
    flow& parent = *now.parent;
    frame& top = parent.stack.back();
    const bool is_jump = cause.info.empty() && (cause.code == "LoopBreak" || cause.code == "LoopCont");
    if (top.of->what == kind::race && --top.branches->left != 0 && !is_jump) return;  // [37]
    cancel_branches(top);
    parent.raised = cause;
    queue(parent);
  }

  // ---- cancel

  /// [17] Cancel handlers only, innermost first.
  void cancel(flow& now) {
    if (now.ended) return;
    now.ended = true;
    while (!now.stack.empty()) {
      frame& top = now.stack.back();
      disarm(top);
      cancel_branches(top);
      if (std::exchange(top.cancel_handler, false)) write(now, "oncancel " + std::to_string(top.of->id));
      drop(now);
    }
    unqueue(now);
  }

  void cancel_branches(frame& of) {
    if (!of.branches) return;
    const auto all = std::move(of.branches);
    for (flow* branch : all->branches) cancel(*branch);
  }

  // ---- parallel

  void begin_branches(flow& now, frame& top) {
    const node& of = *top.of;
    now.slot_state = flow::slot_state::empty;
    if (of.sub.empty()) {  // [25]
      complete(now);
      return;
    }
    top.branches = std::make_unique<group>();
    group& all = *top.branches;
    all.left = of.sub.size();
    for (const node& step : of.sub) {
      flow& branch = start(&now, (now.parent == nullptr ? "/" : now.name + "/") + std::to_string(step.id));
      branch.bursts = of.bursts;
      all.branches.push_back(&branch);
      branch.stack.push_back(frame{});
      branch.stack.back().todo.push_back(&step);
    }
  }

  // ---- time

  bool fire_next_timer() {
    if (timers_.empty()) return false;
    const auto next = std::min_element(timers_.begin(), timers_.end(),
                                       [](const timer& one, const timer& other) { return one.tick < other.tick; });
    const timer fired = *next;
    timers_.erase(next);
    for (const timer& other : timers_) {
      if (other.tick == fired.tick) verdict_ = verdict::simultaneous;
    }
    now_ = fired.tick;
    switch (fired.what) {
      case timer::cancel_root:
        cancel(*root_);
        break;
      case timer::timeout:  // [16] raised at the innermost active step
        fired.of->raised = error{"Timeout", "", ""};
        queue(*fired.of);
        break;
      case timer::rerun:
        fired.of->rerun_top = true;
        queue(*fired.of);
        break;
      case timer::success:
        put(*fired.of, fired.from->result);
        fired.of->complete_top = true;
        queue(*fired.of);
        break;
      case timer::error:
        fired.of->raised = error{fired.from->code, "info " + std::to_string(fired.from->id), ""};
        queue(*fired.of);
        break;
    }
    return true;
  }

  const tree& program_;
};

}  // namespace testing::program
