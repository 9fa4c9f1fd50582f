// SPDX-License-Identifier: BSL-1.0
//
// stop(discard) of a pool with flows: each is ended, told and counted, whether it waits, is ready, or has not started.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "async/async.hpp"
#include "steps/steps.hpp"
#include "support/flows.hpp"
#include "support/live_count.hpp"
#include "support/occupied.hpp"
#include "support/scale.hpp"
#include "support/thrown.hpp"

using async::discard;
using async::threadpool;
using steps::IAsyncSteps;
using testing::is_broken;
using testing::lines;
using namespace std::chrono_literals;

namespace {

struct held : testing::live_count<held> {};

const std::string stopped = std::string("Stopped: ") + async::stopped().what();

}  // namespace

TEST_CASE("stop(discard): 100,000 tasks and 1,000 flows that wait end within what the running task needs") {
  const std::size_t tasks = testing::sanitized ? 10'000 : 100'000;
  constexpr std::size_t flows = 1'000;
  std::atomic<std::size_t> cancelled{0}, ended{0}, called{0};
  threadpool pool(2);
  std::vector<async::future<void>> waiting;
  for (std::size_t i = 0; i < flows; ++i) {
    waiting.push_back(steps::post(pool, [&, h = held()](IAsyncSteps& asi) {
      asi.onEnd([&ended] { ++ended; });
      asi.setCancel([&cancelled] { ++cancelled; });
    }));
  }
  pool.wait_idle();
  std::vector<async::future<void>> posted;
  std::size_t dropped = 0;
  {
    std::promise<void> go;
    std::shared_future<void> until = go.get_future().share();
    std::atomic<std::size_t> there{0};
    for (std::size_t i = 0; i < pool.size(); ++i) {
      pool.execute([&there, until] {
        ++there;
        until.wait();
      });
    }
    while (there != 2) std::this_thread::yield();
    for (std::size_t i = 0; i < tasks; ++i) posted.push_back(pool.post([&called] { ++called; }));
    // The tasks that run need 50 ms more after the first has been dropped.
    std::thread opener([&] {
      while (!posted.front().is_ready()) std::this_thread::yield();
      std::this_thread::sleep_for(50ms);
      go.set_value();
    });
    const auto begin = std::chrono::steady_clock::now();
    dropped = pool.stop(discard);
    const auto took = std::chrono::steady_clock::now() - begin;
    opener.join();
    CHECK(took >= 50ms);
    CHECK(took < (testing::sanitized || testing::emulated() ? 10s : 1s));
  }
  CHECK(dropped == tasks + flows);
  CHECK(called == 0);
  CHECK(cancelled == flows);
  CHECK(ended == flows);
  CHECK(held::live() == 0);
  for (auto& each : waiting) REQUIRE(is_broken(each));
  for (auto& each : posted) REQUIRE(is_broken(each));
}

TEST_CASE("stop(discard): flows that have not started are destroyed unstarted, and counted") {
  std::atomic<std::size_t> called{0};
  threadpool pool(1);
  std::vector<async::future<void>> posted;
  std::vector<std::unique_ptr<steps::AsyncSteps>> owned;
  std::vector<std::future<void>> ends;
  std::size_t dropped = 0;
  {
    std::promise<void> go;
    std::atomic<bool> is_there{false};
    pool.execute([&is_there, until = go.get_future()] {
      is_there = true;
      until.wait();
    });
    while (!is_there) std::this_thread::yield();
    for (int i = 0; i < 50; ++i) {
      posted.push_back(steps::post(pool, [&called, h = held()](IAsyncSteps&) { ++called; }));
      owned.push_back(std::make_unique<steps::AsyncSteps>(pool));
      owned.back()->add([&called, h = held()](IAsyncSteps&) { ++called; });
      if (i % 2 == 0) {
        owned.back()->execute();
      } else {
        ends.push_back(owned.back()->promise());
      }
    }
    owned[0]->cancel();  // not counted
    std::thread opener([&] {
      while (!posted.back().is_ready() || ends.back().wait_for(0s) != std::future_status::ready)
        std::this_thread::yield();
      go.set_value();
    });
    dropped = pool.stop(discard);
    opener.join();
  }
  CHECK(dropped == 99);
  CHECK(called == 0);
  CHECK(held::live() == 0);
  for (auto& each : posted) REQUIRE(is_broken(each));
  for (auto& each : ends) REQUIRE(is_broken(each));
  owned.clear();
}

