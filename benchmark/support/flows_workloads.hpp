// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <algorithm>  // for min, max
#include <chrono>     // for microseconds
#include <cstddef>    // for size_t
#include <cstdint>    // for uint64_t
#include <memory>     // for make_unique
#include <string>     // for string, to_string
#include <vector>     // for vector

#include "harness.hpp"         // for plan, sample
#include "machine.hpp"         // for wall_clock
#include "pool_workloads.hpp"  // for measure_futures, measure_latency, run_inside, missing_tasks
#include "tally.hpp"           // for tally

/// Measurements that the contestants of the flows workloads share.
namespace bench {

/// Number of items for a sample, from the duration of one item, and at most `most`.
inline std::size_t flows_for(const plan& to, double nanoseconds_each, std::size_t most = 1'000'000) {
  const double budget = to.quick() ? 4e7 : 2e8;
  return (std::max)(std::size_t{1}, (std::min)(most, static_cast<std::size_t>(budget / nanoseconds_each)));
}

/// A task inside the pool posts one-step work and gets every future, batch after batch. Takes the adapters of the pool
/// workloads. An adapter whose tasks must not block in get() also has wait(future).
template <class P>
sample measure_futures_inside(std::size_t batch, std::size_t items) {
  const auto pool = std::make_unique<P>(2);
  sample result;
  const auto produce = [&](std::size_t batches) {
    std::vector<decltype(pool->post(value_task{}))> futures;
    futures.reserve(batch);
    std::uint64_t sum = 0;
    const wall_clock::time_point begin = wall_clock::now();
    for (std::size_t b = 0; b < batches; ++b) {
      for (std::uint64_t i = 0; i < batch; ++i) futures.push_back(pool->post(value_task{i}));
      for (auto& future : futures) {
        if constexpr (requires { pool->wait(future); }) {
          sum += pool->wait(future);
        } else {
          sum += future.get();
        }
      }
      futures.clear();
    }
    result.time = wall_clock::now() - begin;
    if (sum != batches * (batch * (batch - 1) / 2)) result.defect = "a future held a wrong value";
  };
  run_inside(*pool, [&] {
    produce(items / batch / 4);
    produce(items / batch);
  });
  return result;
}

template <class P>
void add_futures(plan& to, const std::string& name, int rank) {
  const bool is_slow = P::nanoseconds_per_task > 10'000;
  const auto whole = [&](std::size_t batch) {
    return (std::max)(std::size_t{1}, flows_for(to, P::nanoseconds_per_task) / batch) * batch;
  };
  const std::size_t outside = is_slow ? 2'100 : 21'000;
  to.add("flows/future outside", {name, rank, whole(outside),
                                  [outside](std::size_t items) { return measure_futures<P>(1, 2, outside, items); }});
  to.add("flows/future inside",
         {name, rank, whole(1'000), [](std::size_t items) { return measure_futures_inside<P>(1'000, items); }});
  to.add("flows/latency 50 us", {name, rank, to.size(2000, 1000), [](std::size_t items) {
                                   return measure_latency<P>(4, items, std::chrono::microseconds(50));
                                 }});
}

/// Calls start() for `flows` flows of `steps` steps each and waits until all have ended. Each step counts in the tally.
template <class Start>
sample measure_flows(std::size_t flows, std::size_t steps, Start start) {
  sample result;
  const auto flood = [&](std::size_t count) {
    const tally ran;
    const wall_clock::time_point begin = wall_clock::now();
    for (std::size_t i = 0; i < count; ++i) start();
    if (!ran.wait_for(count * steps)) result.defect = missing_tasks(ran.so_far(), count * steps);
    result.time = wall_clock::now() - begin;
  };
  flood(flows / 4);
  flood(flows);
  return result;
}

/// Measures `run`: run(count) forks and joins `branches` branches `count` times and returns the duration. Each branch
/// counts in the tally.
template <class Run>
sample measure_fan_out(std::size_t branches, std::size_t groups, Run run) {
  run(groups / 4);
  const tally ran;
  sample result;
  result.time = run(groups);
  if (ran.so_far() != branches * groups) result.defect = missing_tasks(ran.so_far(), branches * groups);
  return result;
}

/// Adds the fan-outs of a contestant and their curve: fork_and_join(branches, groups) takes one sample.
template <class F>
void add_fan_out(plan& to, const std::string& name, int rank, double nanoseconds_per_branch, F fork_and_join,
                 std::size_t most = 1'000) {
  for (const std::size_t branches : {std::size_t{8}, std::size_t{64}, std::size_t{1'000}}) {
    if (branches > most) continue;
    const double each = nanoseconds_per_branch * static_cast<double>(branches);
    to.add("flows/fan-out " + std::to_string(branches),
           {name, rank, flows_for(to, each),
            [branches, fork_and_join](std::size_t groups) { return fork_and_join(branches, groups); }});
  }
  if (most < 1'000) return;
  to.add_to_curve("growth/branches", [&](std::size_t branches) {
    const std::size_t groups = flows_for(to, nanoseconds_per_branch * static_cast<double>(branches), 20'000);
    return entry{name, rank, groups * branches, [=](std::size_t) { return fork_and_join(branches, groups); }};
  });
}

/// Measures `trips` round trips, shared among `pairs` pairs: took(n) makes n by each pair and returns the duration.
template <class Trips>
sample measure_round_trips(std::size_t pairs, std::size_t trips, Trips took) {
  took(trips / pairs / 4 + 1);
  sample result;
  result.time = took(trips / pairs);
  if (pairs == 1) result.figures["half"] = result.time.count() / static_cast<double>(trips) / 2;
  return result;
}

/// Adds a contestant to the curve "scaling/flows": busy_flows(workers, flows) takes one sample.
template <class F>
void add_scaling(plan& to, const std::string& name, int rank, F busy_flows) {
  to.add_to_curve("scaling/flows", [&](std::size_t workers) {
    return entry{name, rank, flows_for(to, 4'000),
                 [workers, busy_flows](std::size_t flows) { return busy_flows(workers, flows); }};
  });
}

}  // namespace bench
