// SPDX-License-Identifier: BSL-1.0
//
// Thread pools: async::threadpool and async::async beside their peers (peers/*.cpp).
#include <vector>  // for vector

#include "support/curves.hpp"   // for crews, powers_of_ten, powers_of_two
#include "support/harness.hpp"  // for run_program

int main(int argc, char** argv) {
  std::vector<bench::workload> workloads;
  const auto add = [&](const char* name, const char* unit, const char* title, double seconds, int repetitions = 1000,
                       bool in_own_process = false) {
    workloads.push_back({name, unit, title, seconds, repetitions, false, in_own_process});
  };
  add("pool/futures 1:2", "ns/task", "batches of 21,000 tasks with futures, 1 producer, 2 workers", 4, 9);
  add("pool/futures 2:2", "ns/task", "batches of 21,000 tasks with futures, 2 producers, 2 workers", 4, 9);
  add("pool/futures 4:4", "ns/task", "batches of 21,000 tasks with futures, 4 producers, 4 workers", 4, 9);
  add("pool/flood 2", "ns/task", "empty tasks without a future from one thread outside, 2 workers", 2, 9);
  add("pool/flood 4", "ns/task", "empty tasks without a future from one thread outside, 4 workers", 2, 9);
  add("pool/tree", "ns/task", "a binary tree of tasks posted from inside, 2 workers", 1.5, 9);
  add("pool/fork-join", "ns/spawn", "fork-join Fibonacci without a cut-off, 2 workers", 0.2);
  add("pool/fork-join outside", "ns/spawn", "the same from a thread outside the pool", 0.2);
  add("pool/search", "ns/search", "a search of 4,096 leaves by a group, which the first hit cancels, 2 workers", 1, 9);
  add("pool/loop 100", "ns/loop", "a loop of 100 cheap calls inside a task, 2 workers", 0.2, 9);
  add("pool/loop 100 outside", "ns/loop", "the same from a thread outside the pool", 0.2, 9);
  add("pool/loop 10 k", "ns/loop", "a loop of 10,000 cheap calls inside a task, 2 workers", 0.2, 9);
  add("pool/loop 10 k outside", "ns/loop", "the same from a thread outside the pool", 0.2, 9);
  add("pool/captures 1 KiB", "ns/task", "tasks of a group that capture 1 KiB, from outside, 2 workers", 0.3, 9);
  add("pool/captures 1 MiB", "ns/task", "tasks of a group that capture 1 MiB, from outside, 2 workers", 0.5, 9);
  add("pool/latency 50 us", "us", "post and wait, 50 us after the last, pool of 4, median", 2, 9);
  add("pool/latency 5 ms", "us", "post and wait, 5 ms after the last, pool of 4, median", 9, 3);
  add("pool/idle", "ms CPU/s", "an idle pool of 8 workers", 15, 2, true);
  add("pool/backlog", "bytes/task", "resident memory of tasks that wait", 5, 2, true);
  add("pool/allocations post", "calls/task", "calls of operator new, task with future", 1, 3);
  add("pool/allocations execute", "calls/task", "calls of operator new, task without future", 0.3, 3);
  add("pool/construct", "ns", "constructing and destroying a pool of 4", 0.2);
  bench::add_curve(workloads, {"scaling/pool", "ns/task", "tasks of a microsecond from one thread outside", 0.5, 5},
                   "workers", bench::crews());
  bench::add_curve(workloads, {"scaling/fork-join", "ns/spawn", "fork-join Fibonacci without a cut-off", 0.1, 5},
                   "workers", bench::crews());
  bench::add_curve(workloads, {"growth/tasks", "ns/task", "tasks are posted, then run by one worker", 1, 3},
                   "tasks that wait", bench::powers_of_ten(10'000'000));
  bench::add_curve(workloads, {"growth/threads", "ns/task", "empty tasks from one thread outside", 0.5, 3}, "workers",
                   bench::powers_of_two(64));
  return bench::run_program(argc, argv, workloads);
}
