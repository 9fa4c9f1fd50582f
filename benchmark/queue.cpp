// SPDX-License-Identifier: BSL-1.0
//
// Queues of 64-bit numbers: async::queue and async::bounded_queue beside their peers (peers/*.cpp).
#include <vector>  // for vector

#include "support/curves.hpp"   // for crews, powers_of_ten
#include "support/harness.hpp"  // for run_program

int main(int argc, char** argv) {
  std::vector<bench::workload> workloads;
  const auto add = [&](const char* name, const char* unit, const char* title, double seconds, bool threads = true) {
    workloads.push_back({name, unit, title, seconds, 1000, threads});
  };
  add("queue/1:1", "ns/element", "1 producer, 1 consumer", 0.35);
  add("queue/2:2", "ns/element", "2 producers, 2 consumers", 0.76);
  add("queue/1:3", "ns/element", "1 producer, 3 consumers", 0.52);
  add("queue/3:1", "ns/element", "3 producers, 1 consumer", 0.58);
  add("queue/4:4", "ns/element", "4 producers, 4 consumers", 0.91);
  add("queue/bulk 1:1", "ns/element", "32 elements a call, 1 producer, 1 consumer", 0.02);
  add("queue/pair", "ns/pair", "enqueue and dequeue by one thread", 0.07, false);
  add("queue/empty", "ns/call", "dequeue from an empty queue", 0.02, false);
  add("queue/round trip", "ns", "there and back through two queues, median", 0.02);
  workloads.push_back({"queue/memory", "bytes/element", "resident memory of 10 million elements", 3, 3, false, true});
  add("bounded/1:1", "ns/element", "1 producer, 1 consumer, capacity 1024", 0.3);
  add("bounded/2:2", "ns/element", "2 producers, 2 consumers, capacity 1024", 0.8);
  add("bounded/1:3", "ns/element", "1 producer, 3 consumers, capacity 1024", 0.5);
  add("bounded/3:1", "ns/element", "3 producers, 1 consumer, capacity 1024", 1.3);
  add("bounded/4:4", "ns/element", "4 producers, 4 consumers, capacity 1024", 0.8);
  add("bounded/bulk 1:1", "ns/element", "32 elements a call, 1 producer, 1 consumer, capacity 1024", 0.02);
  add("bounded/waiting 1:1", "ns/element", "calls that sleep, 1 producer, 1 consumer, capacity 1024", 0.15);
  add("bounded/waiting 4:4", "ns/element", "calls that sleep, 4 producers, 4 consumers, capacity 1024", 1.3);
  add("bounded/pair", "ns/pair", "enqueue and dequeue by one thread, capacity 1024", 0.08, false);
  add("bounded/empty", "ns/call", "dequeue from an empty queue of capacity 1024", 0.02, false);
  add("bounded/round trip", "ns", "there and back through two queues, median", 0.02);
  bench::add_curve(workloads,
                   {"scaling/queue", "ns/element", "an unbounded queue, half of the threads produce", 0.8, 7, true},
                   "threads", bench::crews(2));
  bench::add_curve(
      workloads,
      {"scaling/bounded", "ns/element", "a queue of capacity 1024, half of the threads produce", 0.8, 7, true},
      "threads", bench::crews(2));
  bench::add_curve(workloads, {"growth/queue", "ns/element", "elements are put into a queue, then taken out", 2, 3},
                   "elements in the queue", bench::powers_of_ten(10'000'000));
  return bench::run_program(argc, argv, workloads);
}
