// SPDX-License-Identifier: BSL-1.0
//
// What threads outside of a pool do for its flows, while other flows keep its workers busy and never wait.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

#include "async/async.hpp"
#include "steps/steps.hpp"
#include "support/work_for.hpp"

using namespace std::chrono_literals;
using async::threadpool;
using steps::IAsyncSteps;
using testing::work_for;

namespace {

/// A flow for each worker that is never done before its end. It counts its steps, which take 20 us.
class busy_flows {
 public:
  explicit busy_flows(threadpool& pool) {
    for (std::size_t i = 0; i != pool.size(); ++i) {
      flows_.push_back(steps::post(pool, [this](IAsyncSteps& asi) {
        asi.loop([this](IAsyncSteps& step) {
          work_for(20us);
          steps_.fetch_add(1, std::memory_order_relaxed);
          if (is_over_.load(std::memory_order_relaxed)) step.breakLoop();
        });
      }));
    }
    while (steps() < 1'000) std::this_thread::yield();
  }
  ~busy_flows() {
    is_over_.store(true, std::memory_order_relaxed);
    for (auto& flow : flows_) flow.wait();
  }
  busy_flows(const busy_flows&) = delete;
  busy_flows& operator=(const busy_flows&) = delete;

  std::size_t steps() const { return steps_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::size_t> steps_{0};
  std::atomic<bool> is_over_{false};
  std::vector<async::future<void>> flows_;
};

constexpr std::size_t a_turn = 100;  // steps

/// The median of nine.
template <class Measure>
std::size_t median(Measure measure) {
  std::array<std::size_t, 9> all{};
  for (std::size_t& each : all) each = measure();
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

}  // namespace

TEST_CASE("a flow that is told to go on from outside waits for few turns of those that never wait") {
  for (const std::size_t workers : {1U, 2U}) {
    threadpool pool(workers);
    async::queue<steps::completion<>> waits;
    busy_flows others(pool);
    CHECK(median([&] {
            std::size_t steps = 0;
            auto flow = steps::post(pool, [&](IAsyncSteps& asi) {
              asi.add([&](IAsyncSteps& step) { waits.enqueue(step.completion<>()); });
              asi.add([&](IAsyncSteps&) { steps = others.steps() - steps; });
            });
            steps::completion<> wait;
            waits.blocking_dequeue(wait);
            steps = others.steps();
            wait.success();
            flow.get();
            return steps;
          }) < 10 * a_turn * workers);
  }
}

TEST_CASE("a callback that is posted to a loop of a pool from outside waits for few turns of flows that never wait") {
  threadpool pool(1);
  busy_flows others(pool);
  CHECK(median([&] {
          const std::size_t before = others.steps();
          std::atomic<std::size_t> after{0};
          pool.loop(0).post([&] { after = others.steps(); });
          while (after == 0) std::this_thread::yield();
          return after - before;
        }) < 10 * a_turn);
}
