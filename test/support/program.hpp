// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <string>  // for string
#include <vector>  // for vector

/// Trees of steps as plain data: what a flow does is read from here by the reference interpreter and by the adapter to
/// the engine, so that both can be asked for a log of the same program.
namespace testing::program {

/// The kind of step that a node adds to its level.
enum class kind { step, loop, repeat, for_each, parallel, sync, race, retry, every, event };

/// The last action of the step's function. The `wait` forms are ended from outside after `delay` ticks.
enum class ending {
  none,
  success,
  error,                   ///< error(), which throws
  error_no_throw,          ///< errorNoThrow() and return
  error_swallowed,         ///< error() whose exception the step's own catch (...) swallows
  error_no_throw_success,  ///< errorNoThrow(), then success()
  wait_success,            ///< a completion's success()
  wait_error,              ///< a completion's error()
  wait_success_direct,     ///< asi.success() on the waiting step, from the loop's thread
  wait_error_direct,       ///< asi.error() on the waiting step, from the loop's thread
  wait,                    ///< waitExternal() that nobody ends
  break_loop,
  break_loop_no_throw,
  continue_loop,
  continue_loop_no_throw,
};

/// The action of the step's error handler.
enum class handler { none, silent, success, error, error_no_throw, add, add_error };

/// One step, loop, group of branches or sync, with the functions that belong to it.
struct node {
  int id = 0;
  kind what = kind::step;
  std::vector<node> sub;   ///< sub-steps; of a loop: those of its body; of a group: its branches
  bool takes = false;      ///< the function has a parameter of type int
  int timeout = 0;         ///< ticks given to setTimeout; 0: none
  bool on_cancel = false;  ///< has a cancel handler
  ending end = ending::none;
  int delay = 0;      ///< ticks until a wait is ended
  int result = 0;     ///< handed on by success; 0: success() without arguments
  std::string code;   ///< of the error, or the label of break and continue
  std::string label;  ///< of a loop
  int count = 0;      ///< iterations; `loop` and `every` break at the start of the one after; of retry: attempts
  int event = 0;      ///< which of the program's events an `event` step waits for, or one that `does` something to it
  enum class does : unsigned char { nothing, set, reset } to_event = does::nothing;  ///< at the start of the function
  int mutex = 0;        ///< which of the program's mutexes and semaphores a sync takes
  int pause = 0;        ///< ticks: the period of every, the first pause of retry
  bool bursts = false;  ///< of a group: its branches take turns in bursts
  int policy = 0;       ///< of every: 0 skips, 1 delays, 2 bursts; of retry: 1 has some errors only retried
  handler on_error = handler::none;
  std::string new_code;      ///< the handler's error
  int new_result = 0;        ///< the handler's success; 0: without arguments
  std::vector<node> rescue;  ///< the steps that the handler adds
};

inline constexpr int mutexes = 2;     ///< numbers from 0
inline constexpr int semaphores = 1;  ///< numbers behind those of the mutexes
inline constexpr int permits = 2;     ///< of each semaphore

inline constexpr int number_of_events = 2;

inline constexpr int longest_pause = 6000;  ///< ticks, of every retry

/// The codes that a retry with policy 1 retries.
inline constexpr const char* retried[] = {"A", "B", "Timeout"};

/// A root flow: the steps of its first level, and when it is cancelled.
struct tree {
  std::vector<node> steps;
  int cancel_at_run =
      0;  ///< cancel() in the n-th run of a step's function, when it has set up all but its ending; 0: never
  int cancel_at_tick = 0;  ///< cancel() from the loop at that time; 0: never
};

inline bool is_loop(const node& of) {
  return of.what == kind::loop || of.what == kind::repeat || of.what == kind::for_each || of.what == kind::every;
}

/// True for a step whose function gets a number.
inline bool is_numbered(const node& of) {
  return of.what == kind::repeat || of.what == kind::for_each || of.what == kind::retry;
}

/// True for a step with branches.
inline bool is_group(const node& of) { return of.what == kind::parallel || of.what == kind::race; }

inline bool is_wait(ending end) { return end >= ending::wait_success && end <= ending::wait; }

/// An event, its time (in ticks of virtual time) and its branch ("/" is the root flow, "/7" the branch whose
/// first step is node 7).
struct event {
  int tick = 0;
  std::string branch;
  std::string what;
  bool operator==(const event&) const = default;
};

using history = std::vector<event>;

}  // namespace testing::program
