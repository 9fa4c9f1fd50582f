// SPDX-License-Identifier: BSL-1.0
//
// Coroutines that wait for everything there is, on loops and pools, while timeouts and cancels race with the ends of
// their waits: each ends once, and leaves nothing.
#include "steps/interop/coroutine.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "steps/asyncsteps.hpp"
#include "steps/asynctool.hpp"
#include "support/scale.hpp"

using std::chrono::microseconds;
using steps::ErrorCode;
using steps::IAsyncSteps;
using steps::interop::co;
using steps::interop::execute;
using steps::interop::post;
using steps::interop::schedule;
using steps::interop::sleep_for;
using steps::interop::start;
using steps::interop::task;
using steps::interop::when_ready;

namespace {

/// Shared by the coroutines of a test. `witness` is copied into calls, results and frames, and counts its copies.
struct ground {
  explicit ground(std::size_t threads) : pool(threads) {}

  std::shared_ptr<int> witness = std::make_shared<int>();
  std::atomic<std::size_t> waits{0};
  steps::AsyncTool tool;
  async::threadpool pool;
};

constexpr unsigned kinds = 10;

int add_one(int x, const std::shared_ptr<int>&) { return x + 1; }
void fail(const std::shared_ptr<int>&) { throw std::invalid_argument("as expected"); }

task<int> wait_once(ground& g, async::event_loop& loop, std::uint32_t dice, int depth, int x);

/// The end of a flow of three steps, one of which is a coroutine, on the loop or the pool.
task<int> wait_for_flow(ground& g, async::event_loop& loop, std::uint32_t dice, int depth, int x) {
  const std::shared_ptr<int> here = g.witness;
  const auto build = [&](steps::AsyncSteps& flow) {
    flow.successStep(x);
    if (depth > 0) {
      flow.add(co([&g, dice, depth](IAsyncSteps& asi, int y) -> task<int> {
        co_return co_await wait_once(g, asi.tool(), dice / kinds, depth - 1, y);
      }));
    } else {
      flow.add([](IAsyncSteps& asi, int y) { asi.success(y + 1); });
    }
    flow.add([hold = g.witness](IAsyncSteps& asi, int y) { asi.success(y); });
  };
  if (dice % 2 == 0) {
    steps::AsyncSteps flow{g.pool};
    build(flow);
    co_return co_await execute<int>(flow);
  }
  steps::AsyncSteps flow{loop};
  build(flow);
  co_return co_await execute<int>(flow);
}

/// One wait, of a kind that the dice say; x + 1.
task<int> wait_once(ground& g, async::event_loop& loop, std::uint32_t dice, int depth, int x) {
  const std::shared_ptr<int> here = g.witness;
  g.waits.fetch_add(1, std::memory_order_relaxed);
  switch (dice % kinds) {
    case 0:
      co_await schedule(g.pool);
      co_return x + 1;
    case 1:
      co_await schedule(loop);
      co_return x + 1;
    case 2:
      co_await sleep_for(loop, microseconds(dice / kinds % 200));
      co_return x + 1;
    case 3:
      co_return co_await post(g.pool, add_one, x, here);
    case 4: {
      const auto echo = [here] { return here; };
      const std::shared_ptr<int> back = co_await post(g.pool, echo);
      co_return back == here ? x + 1 : -1'000;
    }
    case 5: {
      std::future<int> later = g.pool.post(add_one, x, here);
      co_return co_await when_ready(loop, std::move(later));
    }
    case 6:
      try {
        co_await post(g.pool, fail, here);
      } catch (const std::invalid_argument&) {
        co_return x + 1;
      }
      co_return -1'000;
    case 7: {
      task<int> later = wait_once(g, loop, dice / kinds, 0, x);
      if (dice / kinds % 3 == 0) co_return x + 1;  // a task that has not begun is destroyed
      co_return co_await std::move(later);
    }
    default:
      co_return co_await wait_for_flow(g, loop, dice / kinds, depth, x);
  }
}

task<int> wait_often(ground& g, async::event_loop& loop, std::uint32_t seed, int count) {
  std::minstd_rand random(seed);
  int x = 0;
  for (int i = 0; i < count; ++i) x = co_await wait_once(g, loop, static_cast<std::uint32_t>(random()), 2, x);
  co_return x;
}

/// All messages between threads have arrived.
void settle(ground& g) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (g.witness.use_count() != 1 && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
  CHECK(g.witness.use_count() == 1);
}

}  // namespace

