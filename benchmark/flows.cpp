// SPDX-License-Identifier: BSL-1.0
//
// Flows on thread pools: steps::post, parallel() and completion() between loops next to their peers
// (peers/*_flows.cpp). How many workers there are does not depend on the machine.
#include <vector>  // for vector

#include "support/harness.hpp"  // for run_program

int main(int argc, char** argv) {
  std::vector<bench::workload> workloads;
  const auto add = [&](const char* name, const char* unit, const char* title, double seconds,
                       bool probes_line = false) {
    workloads.push_back({name, unit, title, seconds, 9, probes_line, false});
  };
  add("flows/future outside", "ns/flow", "batches of 21,000 one-step flows with futures, 1 producer, 2 workers", 6);
  add("flows/future inside", "ns/flow", "the same in batches of 1,000 from inside the pool, 2 workers", 3.5);
  add("flows/short", "ns/flow", "a million flows of three steps from one thread outside, 2 workers", 6);
  add("flows/fan-out 8", "ns/parallel", "8 empty branches, forked and joined inside the pool, 2 workers", 3);
  add("flows/fan-out 64", "ns/parallel", "64 empty branches, forked and joined inside the pool, 2 workers", 1.5);
  add("flows/fan-out 1000", "ns/parallel", "1,000 empty branches, forked and joined inside the pool, 2 workers", 1.5);
  add("flows/round trip", "ns/trip", "two loops' flows end each other's waits in turn", 4, true);
  add("flows/round trip x64", "ns/trip", "the same by 64 pairs at a time: what a trip costs each side", 2, true);
  add("flows/scaling 1", "ns/flow", "flows of three steps of a microsecond each, 1 worker", 1.2);
  add("flows/scaling 2", "ns/flow", "flows of three steps of a microsecond each, 2 workers", 1);
  add("flows/scaling 4", "ns/flow", "flows of three steps of a microsecond each, 4 workers", 0.9);
  add("flows/scaling 8", "ns/flow", "flows of three steps of a microsecond each, 8 workers", 0.9);
  return bench::run_program(argc, argv, workloads);
}
