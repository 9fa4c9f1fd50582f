// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <algorithm>  // for find_if, sort
#include <atomic>     // for atomic
#include <chrono>     // for milliseconds
#include <cstddef>    // for size_t, ptrdiff_t
#include <latch>      // for latch
#include <memory>     // for make_unique
#include <string>     // for string
#include <thread>     // for sleep_for, sleep_until
#include <utility>    // for move, pair
#include <vector>     // for vector

#include "harness.hpp"               // for workload, plan, sample
#include "machine.hpp"               // for wall_clock
#include "scheduling_workloads.hpp"  // for step_log, make_waiting_flows, milliseconds_of

/// Measurements of lateness beside work that blocks: of timers and completions of flows, and of callbacks and timers of
/// event loops that share a pool.
namespace bench {

inline constexpr std::size_t timers = 32;
inline constexpr std::size_t disturbed_workers = 4;
inline constexpr std::size_t disturbed_loops = 4;
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

/// The timers of one flow or callback, one after the other. One thread at a time.
struct timer_log {
  struct entry {
    wall_clock::time_point due, seen;
  };
  void arm() { next = wall_clock::now() + beat; }
  void due() { entries.push_back({next, wall_clock::now()}); }
  wall_clock::time_point next;
  std::vector<entry> entries;
};

/// Timers of 3 ms, again and again until end().
class timer_logs {
 public:
  /// `others` also count down `ended` after `stop`.
  explicit timer_logs(std::size_t milliseconds, std::size_t others = 0)
      : each(timers), ended(static_cast<std::ptrdiff_t>(timers + others)) {
    for (timer_log& log : each) log.entries.reserve(milliseconds / 2);
  }
  void end() {
    stop.store(true, std::memory_order_relaxed);
    ended.wait();
  }
  sample result() const {
    std::vector<double> late;
    for (const timer_log& log : each) {
      for (const timer_log::entry& timer : log.entries) late.push_back(milliseconds_of(timer.seen - timer.due));
    }
    return lateness(std::move(late));
  }

  std::vector<timer_log> each;
  std::atomic<bool> stop{false};
  std::latch ended;
};

/// Tasks that block a worker each, and begin to block together.
class blocking_tasks {
 public:
  /// The first one blocks for `shortest`, and each for `more` longer than the one before. Returns once all block.
  template <class P>
  blocking_tasks(P& pool, std::size_t tasks, std::chrono::milliseconds shortest, std::chrono::milliseconds more)
      : begun_(static_cast<std::ptrdiff_t>(tasks)), ended_(static_cast<std::ptrdiff_t>(tasks)) {
    for (std::size_t i = 0; i < tasks; ++i) {
      pool.execute([this, duration = shortest + i * more] {
        begun_.arrive_and_wait();
        std::this_thread::sleep_for(duration);
        ended_.count_down();
      });
    }
    begun_.wait();
    all_block_ = wall_clock::now();
    std::this_thread::sleep_for(shortest / 10);  // until all of them sleep
  }
  /// Waits for the last one, and returns the moment when all had begun.
  wall_clock::time_point wait() const {
    ended_.wait();
    return all_block_;
  }

