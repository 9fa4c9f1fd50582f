// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <algorithm>  // for min, max
#include <atomic>     // for atomic
#include <chrono>     // for milliseconds
#include <cstddef>    // for size_t, ptrdiff_t
#include <latch>      // for latch
#include <memory>     // for make_unique
#include <string>     // for string, to_string
#include <thread>     // for get_id
#include <utility>    // for move
#include <vector>     // for vector

#include "busy.hpp"     // for work_for_a_microsecond
#include "harness.hpp"  // for workload, plan, sample
#include "machine.hpp"  // for wall_clock
#include "tally.hpp"    // for tally

/// Measurements of the scheduling of flows on a pool: the share of each worker.
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

// --- workloads -------------------------------------------------------------------------------------------------------

inline void declare_scheduling(std::vector<workload>& to) {
  for (const spread_case& each : spread_cases()) {
    add_curve(to, {each.curve(), "x fair share", each.title(), 0.8, 3}, "flows", {200, 2'000, 20'000});
  }
  const auto add = [&to](const char* name, const char* unit, const char* title) {
    workload made{name, unit, title, 0.2, 9};
    made.only_whole = true;
    to.push_back(std::move(made));
  };
  add("skew/share", "x fair share", "the busier of 2 workers in 20 ms after one task has resumed 64 flows");
  add("skew/second worker", "us", "from then on until the other worker runs a step");
}

/// Adds an adapter to the workloads of a skew.
template <class P>
void add_skew(plan& to, const std::string& name, int rank) {
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
}

}  // namespace bench