TEST_CASE("stop(discard): a flow that awaits a call which is dropped gets the error Stopped") {
  for (const bool blocks : {false, true}) {
    lines seen;
    threadpool pool(1);
    async::blocking_pool disk({.max_threads = 1});
    std::promise<void> go;
    std::shared_future<void> until = go.get_future().share();
    std::atomic<bool> is_there{false};
    const auto hold = [until, &is_there] {
      is_there = true;
      until.wait();
    };
    blocks ? disk.execute(hold) : pool.execute(hold);
    while (!is_there) std::this_thread::yield();
    testing::bench b;
    steps::AsyncSteps first{b.loop}, second{b.loop};
    const auto add = [&](auto& on) {
      first.add([&on](IAsyncSteps& asi) { asi.await(on, [] { return 1; }); }, testing::noting(seen));
      second.add([&on](IAsyncSteps& asi) { asi.await(on.post([] { return 1; })); }, testing::noting(seen));
    };
    blocks ? add(disk) : add(pool);
    first.execute();
    second.execute();
    b.drain();
    std::thread opener([&] {
      while (seen.size() != 2) b.pass(1ms);
      go.set_value();
    });
    if (blocks) {
      CHECK(disk.stop(discard) == 2);
    } else {
      CHECK(pool.stop(discard) == 2);
    }
    opener.join();
    CHECK(seen == lines{stopped, stopped});
  }
}

TEST_CASE("stop(discard) ends flows that never wait, and flows that post again whenever their call is dropped") {
  threadpool pool(2);
  std::atomic<int> rounds{0};
  async::future<void> busy =
      steps::post(pool, [](IAsyncSteps& asi) { asi.loop([](IAsyncSteps& step) { step.relinquish(); }); });
  async::future<void> stubborn = steps::post(pool, [&](IAsyncSteps& asi) {
    asi.loop([&](IAsyncSteps& round) {
      round.add([&](IAsyncSteps& step) { step.await(pool, [&rounds] { ++rounds; }); },
                [](IAsyncSteps& step, steps::ErrorCode) { step.success(); });
    });
  });
  while (rounds < 10) std::this_thread::yield();
  CHECK(pool.stop(discard) >= 2);
  CHECK(is_broken(busy));
  CHECK(is_broken(stubborn));
}

TEST_CASE("stop(discard) counts a flow that never waits once") {
  threadpool pool(1);
  std::atomic<bool> is_there{false};
  async::future<void> busy = steps::post(pool, [&is_there](IAsyncSteps& asi) {
    asi.loop([&is_there](IAsyncSteps& step) {
      is_there = true;
      step.relinquish();
    });
  });
  while (!is_there) std::this_thread::yield();
  CHECK(pool.stop(discard) == 1);
  CHECK(is_broken(busy));
}

TEST_CASE("stop(discard) counts a flow with branches once") {
  threadpool pool(2);
  std::atomic<int> cancelled{0};
  async::future<void> flow = steps::post(pool, [&](IAsyncSteps& asi) {
    auto& branches = asi.parallel();
    for (int i = 0; i < 20; ++i) {
      branches.add([&](IAsyncSteps& branch) { branch.setCancel([&cancelled] { ++cancelled; }); });
    }
  });
  pool.wait_idle();
  CHECK(pool.stop(discard) == 1);
  CHECK(is_broken(flow));
  CHECK(cancelled == 20);
}

TEST_CASE("stop(discard) counts flows of loop(i), and a flow that an earlier stop() has cancelled it does not") {
  threadpool pool(1);
  steps::AsyncSteps flow{pool.loop(0)};
  std::atomic<int> cancelled{0};
  flow.add([&](IAsyncSteps& asi) { asi.setCancel([&cancelled] { ++cancelled; }); });
  flow.execute();
  pool.wait_idle();
  SUBCASE("discard") {
    CHECK(pool.stop(discard) == 1);
    CHECK(pool.stop(discard) == 1);
  }
  SUBCASE("stop() first") {
    pool.stop();
    CHECK(pool.stop(discard) == 0);
  }
  CHECK(cancelled == 1);
}