 private:
  std::latch begun_, ended_;
  wall_clock::time_point all_block_;
};

/// Blocks a worker for 100 ms again and again, each time by another task.
template <class P>
void block_by_tasks(P& pool, const std::atomic<bool>& stop, std::latch& ended) {
  pool.execute([&pool, &stop, &ended] {
    if (stop.load(std::memory_order_relaxed)) return ended.count_down();
    std::this_thread::sleep_for(blocked);
    block_by_tasks(pool, stop, ended);
  });
}

// --- timers of flows -------------------------------------------------------------------------------------------------

enum class disturbance { nothing, task, step };

/// Flows that wait for a timer of 3 ms again and again.
template <class P>
sample measure_timers(disturbance by, std::size_t milliseconds) {
  timer_logs logs(milliseconds, by == disturbance::step ? 1 : 0);
  const auto pool = std::make_unique<P>(disturbed_workers);
  for (timer_log& each : logs.each) pool->add_timer_loop(each, logs.stop, logs.ended);
  if (by == disturbance::step) pool->add_blocking_loop(logs.stop, logs.ended);
  const wall_clock::time_point end = wall_clock::now() + std::chrono::milliseconds(milliseconds);
  if (by != disturbance::task) std::this_thread::sleep_until(end);
  while (wall_clock::now() < end) blocking_tasks(*pool, 1, blocked, {}).wait();  // one task at a time
  logs.end();
  return logs.result();
}

/// The same while all workers are in tasks, again and again. Counts the timer that each flow waits for when all of
/// these have begun.
template <class P>
sample measure_timers_all_busy(std::size_t milliseconds) {
  timer_logs logs(milliseconds);
  const auto pool = std::make_unique<P>(disturbed_workers);
  for (timer_log& each : logs.each) pool->add_timer_loop(each, logs.stop, logs.ended);
  const wall_clock::time_point end = wall_clock::now() + std::chrono::milliseconds(milliseconds);
  std::vector<wall_clock::time_point> moments;
  while (wall_clock::now() < end) {
    moments.push_back(blocking_tasks(*pool, disturbed_workers, blocked, blocked / 10).wait());
  }
  logs.end();
  std::vector<double> late;
  for (const timer_log& each : logs.each) {
    for (const wall_clock::time_point begun : moments) {
      const auto timer = std::find_if(each.entries.begin(), each.entries.end(),
                                      [begun](const timer_log::entry& at) { return at.seen >= begun; });
      if (timer != each.entries.end()) late.push_back(milliseconds_of(timer->seen - timer->due));
    }
  }
  return lateness(std::move(late));
}

// --- completions of flows --------------------------------------------------------------------------------------------

/// Workers that are not free: all but one in tasks of 300 ms, or in steps of 100 ms; or all of them in tasks of 100 ms.
enum class occupied { by_tasks, by_steps, all };

/// Completions from outside for 64 flows.
template <class P>
sample measure_completions(occupied how, std::size_t rounds) {
  constexpr std::size_t flows = 64;
  std::vector<double> late;
  for (std::size_t r = 0; r < rounds; ++r) {
    step_log log(flows);
    std::atomic<bool> stop{false};
    std::latch ended(disturbed_workers - 1);
    std::vector<wall_clock::time_point> given(flows);
    const auto pool = std::make_unique<P>(disturbed_workers);
    make_waiting_flows(*pool, flows, 1, 0, log);
    const auto give = [&](std::chrono::milliseconds pause) {
      for (std::size_t i = 0; i < flows; ++i) {
        if (pause.count() != 0) std::this_thread::sleep_for(pause);
        given[i] = wall_clock::now();
        pool->resume(i);
      }
    };
    if (how == occupied::by_steps) {
      for (std::size_t i = 0; i + 1 < disturbed_workers; ++i) pool->add_blocking_loop(stop, ended);
      std::this_thread::sleep_for(blocked / 5);
      give(beat);  // in 192 ms, so that each of the flows ends a step or two
      log.wait();
      stop.store(true, std::memory_order_relaxed);
      ended.wait();
    } else {
      const bool all = how == occupied::all;
      const blocking_tasks tasks(*pool, all ? disturbed_workers : disturbed_workers - 1, all ? blocked : 3 * blocked,
                                 all ? blocked / 10 : blocked * 0);
      give(blocked * 0);
      log.wait();
      tasks.wait();
    }
    for (const step_log::entry& each : log.wait()) {
      late.push_back(milliseconds_of(each.begin - given[each.flow]));
    }
  }
  return lateness(std::move(late));
}

// --- event loops of the pool -----------------------------------------------------------------------------------------

/// Occupies all workers but one while it exists: each of them runs tasks of 100 ms, one after the other.
template <class P>
class busy_workers {
 public:
  explicit busy_workers(P& pool) {
    for (std::size_t i = 0; i + 1 < disturbed_workers; ++i) block_by_tasks(pool, stop_, ended_);
    std::this_thread::sleep_for(blocked / 5);
  }
  ~busy_workers() {
    stop_.store(true, std::memory_order_relaxed);
    ended_.wait();
  }
  busy_workers(const busy_workers&) = delete;
  busy_workers& operator=(const busy_workers&) = delete;

