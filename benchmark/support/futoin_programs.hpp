// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for size_t
#include <deque>    // for deque
#include <string>   // for string

#include "harness.hpp"          // for plan, sample
#include "machine.hpp"          // for wall_clock, resident_bytes
#include "steps_workloads.hpp"  // for finished, flows_alive

/// The three programs by which FutoIn measures its AsyncSteps, in the names of its API: for that implementation, and
/// for steps/interop/futoin.hpp. Asi, Tool and Flow are its IAsyncSteps, AsyncTool, and AsyncSteps or NitroSteps.
namespace bench {

/// As in these programs: FutoIn's memory pool has no lock.
template <class Tool>
typename Tool::Params without_lock() {
  typename Tool::Params made;
  made.mempool_mutex = false;
  return made;
}
template <class Tool>
void drain_futoin(Tool& tool) {
  while (tool.iterate().have_work) {
  }
}

/// Flows of one step, one after the other.
template <class Asi, class Tool, class Flow>
sample futoin_sequential(std::size_t flows) {
  Tool tool{[]() {}, without_lock<Tool>()};
  std::size_t done = 0;
  const auto begin = wall_clock::now();
  for (std::size_t i = 0; i != flows; ++i) {
    Flow flow(tool);
    flow.add([&done](Asi&) { ++done; });
    flow.execute();
    drain_futoin(tool);
  }
  return finished(begin, done, flows);
}

/// Flows that wait for a result from outside, 30,000 at a time.
template <class Asi, class Tool, class Flow>
sample futoin_parallel(std::size_t flows) {
  Tool tool{[]() {}, without_lock<Tool>()};
  std::deque<Flow> alive;
  std::deque<Asi*> waiting;
  std::size_t done = 0;
  std::size_t resident = 0;
  const auto begin = wall_clock::now();
  for (std::size_t round = 0; round != flows / flows_alive; ++round) {
    for (std::size_t i = 0; i != flows_alive; ++i) {
      alive.emplace_back(tool);
      alive.back().add([&waiting](Asi& asi) {
        waiting.push_back(&asi);
        asi.waitExternal();
      });
      alive.back().add([&done](Asi&, int one) { done += static_cast<std::size_t>(one); });
      alive.back().execute();
      drain_futoin(tool);
    }
    if (round == 0) resident = resident_bytes();
    for (Asi* asi : waiting) asi->success(1);
    drain_futoin(tool);
    alive.clear();
    waiting.clear();
  }
  sample result = finished(begin, done, flows);
  result.figures["resident MB"] = static_cast<double>(resident) / 1e6;
  return result;
}

/// 30,000 flows whose loops wait for results from outside; one flow gives them.
template <class Asi, class Tool, class Flow>
sample futoin_wait_loops(std::size_t rounds) {
  Tool tool{[]() {}, without_lock<Tool>()};
  std::deque<Flow> alive;
  std::deque<Asi*> waiting;
  std::size_t done = 0;
  const auto begin = wall_clock::now();
  for (std::size_t i = 0; i != flows_alive; ++i) {
    alive.emplace_back(tool);
    alive.back().loop([&waiting, &done](Asi& asi) {
      asi.add([&waiting](Asi& inner) {
        waiting.push_back(&inner);
        inner.waitExternal();
      });
      asi.add([&done](Asi&, int one) { done += static_cast<std::size_t>(one); });
    });
    alive.back().execute();
  }
  Flow giver(tool);
  giver.loop([&](Asi& asi) {
    if (done >= rounds) asi.breakLoop();
    while (!waiting.empty()) {
      Asi* const first = waiting.front();
      waiting.pop_front();
      first->success(1);
    }
  });
  giver.execute();
  drain_futoin(tool);
  sample result;
  result.time = (wall_clock::now() - begin) * (static_cast<double>(rounds) / static_cast<double>(done));
  if (done < rounds || done >= rounds + 2 * flows_alive) result.defect = std::to_string(done) + " rounds";
  result.figures["resident MB"] = static_cast<double>(resident_bytes()) / 1e6;
  return result;
}

template <class Asi, class Tool, class Flow>
void enroll_futoin(plan& to, const std::string& name, int rank) {
  to.add("futoin/sequential", {name, rank, to.size(1'000'000, 200'000), futoin_sequential<Asi, Tool, Flow>});
  to.add("futoin/parallel", {name, rank, to.size(990'000, 300'000), futoin_parallel<Asi, Tool, Flow>});
  to.add("futoin/wait loops", {name, rank, to.size(10'000'000, 2'000'000), futoin_wait_loops<Asi, Tool, Flow>});
}

}  // namespace bench
