// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "async/event.hpp"
#include "async/parallel_for.hpp"
#include "async/task_group.hpp"
#include "steps/steps.hpp"
#include "support/flows.hpp"
#include "support/live_count.hpp"
#include "support/occupied.hpp"
#include "support/thrown.hpp"
#include "support/wait_while.hpp"

// Flows whose pool is resized, paused or stopped.

using async::threadpool;
using async::threadpool_options;
using steps::ErrorCode;
using steps::IAsyncSteps;
using testing::is_broken;
using namespace std::chrono_literals;

namespace {

struct held : testing::live_count<held> {};

}  // namespace

TEST_CASE("a pool that stops runs the flows on while they have something to do, and cancels those that wait") {
  std::vector<std::future<void>> waiting;
  std::future<int> working;
  std::atomic<int> cancelled{0};
  {
    threadpool pool(2);
    working = steps::post<int>(pool, [](IAsyncSteps& asi) {
      asi.repeat(1000, [](IAsyncSteps& step, std::size_t) { step.relinquish(); });
      asi.add([](IAsyncSteps& step) { step.success(1); });
    });
    for (int i = 0; i < 100; ++i) {
      waiting.push_back(steps::post(pool, [&cancelled, h = held()](IAsyncSteps& asi) {
        asi.setCancel([&cancelled, inner = held()] { ++cancelled; });
      }));
    }
    waiting.push_back(steps::post(pool, [h = held()](IAsyncSteps& asi) {  // never waits, and never ends
      asi.loop([](IAsyncSteps& step) { step.relinquish(); });
    }));
    waiting.push_back(steps::post(pool, [&cancelled, h = held()](IAsyncSteps& asi) {
      auto& branches = asi.parallel();
      for (int i = 0; i < 20; ++i) {
        branches.add([&cancelled](IAsyncSteps& branch) { branch.setCancel([&cancelled] { ++cancelled; }); });
      }
    }));
  }
  CHECK(working.get() == 1);
  for (auto& w : waiting) CHECK(is_broken(w));
  CHECK(cancelled == 120);
  CHECK(held::live() == 0);
}

TEST_CASE("a pool that stops while paused cancels its flows, and runs the posts of their handlers") {
  std::atomic<int> cancelled{0}, posted{0};
  threadpool pool(3);
  std::vector<std::unique_ptr<steps::AsyncSteps>> flows;
  for (int i = 0; i < 30; ++i) {
    flows.push_back(std::make_unique<steps::AsyncSteps>(pool));
    flows.back()->add([&](IAsyncSteps& asi) {
      asi.setCancel([&] {
        ++cancelled;
        pool.execute([&posted] { ++posted; });
      });
    });
    flows.back()->execute();
  }
  pool.wait_idle();
  pool.configurepool(0);
  pool.stop();
  CHECK(cancelled == 30);
  CHECK(posted == 30);
  flows.clear();
}

TEST_CASE("a cancel handler that the end of a pool calls can wait with a limit, again and again, for what it posts") {
  for (const bool asks_future : {true, false}) {
    threadpool pool(1);
    async::event is_waiting;
    bool has_seen_it = false;
    steps::post(pool, [&](IAsyncSteps& asi) {
      asi.setCancel([&](IAsyncSteps&) {
        async::event done;
        auto posted = pool.post([&done] { done.set(); });
        while (asks_future ? posted.wait_for(1ms) != std::future_status::ready : !done.wait_for(1ms)) {
        }
        has_seen_it = true;
      });
      asi.waitExternal();
      is_waiting.set();
    });
    is_waiting.wait();
    pool.stop();
    CHECK(has_seen_it);
  }
}

