// SPDX-License-Identifier: BSL-1.0
//
// Flows on one thread: steps::AsyncSteps and steps::NitroSteps beside fibers and coroutines (peers/*.cpp).
#include <vector>  // for vector

#include "support/curves.hpp"   // for powers_of_ten
#include "support/harness.hpp"  // for run_program

int main(int argc, char** argv) {
  std::vector<bench::workload> workloads;
  const auto add = [&](const char* name, const char* unit, const char* title, double seconds, int repetitions = 15) {
    workloads.push_back({name, unit, title, seconds, repetitions, false, false});
  };
  add("steps/create", "ns/flow", "a million flows, one after the other", 1.5, 9);
  add("steps/alive", "ns/flow", "a million flows, 30,000 alive at a time, each giving way once", 4, 7);
  add("steps/switch", "ns/switch", "30,000 flows that give way ten million times", 6, 7);
  add("steps/chain", "ns/step", "steps of one flow, one after the other", 0.2);
  add("steps/poll", "ns/iteration", "a loop that looks for something a million times", 0.2);
  add("steps/nested", "ns/flow", "five nested steps, with an argument and a result", 0.2);
  add("steps/error thrown", "ns/flow", "the same with an error thrown at the bottom, handled at the top", 0.5);
  add("steps/error", "ns/flow", "the same with errorNoThrow", 0.2);
  add("steps/timeout", "ns/step", "a limit in time is set, and met", 0.2);
  add("steps/timers", "ns/timer", "a million timers are armed, all at a time, and cancelled", 0.5);
  add("steps/depth", "ns/level", "a hundred thousand steps, each inside the other", 0.1);
  add("steps/sync", "ns/section", "a section of a free mutex", 0.2);
  add("steps/parallel-8", "ns/parallel", "eight branches, forked and joined", 0.6);
  add("steps/mutex", "ns/section", "30,000 flows pass through one mutex and give way inside", 1);
  workloads.push_back({"steps/waiting", "bytes/flow", "resident memory of 100,000 flows that wait", 3, 3, false, true});
  add("futoin/sequential", "ns/flow", "FutoIn's programs: a million flows, one after the other", 1.5, 9);
  add("futoin/parallel", "ns/flow", "the same, 30,000 at a time, each waiting for a result", 4, 7);
  add("futoin/wait loops", "ns/round", "30,000 loops that wait for results ten million times", 10, 7);
  bench::add_curve(workloads, {"growth/flows", "ns/flow", "flows are made, give way once and end", 0.5, 3},
                   "flows alive", bench::powers_of_ten(1'000'000));
  bench::add_curve(workloads, {"growth/timers cancelled", "ns/timer", "timers are armed, then cancelled", 0.3, 3},
                   "timers armed", bench::powers_of_ten(1'000'000));
  bench::add_curve(workloads, {"growth/timers due", "ns/timer", "timers are armed, then due", 0.2, 3}, "timers armed",
                   bench::powers_of_ten(1'000'000));
  return bench::run_program(argc, argv, workloads);
}