TEST_CASE("coroutines that wait for flows, futures, pools and timers all end, each with its value") {
  ground g(3);
  const std::size_t rounds = testing::rounds(40'000);
  std::mt19937 random(static_cast<std::mt19937::result_type>(testing::seed()));
  constexpr int count = 5;
  for (std::size_t done = 0; done < rounds;) {
    std::vector<std::future<int>> ends;
    for (; ends.size() < 300 && done < rounds; ++done) {
      ends.push_back(start(wait_often(g, g.tool, static_cast<std::uint32_t>(random()), count)));
    }
    for (auto& end : ends) {
      const int x = end.get();
      CHECK(x == count);
    }
    settle(g);
  }
  CHECK(g.waits.load() >= rounds * count);
}

TEST_CASE("coroutine steps that race with timeouts and cancels end once: by value, Timeout or broken promise") {
  ground g(3);
  const std::size_t rounds = testing::rounds(40'000);
  std::mt19937 random(static_cast<std::mt19937::result_type>(testing::seed()));
  constexpr int count = 4;
  std::size_t values = 0, timeouts = 0, cancels = 0;
  std::atomic<std::size_t> begun{0}, handled{0}, aborted{0}, followed{0};
  for (std::size_t done = 0; done < rounds;) {
    std::vector<std::unique_ptr<steps::AsyncSteps>> flows;
    std::vector<std::future<int>> ends;
    for (; ends.size() < 100 && done < rounds; ++done) {
      const auto seed = static_cast<std::uint32_t>(random());
      flows.push_back(seed % 2 == 0 ? std::make_unique<steps::AsyncSteps>(g.pool)
                                    : std::make_unique<steps::AsyncSteps>(g.tool));
      flows.back()
          ->add(co([&g, &begun, &aborted, seed](IAsyncSteps& asi) -> task<int> {
                  begun.fetch_add(1, std::memory_order_relaxed);
                  if (seed / 2 % 2 == 0) asi.setTimeout(microseconds(seed / 4 % 2'000));
                  asi.setCancel([&aborted] { aborted.fetch_add(1, std::memory_order_relaxed); });
                  const std::shared_ptr<int> here = g.witness;
                  co_return co_await wait_often(g, asi.tool(), seed, count);
                }),
                [&handled](IAsyncSteps& asi, ErrorCode code) {
                  handled.fetch_add(1, std::memory_order_relaxed);
                  if (code == steps::errors::Timeout) asi.success(-1);
                })
          .add([&followed](IAsyncSteps& asi, int x) {
            followed.fetch_add(1, std::memory_order_relaxed);
            asi.success(x);
          });
      ends.push_back(flows.back()->promise<int>());
    }
    std::thread canceller([&] {
      for (std::size_t i = 0; i < flows.size(); i += 3) {
        flows[i]->cancel();
        if (i % 2 == 0) flows[i].reset();  // destroyed while it is being cancelled, or has ended
      }
    });
    for (auto& end : ends) {
      try {
        const int x = end.get();
        CHECK((x == count || x == -1));
        ++(x == -1 ? timeouts : values);
      } catch (const std::future_error& error) {
        CHECK(error.code() == std::future_errc::broken_promise);
        ++cancels;
      }
    }
    canceller.join();
    flows.clear();
    settle(g);
  }
  CHECK(values + timeouts + cancels == rounds);
  CHECK(handled.load() == timeouts);
  CHECK(followed.load() >= values + timeouts);  // more: cancelled after its last step had begun
  CHECK(followed.load() <= begun.load());
  CHECK(aborted.load() >= timeouts);
  CHECK(aborted.load() <= timeouts + cancels);
  CHECK(values > 0);
  CHECK(timeouts > 0);
  CHECK(cancels > 0);
  std::printf("count: %zu coroutines raced with their cancel\n", rounds);
}

TEST_CASE("a pool that stops ends coroutines that wait in it, and leaves none of them behind") {
  const std::size_t rounds = testing::rounds(1'000);
  std::mt19937 random(static_cast<std::mt19937::result_type>(testing::seed()));
  for (std::size_t round = 0; round < rounds; ++round) {
    ground g(2);
    std::vector<std::future<int>> ends;
    std::vector<std::unique_ptr<steps::AsyncSteps>> flows;
    for (int i = 0; i < 10; ++i) {
      const auto seed = static_cast<std::uint32_t>(random());
      flows.push_back(std::make_unique<steps::AsyncSteps>(g.pool));
      flows.back()->add(co([&g, seed](IAsyncSteps& asi) -> task<int> {
        const std::shared_ptr<int> here = g.witness;
        for (int k = 0; k < 3; ++k) {
          co_await sleep_for(asi.tool(), microseconds(seed % 500));
          co_await post(g.pool, add_one, k, g.witness);
        }
        co_return 3;
      }));
      ends.push_back(flows.back()->promise<int>());
    }
    g.pool.stop();
    for (auto& end : ends) {
      try {
        const int x = end.get();
        CHECK(x == 3);
      } catch (const std::future_error& error) {
        CHECK(error.code() == std::future_errc::broken_promise);
      } catch (const steps::Error& error) {
        CHECK(error.code() == steps::errors::InternalError);  // post() to a pool that has stopped
      }
    }
    flows.clear();
    settle(g);
  }
}
