// SPDX-License-Identifier: BSL-1.0
#include <boost/fiber/all.hpp>  // for fiber, yield, mutex, pooled_fixedsize_stack, protected_fixedsize_stack
#include <boost/version.hpp>    // for BOOST_LIB_VERSION

#include <algorithm>  // for min, max
#include <cstddef>    // for size_t
#include <deque>      // for deque
#include <memory>     // for allocator_arg
#include <mutex>      // for lock_guard, unique_lock
#include <string>     // for string
#include <vector>     // for vector

#include "../support/harness.hpp"          // for enroll, plan
#include "../support/machine.hpp"          // for wall_clock, resident_bytes
#include "../support/steps_workloads.hpp"  // for the workloads' sizes

namespace {

namespace fibers = boost::fibers;

template <class Stack, class Body>
fibers::fiber start(Stack& stack, Body body) {
  return fibers::fiber(fibers::launch::post, std::allocator_arg, stack, body);
}

/// One fiber after another: create, run, join.
template <class Stack>
bench::sample create(std::size_t flows) {
  Stack stack;
  std::size_t done = 0;
  const auto begin = bench::wall_clock::now();
  for (std::size_t i = 0; i < flows; ++i) start(stack, [&done] { ++done; }).join();
  return bench::finished(begin, done, flows);
}

/// Batches of fibers that are alive together, each giving way once.
template <class Stack>
bench::sample alive(std::size_t flows) {
  Stack stack;
  std::size_t done = 0;
  std::vector<fibers::fiber> batch;
  batch.reserve(bench::flows_alive);
  std::size_t resident = 0;
  const auto begin = bench::wall_clock::now();
  for (std::size_t left = flows; left != 0;) {
    const std::size_t size = (std::min)(left, bench::flows_alive);
    for (std::size_t i = 0; i < size; ++i) {
      batch.push_back(start(stack, [&done] {
        boost::this_fiber::yield();
        ++done;
      }));
    }
    batch.front().join();  // after this all others have had their first turn
    resident = (std::max)(resident, bench::resident_bytes());
    for (std::size_t i = 1; i < size; ++i) batch[i].join();
    batch.clear();
    left -= size;
  }
  bench::sample result = bench::finished(begin, done, flows);
  result.figures["resident MB"] = static_cast<double>(resident) / 1e6;
  return result;
}

/// Fibers that wait for an event from outside.
template <class Stack>
bench::sample waiting(std::size_t flows) {
  std::size_t started = 0;
  const std::size_t before = bench::resident_bytes();
  Stack stack;
  fibers::mutex mutex;
  fibers::condition_variable changed;
  bool go = false;
  std::deque<fibers::fiber> all;
  for (std::size_t i = 0; i < flows; ++i) {
    all.push_back(start(stack, [&] {
      ++started;
      std::unique_lock lock(mutex);
      changed.wait(lock, [&go] { return go; });
    }));
  }
  while (started != flows) boost::this_fiber::yield();
  bench::sample result;
  result.figures["value"] = static_cast<double>(bench::resident_bytes() - before) / static_cast<double>(flows);
  go = true;
  changed.notify_all();
  for (fibers::fiber& each : all) each.join();
  return result;
}

/// A fixed set of fibers that take turns.
template <class Stack>
bench::sample switches(std::size_t count) {
  Stack stack;
  const std::size_t each = count / bench::flows_alive;
  std::size_t done = 0;
  std::vector<fibers::fiber> batch;
  batch.reserve(bench::flows_alive);
  const auto begin = bench::wall_clock::now();
  for (std::size_t i = 0; i < bench::flows_alive; ++i) {
    batch.push_back(start(stack, [&done, each] {
      for (std::size_t k = 0; k < each; ++k) {
        boost::this_fiber::yield();
        ++done;
      }
    }));
  }
  batch.front().join();  // the others still have their last turn to run
  const std::size_t resident = bench::resident_bytes();
  for (std::size_t i = 1; i < batch.size(); ++i) batch[i].join();
  bench::sample result = bench::finished(begin, done, each * bench::flows_alive);
  result.figures["resident MB"] = static_cast<double>(resident) / 1e6;
  return result;
}

/// A fiber that starts and joins eight others.
template <class Stack>
bench::sample parallel(std::size_t groups) {
  Stack stack;
  std::size_t done = 0;
  fibers::fiber branches[8];
  const auto begin = bench::wall_clock::now();
  for (std::size_t g = 0; g < groups; ++g) {
    for (fibers::fiber& branch : branches) branch = start(stack, [&done] { ++done; });
    for (fibers::fiber& branch : branches) branch.join();
  }
  return bench::finished(begin, done / 8, groups);
}

/// All fibers pass through one mutex and give way inside it.
template <class Stack>
bench::sample mutex(std::size_t sections) {
  Stack stack;
  fibers::mutex one;
  const std::size_t each = sections / bench::flows_alive;
  std::size_t done = 0;
  std::vector<fibers::fiber> batch;
  batch.reserve(bench::flows_alive);
  const auto begin = bench::wall_clock::now();
  for (std::size_t i = 0; i < bench::flows_alive; ++i) {
    batch.push_back(start(stack, [&] {
      for (std::size_t k = 0; k < each; ++k) {
        const std::lock_guard lock(one);
        boost::this_fiber::yield();
        ++done;
      }
    }));
  }
  for (fibers::fiber& fiber : batch) fiber.join();
  return bench::finished(begin, done, each * bench::flows_alive);
}

template <class Stack>
void enroll_stack(bench::plan& plan, const std::string& name, int rank, bool only_main) {
  plan.add("steps/create", {name, rank, plan.size(1'000'000, 100'000), create<Stack>});
  plan.add("steps/alive", {name, rank, plan.size(990'000, 60'000), alive<Stack>});
  plan.add("steps/switch", {name, rank, plan.size(9'990'000, 990'000), switches<Stack>});
  plan.add("steps/waiting", {name, rank, 20'000, waiting<Stack>});
  if (only_main) return;
  plan.add("steps/parallel-8", {name, rank, plan.size(100'000, 20'000), parallel<Stack>});
  plan.add("steps/mutex", {name, rank, plan.size(300'000, 60'000), mutex<Stack>});
}

const bench::enroll these("Boost.Fiber", BOOST_LIB_VERSION, [](bench::plan& plan) {
  enroll_stack<fibers::pooled_fixedsize_stack>(plan, "Boost.Fiber, pooled stacks", 2, false);
  enroll_stack<fibers::protected_fixedsize_stack>(plan, "Boost.Fiber, protected stacks", 3, true);
});

}  // namespace