 private:
  std::atomic<bool> stop_{false};
  std::latch ended_{disturbed_workers - 1};
};

/// Callbacks that a thread outside posts to the loops in turn, one each millisecond.
template <class P>
sample measure_loop_posts(std::size_t milliseconds) {
  std::vector<double> late(milliseconds);
  std::latch ran(static_cast<std::ptrdiff_t>(milliseconds));
  const auto pool = std::make_unique<P>(disturbed_workers);
  {
    const busy_workers<P> beside(*pool);
    for (std::size_t i = 0; i < milliseconds; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      pool->post_to_loop(i % disturbed_loops, [&ran, &mine = late[i], posted = wall_clock::now()] {
        mine = milliseconds_of(wall_clock::now() - posted);
        ran.count_down();
      });
    }
    ran.wait();
  }
  return lateness(std::move(late));
}

/// Timers of 3 ms of the loops, again and again.
template <class P>
sample measure_loop_timers(std::size_t milliseconds) {
  timer_logs logs(milliseconds);
  const auto pool = std::make_unique<P>(disturbed_workers);
  {
    const busy_workers<P> beside(*pool);
    for (std::size_t i = 0; i < timers; ++i) {
      pool->add_loop_timer(i % disturbed_loops, logs.each[i], logs.stop, logs.ended);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    logs.end();
  }
  return logs.result();
}

// --- workloads -------------------------------------------------------------------------------------------------------

inline void declare_lateness(std::vector<workload>& to) {
  const auto add = [&to](const char* name, const char* title) {
    workload made{std::string("disturbed/") + name, "ms p99", title, 6, 3};
    made.only_whole = true;
    to.push_back(std::move(made));
  };
  add("nothing", "lateness of 3 ms timers of 32 flows, 4 workers");
  add("task", "the same beside one task at a time that blocks 100 ms");
  add("step", "the same beside a flow whose steps block 100 ms each, with a turn for others in between");
  add("all busy", "the same while all 4 workers are in tasks of 100 to 130 ms");
  add("completions", "64 completions while 3 of 4 workers are in a task of 300 ms");
  add("completions step", "64 completions, one each 3 ms, beside 3 flows whose steps block 100 ms each, 4 workers");
  add("completions all busy", "64 completions while all 4 workers are in tasks of 100 to 130 ms");
  add("loop post", "callbacks posted to 4 loops of a pool of 4, 3 of which are in tasks of 100 ms again and again");
  add("loop timer", "32 timers of 3 ms of these loops, beside the same tasks");
}

/// Adds an adapter whose flows wait for timers and completions.
template <class P>
void add_lateness(plan& to, const std::string& name, int rank) {
  const std::size_t milliseconds = to.size(3'000, 1'500), rounds = to.size(8, 3);
  for (const auto& [label, by] : {std::pair("nothing", disturbance::nothing), std::pair("task", disturbance::task),
                                  std::pair("step", disturbance::step)}) {
    to.add(std::string("disturbed/") + label,
           {name, rank, milliseconds, [by = by](std::size_t each) { return measure_timers<P>(by, each); }});
  }
  to.add("disturbed/all busy", {name, rank, milliseconds, measure_timers_all_busy<P>});
  for (const auto& [label, how] : {std::pair("", occupied::by_tasks), std::pair(" step", occupied::by_steps),
                                   std::pair(" all busy", occupied::all)}) {
    to.add(std::string("disturbed/completions") + label,
           {name, rank, rounds, [how = how](std::size_t each) { return measure_completions<P>(how, each); }});
  }
}

/// Adds an adapter with event loops that share its workers.
template <class P>
void add_loop_lateness(plan& to, const std::string& name, int rank) {
  const std::size_t milliseconds = to.size(3'000, 1'500);
  to.add("disturbed/loop post", {name, rank, milliseconds, measure_loop_posts<P>});
  to.add("disturbed/loop timer", {name, rank, milliseconds, measure_loop_timers<P>});
}

}  // namespace bench
