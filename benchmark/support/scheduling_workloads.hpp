// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <algorithm>  // for sort, min, max
#include <atomic>     // for atomic
#include <chrono>     // for milliseconds
#include <cstddef>    // for size_t, ptrdiff_t
#include <latch>      // for latch
#include <memory>     // for make_unique
#include <string>     // for string, to_string
#include <thread>     // for sleep_for, sleep_until, get_id
#include <utility>    // for move, pair
#include <vector>     // for vector

#include "busy.hpp"     // for work_for_a_microsecond
#include "harness.hpp"  // for workload, plan, sample
#include "machine.hpp"  // for wall_clock
#include "tally.hpp"    // for tally

/// Measurements of the scheduling of flows on a pool: the share of each worker, and the lateness of timers and
/// completions beside work that blocks.
namespace bench {

inline void work_for(std::size_t microseconds) {
  for (std::size_t i = 0; i < microseconds; ++i) work_for_a_microsecond();
}

inline double milliseconds_of(wall_clock::duration each) { return nanoseconds(each).count() * 1e-6; }

// --- spread: the share of the busiest worker -------------------------------------------------------------------------

inline constexpr std::size_t spread_steps = 5;
inline constexpr std::size_t spread_branches = 20;  // of the outer parallel() when nested
inline constexpr std::chrono::milliseconds first_wait{3};

/// How the flows of a case start.
enum class burst { outside, inside, parallel, nested };

struct spread_case {
  burst start;
  std::size_t workers;
  bool waits;  // for first_wait, before its steps

  /// "spread/inside on 2"
  std::string curve() const {
    static constexpr const char* names[] = {"outside", "inside", "parallel", "nested"};
    return std::string(waits ? "spread-wait/" : "spread/") + names[static_cast<std::size_t>(start)] + " on " +
           std::to_string(workers);
  }
  std::string title() const {
    static constexpr const char* titles[] = {"a burst of flows from outside", "a burst of flows from inside a task",
                                             "branches of parallel()", "branches of 20 parallel() inside parallel()"};
    return std::string(titles[static_cast<std::size_t>(start)]) + (waits ? " that wait 3 ms first, " : ", ") +
           std::to_string(workers) + " workers";
  }
};

inline std::vector<spread_case> spread_cases() {
  std::vector<spread_case> all;
  for (const bool waits : {false, true}) {
    for (const burst start : {burst::outside, burst::inside, burst::parallel, burst::nested}) {
      for (const std::size_t workers : {std::size_t{2}, std::size_t{4}}) all.push_back({start, workers, waits});
    }
  }
  return all;
}

/// A step of a flow of a spread workload. All flows together work for half a second of CPU time: 200 flows with steps
/// of 0.5 ms, 20,000 flows with steps of 5 us.
struct spread_step {
  explicit spread_step(std::size_t flows) : microseconds(100'000 / flows) {}
  void operator()() const {
    work_for(microseconds);
    tally::count();
  }
  std::size_t microseconds;
};

/// Calls start(step), which starts `flows` flows. Each calls step() spread_steps times, with a chance for other flows
/// in between.
template <class Start>
sample measure_spread(std::size_t workers, std::size_t flows, Start start) {
  work_for_a_microsecond();  // calibrates itself in the first call
  const std::size_t steps = flows * spread_steps;
  const tally ran;
  const auto begin = wall_clock::now();
  start(spread_step(flows));
  sample result;
  if (!ran.wait_for(steps, std::chrono::milliseconds(1))) {
    result.defect = "steps are missing: " + std::to_string(ran.so_far()) + " of " + std::to_string(steps);
  }
  result.figures["ms"] = milliseconds_of(wall_clock::now() - begin);
  result.figures["value"] = static_cast<double>(ran.busiest() * workers) / static_cast<double>(steps);
  return result;
}

// --- flows that wait for a completion, and then take steps -----------------------------------------------------------

/// The steps of all flows of a measurement, in the order in which they begin.
class step_log {
 public:
  struct entry {
    std::size_t flow = 0;
    wall_clock::time_point begin;
    std::thread::id thread;
  };
  explicit step_log(std::size_t steps) : entries_(steps), left_(static_cast<std::ptrdiff_t>(steps)) {}

