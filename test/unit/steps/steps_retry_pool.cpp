// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "async/threadpool.hpp"
#include "support/flows.hpp"
#include "support/live_count.hpp"

// retry() and every() in flows on a pool. Rules 47 to 50 of steps/RULES.md.

using steps::ErrorCode;
using steps::IAsyncSteps;
using steps::Retry;
using testing::roomy_nitro;
using namespace std::chrono_literals;

namespace {

struct object : testing::live_count<object> {};

constexpr Retry quick(std::size_t attempts) { return {.attempts = attempts, .delay = 100us, .max_delay = 1ms}; }

}  // namespace

TEST_CASE("rule 47: flows and branches on a pool retry, with answers from other threads") {
  constexpr std::size_t count = 300;
  async::threadpool pool(3), outside(1);
  std::atomic<std::size_t> attempts{0};
  std::vector<async::future<std::size_t>> flows;
  for (std::size_t i = 0; i < count; ++i) {
    flows.push_back(steps::post<std::size_t>(pool, [&, i](IAsyncSteps& asi) {
      auto& sums = asi.stack<std::atomic<std::size_t>>(0U);
      auto& branches = asi.parallel();
      for (std::size_t k = 0; k < 3; ++k) {
        branches.retry(quick(4).on("Busy", steps::errors::Timeout), [&, k](IAsyncSteps& call, std::size_t attempt) {
          ++attempts;
          call.stack<object>();
          call.setTimeout(attempt == k && k == 1 ? 1ms : 1min);
          const auto done = call.completion<>();
          if (attempt == k && k == 1) return;  // lost: its own timeout ends it
          outside.execute([done, attempt, k] { attempt < k ? done.error("Busy", "later") : done.success(); });
          call.onEnd([&sums] { ++sums; });
        });
      }
      asi.add([&sums, i](IAsyncSteps& end) { end.success(sums + i); });
    }));
  }
  // Branch 0 makes one attempt. Branch 1 makes three: the server is busy, then loses the request, then answers. Branch
  // 2 makes three as well.
  for (std::size_t i = 0; i < count; ++i) CHECK(flows[i].get() == 6 + i);
  CHECK(attempts == 7 * count);
  CHECK(object::live() == 0);
}

TEST_CASE_TEMPLATE("rule 48: cancel() from another thread ends attempts and pauses of flows on a pool", Flow,
                   steps::AsyncSteps, roomy_nitro) {
  async::threadpool pool(2);
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> attempts{0};
    auto flow = std::make_unique<Flow>(pool);
    flow->retry({.attempts = Retry::unlimited, .delay = std::chrono::microseconds(round % 4 * 100)},
                [&](IAsyncSteps& asi) {
                  asi.stack<object>();
                  ++attempts;
                  if (attempts % 2 == 0) return asi.setTimeout(50us);
                  asi.errorNoThrow("Busy");
                });
    auto end = flow->promise();
    while (attempts < round % 5) std::this_thread::yield();
    round % 2 == 0 ? flow->cancel() : flow.reset();
    CHECK_THROWS_AS(end.get(), std::future_error);
    CHECK(object::live() == 0);
  }
}

TEST_CASE("rule 49: jobs on a pool begin at their ticks, and end with the pool") {
  std::vector<async::future<void>> jobs;
  std::atomic<std::size_t> rounds{0};
  {
    async::threadpool pool(2);
    std::promise<void> enough;
    for (int i = 0; i < 20; ++i) {
      jobs.push_back(steps::post(pool, [&](IAsyncSteps& asi) {
        asi.every(1ms, [&, next = std::size_t{0}](IAsyncSteps& job, const steps::Tick& tick) mutable {
          CHECK(tick.number == next++);
          CHECK(tick.late >= 0ns);
          job.add([&](IAsyncSteps&) {
            if (++rounds == 1'000) enough.set_value();
          });
        });
      }));
    }
    enough.get_future().get();
    static_cast<void>(jobs[0].cancel());
  }
  for (auto& job : jobs) CHECK_THROWS_AS(job.get(), std::future_error);
}
