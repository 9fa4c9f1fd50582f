// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <algorithm>  // for find, find_if, none_of
#include <deque>      // for deque
#include <memory>     // for unique_ptr, make_unique
#include <optional>   // for optional
#include <string>     // for string
#include <utility>    // for move
#include <vector>     // for vector

#include "program.hpp"

namespace testing::program {

/// The state of the reference interpreter: flows with the steps that they are in, which of them are ready, the timers,
/// the mutexes and the log. It decides nothing.
class reference_state {
 public:
  /// Why a program has no single log by the rules.
  enum class verdict { exact, simultaneous, unspecified_result, too_long };

 protected:
  struct flow;

  /// The branches of a running parallel.
  struct group {
    std::vector<flow*> branches;
    std::size_t left = 0;
  };

  /// A step that has begun and not ended.
  struct frame {
    const node* of = nullptr;      // null: the level of a flow's first steps
    std::deque<const node*> todo;  // steps of the level below that have not begun
    bool handler = false;          // its error handler has not been called yet
    bool cancel_handler = false;
    int timer = 0;  // id of its armed timer; 0: none
    int wait = 0;   // id of what will end its wait; 0: none
    int iteration = 0;
    bool loop_runs = false;  // a loop that has not been left
    int pause = 0;           // of a retry: ticks until the next attempt, to be waited for; 0: none
    int next_pause = 0;      // of a retry: the one after that
    bool rescued = false;    // of a retry: its error handler has been called
    int due = -1;            // of an every: the tick of the next round; -1: not begun
    int began = -1;          // of an every: when the last round has; -1: none has
    int took = 0;            // of an every: the time that it has taken
    bool overran = false;    // of an every: the last round has ended after the next one was due
    int sets = -1;           // of an event step: how often its event has been set when it began; -1: not begun
    bool listed = false;     // of an event step: it is among those who wait
    bool called = false;     // of an event step: it was, and has not looked at the event since
    bool queued_on_mutex = false;
    bool holds_mutex = false;
    std::unique_ptr<group> branches;
  };

  struct error {
    std::string code;
    std::string info;  // of the program's errors; the others' text is free
    std::string label;
  };

  struct flow {
    flow* parent = nullptr;  // null: the root
    std::string name;
    std::vector<frame> stack;
    enum class slot_state { empty, full, unspecified } slot_state = slot_state::empty;
    int slot = 0;
    std::optional<error> raised;  // by something outside its turn
    bool complete_top = false;    // likewise: the innermost step has been completed
    bool rerun_top = false;       // likewise: it has been given the mutex
    bool queued = false;
    bool ended = false;
    bool bursts = false;  // a branch whose turn goes on until it waits
  };

  struct timer {
    int tick;
    flow* of;
    int id;
    enum what_t { timeout, success, error, cancel_root, rerun } what;
    const node* from;
  };

  struct mutex {
    flow* owner = nullptr;
    int depth = 0;
    std::deque<flow*> waiters;
  };

  struct flag {
    bool is_set = false;
    int sets = 0;
    std::deque<flow*> waiters;
  };

  flow& start(flow* parent, std::string name) {
    flows_.push_back(std::make_unique<flow>());
    flow& fresh = *flows_.back();
    fresh.parent = parent;
    fresh.name = std::move(name);
    queue(fresh);
    return fresh;
  }

  void queue(flow& which) {
    if (which.queued || which.ended) return;
    which.queued = true;
    ready_.push_back(&which);
  }

  void unqueue(flow& which) {
    if (which.queued) ready_.erase(std::find(ready_.begin(), ready_.end(), &which));
    which.queued = false;
  }

  /// [30] Recursive for the flow that owns it, first come first served. [51] A semaphore takes a permit each time.
  bool lock(flow& now, frame& top) {
    mutex& of = mutexes_[top.of->mutex];
    const bool enters = is_semaphore(top.of->mutex) ? of.depth < permits : of.owner == nullptr || of.owner == &now;
    if (enters) {
      of.owner = &now;
      ++of.depth;
      top.holds_mutex = true;
      return true;
    }
    of.waiters.push_back(&now);
    top.queued_on_mutex = true;
    return false;
  }

  /// [46] Each waits again if it finds nothing, in front of the others.
  void call_waiters(flag& of, std::size_t count) {
    for (; count != 0 && !of.waiters.empty(); --count) {
      flow& next = *of.waiters.front();
      of.waiters.pop_front();
      next.stack.back().listed = false;
      next.stack.back().called = true;
      next.rerun_top = true;
      queue(next);
    }
  }
  void change_event(const node& of) {
    flag& changed = events_[of.event];
    if (of.to_event == node::does::reset) changed.is_set = false;
    if (of.to_event != node::does::set || changed.is_set) return;
    changed.is_set = true;
    ++changed.sets;
    call_waiters(changed, changed.waiters.size());
  }
  /// The step does not look at its event any more; if it was called, another one is.
  void leave_event(flow& now, frame& top) {
    if (top.of == nullptr || top.of->what != kind::event) return;
    flag& left = events_[top.of->event];
    if (std::exchange(top.listed, false)) {
      left.waiters.erase(std::find(left.waiters.begin(), left.waiters.end(), &now));
    } else if (std::exchange(top.called, false)) {
      now.rerun_top = false;
      call_waiters(left, 1);
    }
  }

  static bool is_semaphore(int which) { return which >= testing::program::mutexes; }

  void unlock(int which) {
    mutex& of = mutexes_[which];
    if (--of.depth != 0 && !is_semaphore(which)) return;
    of.owner = nullptr;
    if (of.waiters.empty()) return;
    of.owner = of.waiters.front();
    of.waiters.pop_front();
    ++of.depth;
    frame& top = of.owner->stack.back();
    top.queued_on_mutex = false;
    top.holds_mutex = true;
    of.owner->rerun_top = true;
    queue(*of.owner);
  }

  int arm(flow& now, int delay, timer::what_t what, const node& from) {
    timers_.push_back({now_ + delay, &now, ++last_timer_, what, &from});
    return last_timer_;
  }

  void disarm(frame& of) {
    const auto is_its = [&of](const timer& armed) {
      return armed.id != 0 && (armed.id == of.timer || armed.id == of.wait);
    };
    for (auto found = std::find_if(timers_.begin(), timers_.end(), is_its); found != timers_.end();
         found = std::find_if(timers_.begin(), timers_.end(), is_its)) {
      timers_.erase(found);
    }
    of.timer = 0;
    of.wait = 0;
  }

  /// True when the timer of the step has fired.
  bool has_expired(const frame& of) const {
    return of.timer != 0 &&
           std::none_of(timers_.begin(), timers_.end(), [&of](const timer& armed) { return armed.id == of.timer; });
  }

  static void put(flow& now, int value) {
    now.slot_state = value == 0 ? flow::slot_state::empty : flow::slot_state::full;
    now.slot = value;
  }

  void write(const flow& by, std::string what) { log_.push_back({now_, by.name, std::move(what)}); }

  std::vector<std::unique_ptr<flow>> flows_;
  flow* root_ = nullptr;
  std::deque<flow*> ready_;
  std::vector<timer> timers_;
  flag events_[number_of_events];
  mutex mutexes_[testing::program::mutexes + testing::program::semaphores];  // of a semaphore: the permits taken
  history log_;
  verdict verdict_ = verdict::exact;
  int now_ = 0;
  int last_timer_ = 0;
  int runs_ = 0;
};

}  // namespace testing::program