TEST_CASE("a pool that stops cancels flows that own each other, whose cancel handlers post flows") {
  constexpr int pairs = 60, posts = 20;
  std::atomic<int> begun{0}, cancelled{0}, posted{0};
  const auto wait = [&](IAsyncSteps& asi) {
    asi.setCancel([&](IAsyncSteps&) { ++cancelled; });
    asi.waitExternal();
    ++begun;
  };
  threadpool pool(2);
  std::vector<std::unique_ptr<steps::AsyncSteps>> owned;
  for (int i = 0; i < pairs; ++i) {
    owned.push_back(std::make_unique<steps::AsyncSteps>(pool));
    owned.back()->add(wait);
    owned.back()->execute();
  }
  while (begun != pairs) std::this_thread::yield();
  for (auto& flow : owned) {
    steps::execute(pool, [&, inner = std::move(flow)](IAsyncSteps& asi) {
      wait(asi);
      asi.setCancel([&](IAsyncSteps&) {
        ++cancelled;
        for (int k = 0; k < posts; ++k) steps::execute(pool, [h = held()](IAsyncSteps&) {});
        pool.execute([&posted] { ++posted; });
      });
    });
  }
  while (begun != 2 * pairs) std::this_thread::yield();
  pool.stop();
  CHECK(cancelled == 2 * pairs);
  CHECK(posted == pairs);
  CHECK(held::live() == 0);
}

TEST_CASE("a loop of a thread outside starts flows on a pool whose flows are being cancelled") {
  threadpool pool(2);
  std::atomic<bool> is_waiting{false}, is_cancelled{false}, has_posted{false};
  steps::execute(pool, [&](IAsyncSteps& asi) {
    asi.setCancel([&](IAsyncSteps&) {
      is_cancelled = true;
      testing::linger(has_posted);
    });
    asi.waitExternal();
    is_waiting = true;
  });
  testing::wait_while(is_waiting, false);
  std::thread outside([&] {
    testing::wait_while(is_cancelled, false);
    async::parallel_for(pool, 0, 1, [&](int) {
      for (int k = 0; k < 200; ++k) steps::execute(pool, [h = held()](IAsyncSteps&) {});
    });
    has_posted = true;
  });
  pool.stop();
  outside.join();
  CHECK(is_cancelled);
  CHECK(held::live() == 0);
}

TEST_CASE("a flow that waits on a paused pool can be destroyed") {
  threadpool pool(2);
  std::atomic<int> cancelled{0};
  {
    steps::AsyncSteps flow{pool};
    flow.add([&](IAsyncSteps& asi) { asi.setCancel([&cancelled] { ++cancelled; }); });
    flow.execute();
    pool.wait_idle();
    pool.configurepool(0);
    pool.wait_idle();
  }
  CHECK(cancelled == 1);
}

TEST_CASE("timers and completions of flows go on where another worker drives their loop") {
  threadpool pool(4);
  std::vector<std::future<int>> results;
  std::vector<steps::completion<int>> tokens(40);
  std::atomic<int> ready{0};
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    results.push_back(steps::post<int>(pool, [&tokens, &ready, i](IAsyncSteps& asi) {
      asi.add([&tokens, &ready, i](IAsyncSteps& step) {
        tokens[i] = step.completion<int>();
        ++ready;
      });
      asi.add([](IAsyncSteps& step, int n) {
        step.add([](IAsyncSteps& inner) { inner.setTimeout(5ms); },
                 [n](IAsyncSteps& inner, ErrorCode) { inner.success(n); });
      });
    }));
  }
  while (ready != static_cast<int>(tokens.size())) std::this_thread::yield();
  pool.configurepool(1);
  for (std::size_t i = 0; i < tokens.size(); ++i) CHECK(tokens[i].success(static_cast<int>(i)));
  pool.configurepool(0);
  std::this_thread::sleep_for(2ms);
  pool.configurepool(2);
  for (std::size_t i = 0; i < tokens.size(); ++i) CHECK(results[i].get() == static_cast<int>(i));
}

TEST_CASE("an error that a flow of execute() leaves unhandled goes to the pool's hook") {
  std::promise<std::string> what;
  threadpool_options options;
  options.threads = 1;
  options.on_unhandled = [&what](std::exception_ptr error) {
    try {
      std::rethrow_exception(error);
    } catch (const steps::Error& e) {
      what.set_value(e.code().c_str());
    }
  };
  threadpool pool(std::move(options));
  steps::AsyncSteps flow{pool};
  flow.add([](IAsyncSteps& asi) { asi.error("Unhandled"); });
  flow.execute();
  CHECK(what.get_future().get() == "Unhandled");
}
