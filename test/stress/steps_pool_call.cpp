// SPDX-License-Identifier: BSL-1.0
//
// Calls of await(pool, ...) whose steps end at any moment, by a time limit, a cancel or another branch: in the queue of
// the pool, as a thread takes them, and while they run. Each call's captures go once: with the step as long as no
// thread has taken the call, else after the call, and before the flow goes on.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "steps/steps.hpp"
#include "support/live_count.hpp"
#include "support/scale.hpp"

using steps::ErrorCode;
using steps::IAsyncSteps;

namespace {

/// What a call captures. Its memory shows a second end, and an end while the call is running, to the sanitizers.
struct held : testing::live_count<held> {
  std::unique_ptr<std::size_t> value = std::make_unique<std::size_t>(1);
};

/// The same, which notes its end where the next step looks.
struct noted : held {
  explicit noted(std::shared_ptr<bool> end) : has_ended(std::move(end)) {}
  noted(noted&&) = default;
  ~noted() {
    if (has_ended != nullptr) *has_ended = true;
  }
  std::shared_ptr<bool> has_ended;
};

struct counts {
  std::atomic<std::size_t> calls{0}, results{0}, late{0}, ends{0};
};

template <class Pool>
void ask(IAsyncSteps& asi, Pool& pool, counts& all, std::size_t round) {
  asi.add(
      [&pool, &all, round](IAsyncSteps& step) {
        if (round % 3 != 0) step.setTimeout(std::chrono::microseconds(round * 7 % 200));
        if (round % 4 == 0) {  // a branch that ends before cancels the other
          auto& branches = step.race();
          branches.add([](IAsyncSteps& brief) { brief.relinquish(); });
          branches.add([&pool, &all](IAsyncSteps& branch) {
            branch.await(pool, [&all, h = held()] { all.calls += *h.value; });
            branch.add([&all](IAsyncSteps&) { ++all.results; });
          });
        } else {
          const auto has_ended = std::make_shared<bool>(false);
          step.await(pool, [&all, h = noted(has_ended)] {
            for (int i = 0; i < 100; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
            all.calls += *h.value;
          });
          step.add([&all, has_ended](IAsyncSteps&) {
            ++all.results;
            if (!*has_ended) ++all.late;
          });
        }
      },
      [](IAsyncSteps& step, ErrorCode code) {
        if (code == steps::errors::Timeout) step.success();
      });
  asi.add([&all](IAsyncSteps&) { ++all.ends; });
}

template <class Pool>
void run(Pool& calls, std::size_t rounds) {
  counts all;
  {
    async::threadpool pool(2);
    std::vector<async::future<void>> flows;
    for (std::size_t i = 0; i < 4; ++i) {
      flows.push_back(steps::post(pool, [&, i](IAsyncSteps& asi) {
        asi.repeat(rounds, [&, i](IAsyncSteps& turn, std::size_t round) { ask(turn, calls, all, round + i); });
      }));
    }
    for (std::size_t i = 0; i < rounds / 4; ++i) {  // flows that are cancelled from outside, or with their owner
      steps::AsyncSteps flow(pool);
      flow.add([&](IAsyncSteps& asi) { asi.await(calls, [&all, h = held()] { all.calls += *h.value; }); });
      flow.execute();
      if (i % 2 == 0) std::this_thread::yield();
      if (i % 3 == 0) flow.cancel();
    }
    for (auto& flow : flows) flow.get();
  }
  calls.wait_idle();
  CHECK(all.ends == 4 * rounds);
  CHECK(all.results <= all.calls);
  CHECK(all.late == 0);
  CHECK(all.calls <= 4 * rounds + rounds / 4);
  CHECK(held::live() == 0);
}

}  // namespace

TEST_CASE("calls of flows for a threadpool, and steps that end meanwhile") {
  async::threadpool calls(2);
  run(calls, testing::rounds(4000));
}

TEST_CASE("calls of flows for a blocking_pool, and steps that end meanwhile") {
  async::blocking_pool calls{{.max_threads = 2}};
  run(calls, testing::rounds(4000));
}

TEST_CASE("a pool that discards its calls while their steps end") {
  for (std::size_t round = testing::rounds(200); round != 0; --round) {
    counts all;
    {
      async::threadpool calls(1);
      async::threadpool pool(1);
      std::vector<async::future<void>> flows;
      for (std::size_t i = 0; i < 8; ++i) {
        flows.push_back(steps::post(pool, [&, i](IAsyncSteps& asi) {
          asi.add([&, i](IAsyncSteps& step) { ask(step, calls, all, round + i); },
                  [](IAsyncSteps& step, ErrorCode code) {
                    if (code == "Stopped") step.success();
                  });
        }));
      }
      calls.stop(async::discard);
      for (auto& flow : flows) flow.get();
    }
    REQUIRE(held::live() == 0);
  }
}