  /// Called by a step of a flow.
  void note(std::size_t flow, std::size_t microseconds) {
    const std::size_t index = next_.fetch_add(1, std::memory_order_relaxed);
    entries_[index] = {flow, wall_clock::now(), std::this_thread::get_id()};
    work_for(microseconds);
    left_.count_down();
  }
  /// Waits for the last step.
  const std::vector<entry>& wait() {
    left_.wait();
    return entries_;
  }

 private:
  std::vector<entry> entries_;
  std::atomic<std::size_t> next_{0};
  std::latch left_;
};

/// A flow that waits until the contestant's resume(index), and then takes steps. Other flows get a turn in between.
struct waiting_flow {
  std::size_t index = 0, steps = 1, microseconds = 0;
  step_log* log = nullptr;
  void step() const { log->note(index, microseconds); }
};

/// Makes the flows of a contestant, and returns once all of them wait.
template <class P>
void make_waiting_flows(P& pool, std::size_t flows, std::size_t steps, std::size_t microseconds, step_log& log) {
  std::latch waiting(static_cast<std::ptrdiff_t>(flows));
  pool.expect_flows(flows);
  for (std::size_t i = 0; i < flows; ++i) pool.add_waiting(waiting_flow{i, steps, microseconds, &log}, waiting);
  waiting.wait();
}

struct skew {
  double share = 0;   // of the busier worker in the first 20 ms, relative to a fair share
  double second = 0;  // microseconds until the second worker begins a step
};

/// One task resumes all flows, which makes them runnable on its worker.
template <class P>
skew measure_skew() {
  constexpr std::size_t flows = 64, steps = 20, microseconds = 50;
  work_for_a_microsecond();
  step_log log(flows * steps);
  const auto pool = std::make_unique<P>(2);
  make_waiting_flows(*pool, flows, steps, microseconds, log);
  wall_clock::time_point begin;
  pool->execute([&] {
    begin = wall_clock::now();
    for (std::size_t i = 0; i < flows; ++i) pool->resume(i);
  });
  std::size_t counted = 0, of_first = 0;
  skew found;
  const std::vector<step_log::entry>& all = log.wait();
  found.second = milliseconds_of(wall_clock::now() - begin) * 1e3;  // if no other worker has run a step
  for (const step_log::entry& each : all) {
    const bool is_first = each.thread == all[0].thread;
    if (!is_first) found.second = (std::min)(found.second, milliseconds_of(each.begin - begin) * 1e3);
    if (each.begin - begin >= std::chrono::milliseconds(20)) continue;
    ++counted;
    of_first += is_first ? 1 : 0;
  }
  found.share = 2 * static_cast<double>((std::max)(of_first, counted - of_first)) /
                static_cast<double>((std::max)(counted, std::size_t{1}));
  return found;
}

// --- disturbed: lateness beside work that blocks ---------------------------------------------------------------------

inline constexpr std::size_t timer_flows = 32;
inline constexpr std::size_t disturbed_workers = 4;
inline constexpr std::chrono::milliseconds beat{3};
inline constexpr std::chrono::milliseconds blocked{100};

/// The 99th percentile as the figure, the median and the maximum as notes.
inline sample lateness(std::vector<double> milliseconds) {
  sample result;
  if (milliseconds.empty()) {
    result.defect = "no timer came due";
    return result;
  }
  std::sort(milliseconds.begin(), milliseconds.end());
  result.figures["value"] = milliseconds[milliseconds.size() - 1 - milliseconds.size() / 100];
  result.figures["median"] = milliseconds[milliseconds.size() / 2];
  result.figures["max"] = milliseconds.back();
  return result;
}

/// The lateness of one flow's timers. One thread at a time.
struct timer_log {
  void arm() { armed = wall_clock::now(); }
  void due() { late.push_back(milliseconds_of(wall_clock::now() - armed - beat)); }
  wall_clock::time_point armed;
  std::vector<double> late;
};

enum class disturbance { nothing, task, step };

/// Flows that wait for a timer of 3 ms again and again.
template <class P>
sample measure_timers(disturbance by, std::size_t milliseconds) {
  std::vector<timer_log> logs(timer_flows);
  for (timer_log& each : logs) each.late.reserve(milliseconds / 2);
  std::atomic<bool> stop{false};
  std::latch ended(static_cast<std::ptrdiff_t>(timer_flows + (by == disturbance::step ? 1 : 0)));
  const auto pool = std::make_unique<P>(disturbed_workers);
  for (timer_log& each : logs) pool->add_timer_loop(each, stop, ended);
  if (by == disturbance::step) pool->add_blocking_loop(stop, ended);
  const wall_clock::time_point end = wall_clock::now() + std::chrono::milliseconds(milliseconds);
  if (by != disturbance::task) std::this_thread::sleep_until(end);
  while (wall_clock::now() < end) {  // one task at a time
    std::latch done(1);
    pool->execute([&done] {
      std::this_thread::sleep_for(blocked);
      done.count_down();
    });
    done.wait();
  }
  stop.store(true, std::memory_order_relaxed);
  ended.wait();
  std::vector<double> late;
  for (const timer_log& each : logs) late.insert(late.end(), each.late.begin(), each.late.end());
  return lateness(std::move(late));
}

/// Completions from outside for 64 flows, while three of four workers are inside a task of 300 ms.
template <class P>
sample measure_completions(std::size_t rounds) {
  constexpr std::size_t flows = 64;
  std::vector<double> late;
  for (std::size_t r = 0; r < rounds; ++r) {
    step_log log(flows);
    std::latch begun(disturbed_workers - 1), ended(disturbed_workers - 1);
    const auto pool = std::make_unique<P>(disturbed_workers);
    make_waiting_flows(*pool, flows, 1, 0, log);
    for (std::size_t i = 0; i + 1 < disturbed_workers; ++i) {
      pool->execute([&] {
        begun.count_down();
        std::this_thread::sleep_for(3 * blocked);
        ended.count_down();
      });
    }
    begun.wait();
    std::vector<wall_clock::time_point> given(flows);
    for (std::size_t i = 0; i < flows; ++i) {
      given[i] = wall_clock::now();
      pool->resume(i);
    }
    for (const step_log::entry& each : log.wait()) late.push_back(milliseconds_of(each.begin - given[each.flow]));
    ended.wait();
  }
  return lateness(std::move(late));
}

// --- workloads -------------------------------------------------------------------------------------------------------

inline void declare_scheduling(std::vector<workload>& to) {
  for (const spread_case& each : spread_cases()) {
    add_curve(to, {each.curve(), "x fair share", each.title(), 0.8, 3}, "flows", {200, 2'000, 20'000});
  }
  const auto add = [&to](const char* name, const char* unit, const char* title, double seconds, int repetitions) {
    workload made{name, unit, title, seconds, repetitions};
    made.only_whole = true;
    to.push_back(std::move(made));
  };
  add("skew/share", "x fair share", "the busier of 2 workers in 20 ms after one task has resumed 64 flows", 0.2, 9);
  add("skew/second worker", "us", "from then on until the other worker runs a step", 0.2, 9);
  add("disturbed/nothing", "ms p99", "lateness of 3 ms timers of 32 flows, 4 workers", 6, 3);
  add("disturbed/task", "ms p99", "the same beside one task at a time that blocks 100 ms", 6, 3);
  add("disturbed/step", "ms p99",
      "the same beside a flow whose steps block 100 ms each, with a turn for others in between", 6, 3);
  add("disturbed/completions", "ms p99", "64 completions while 3 of 4 workers are in a task of 300 ms", 6, 3);
}

/// Adds an adapter to the workloads of skewed and disturbed pools.
template <class P>
void add_disturbed(plan& to, const std::string& name, int rank) {
  to.add("skew/share", {name, rank, 1, [](std::size_t) {
                          sample result;
                          result.figures["value"] = measure_skew<P>().share;
                          return result;
                        }});
  to.add("skew/second worker", {name, rank, 1, [](std::size_t) {
                                  sample result;
                                  result.figures["value"] = measure_skew<P>().second;
                                  return result;
                                }});
  for (const auto& [label, by] : {std::pair("nothing", disturbance::nothing), std::pair("task", disturbance::task),
                                  std::pair("step", disturbance::step)}) {
    to.add(std::string("disturbed/") + label, {name, rank, to.size(3'000, 1'500), [by = by](std::size_t milliseconds) {
                                                 return measure_timers<P>(by, milliseconds);
                                               }});
  }
  to.add("disturbed/completions", {name, rank, to.size(8, 3), measure_completions<P>});
}

}  // namespace bench
