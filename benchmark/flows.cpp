// SPDX-License-Identifier: BSL-1.0
//
// Flows on thread pools: steps::post, parallel(), and completion() between loops, beside their peers
// (peers/*_flows.cpp); and the scheduling of flows (peers/*_scheduling.cpp). The number of workers does not depend on
// the machine, except in the scaling curve.
#include <vector>  // for vector

#include "support/curves.hpp"                // for crews, powers_of_ten
#include "support/harness.hpp"               // for run_program
#include "support/lateness_workloads.hpp"    // for declare_lateness
#include "support/scheduling_workloads.hpp"  // for declare_scheduling

int main(int argc, char** argv) {
  std::vector<bench::workload> workloads;
  const auto add = [&](const char* name, const char* unit, const char* title, double seconds,
                       bool probes_line = false) {
    workloads.push_back({name, unit, title, seconds, 9, probes_line, false});
  };
  add("flows/future outside", "ns/flow", "batches of 21,000 one-step flows with futures, 1 producer, 2 workers", 6);
  add("flows/future inside", "ns/flow", "the same in batches of 1,000 from inside the pool, 2 workers", 3.5);
  add("flows/latency 50 us", "us", "post a one-step flow and wait, 50 us after the last, pool of 4, median", 1.5);
  add("flows/short", "ns/flow", "a million flows of three steps from one thread outside, 2 workers", 6);
  add("flows/fan-out 8", "ns/parallel", "8 empty branches, forked and joined inside the pool, 2 workers", 3);
  add("flows/fan-out 64", "ns/parallel", "64 empty branches, forked and joined inside the pool, 2 workers", 1.5);
  add("flows/fan-out 1000", "ns/parallel", "1,000 empty branches, forked and joined inside the pool, 2 workers", 1.5);
  add("flows/round trip", "ns/trip", "two loops' flows end each other's waits in turn", 4, true);
  add("flows/round trip x64", "ns/trip", "the same by 64 pairs at a time: what a trip costs each side", 2, true);
  add("flows/round trip pool", "ns/trip", "two flows of a pool of 2 end each other's waits in turn", 4, true);
  add("flows/round trip pool x64", "ns/trip", "the same by 64 pairs at a time", 2, true);
  add("flows/hand-over", "ns/section", "two loops' flows pass a mutex to and fro", 1, true);
  add("flows/hop", "ns/hop", "the round trip's work: one thread turns both loops", 0.3);
  add("flows/hop mutex", "ns/hop", "the hand-over's work: one thread turns both loops", 0.3);
  add("flows/queues one loop", "ns/message", "two flows of a loop send each other messages by two queues", 0.3);
  add("flows/queues two loops", "ns/trip", "the same by flows of two loops: a trip there and back", 2, true);
  add("flows/queues pool", "ns/trip", "the same by two flows of a pool of 2", 2, true);
  bench::add_curve(workloads, {"scaling/flows", "ns/flow", "flows of three steps of a microsecond each", 1, 5},
                   "workers", bench::crews());
  bench::add_curve(workloads, {"growth/branches", "ns/branch", "empty branches, forked and joined, 2 workers", 0.7, 3},
                   "branches", bench::powers_of_ten(10'000));
  bench::declare_scheduling(workloads);
  bench::declare_lateness(workloads);
  return bench::run_program(argc, argv, workloads);
}
