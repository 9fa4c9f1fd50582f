// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "steps/asynctool.hpp"
#include "steps/steps.hpp"
#include "support/live_count.hpp"
#include "support/start_line.hpp"

// Callbacks that destroy flows of each other's loops at the same time: none of them waits for the other to return.

using async::event_loop;
using async::threadpool;
using steps::AsyncSteps;
using steps::AsyncTool;
using steps::IAsyncSteps;

namespace {

struct held : testing::live_count<held> {};

event_loop* loop_of(AsyncTool& tool) { return &static_cast<event_loop&>(tool); }

/// Has calls[i] run in a callback of loops[i], all at the same time, and waits for them.
void at_once(const std::vector<event_loop*>& loops, const std::vector<std::function<void()>>& calls) {
  testing::start_line together(calls.size());
  testing::countdown done(calls.size());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    loops[i]->post([&, i] {
      together.wait();
      calls[i]();
      done.count_down();
    });
  }
  done.wait();
}

/// A step that waits for ever.
void park(AsyncSteps& flow, testing::countdown& parked, std::atomic<int>& cancelled) {
  flow.add([&parked, &cancelled, h = held()](IAsyncSteps& asi) {
    asi.setCancel([&cancelled, inner = held()] { ++cancelled; });
    parked.count_down();
  });
}

}  // namespace

TEST_CASE("two callbacks on two loops destroy flows that wait on each other's loop") {
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> cancelled{0};
    testing::countdown parked(2);
    AsyncTool a, b;
    auto on_a = std::make_unique<AsyncSteps>(a);
    auto on_b = std::make_unique<AsyncSteps>(b);
    for (AsyncSteps* flow : {on_a.get(), on_b.get()}) {
      park(*flow, parked, cancelled);
      flow->execute();
    }
    parked.wait();
    at_once({loop_of(a), loop_of(b)}, {[&] { on_b.reset(); }, [&] { on_a.reset(); }});
    CHECK(cancelled == 2);
    CHECK(held::live() == 0);
  }
}

TEST_CASE("steps of flows destroy flows that wait on each other's loop") {
  std::atomic<int> cancelled{0};
  testing::countdown parked(2), done(2);
  testing::start_line together(2);
  AsyncTool a, b;
  auto on_a = std::make_unique<AsyncSteps>(a);
  auto on_b = std::make_unique<AsyncSteps>(b);
  park(*on_a, parked, cancelled);
  park(*on_b, parked, cancelled);
  on_a->execute();
  on_b->execute();
  parked.wait();
  AsyncSteps from_a{a}, from_b{b};
  const auto destroy = [&](std::unique_ptr<AsyncSteps>& other) {
    return [&](IAsyncSteps& asi) {
      asi.add([&](IAsyncSteps&) {
        together.wait();
        other.reset();
      });
      asi.add([&](IAsyncSteps&) { done.count_down(); });
    };
  };
  from_a.add(destroy(on_b));
  from_b.add(destroy(on_a));
  from_a.execute();
  from_b.execute();
  done.wait();
  CHECK(cancelled == 2);
}

TEST_CASE("two callbacks destroy flows that each other's loop has not begun to execute") {
  for (int round = 0; round < 20; ++round) {
    AsyncTool a, b;
    testing::start_line sent(2);
    const auto call = [&](event_loop& there) {
      return [&] {
        auto flow = std::make_unique<AsyncSteps>(there);
        flow->add([h = held()](IAsyncSteps&) {});
        flow->execute();  // the other loop is busy
        sent.wait();
      };
    };
    at_once({loop_of(a), loop_of(b)}, {call(b), call(a)});
    CHECK(held::live() == 0);
  }
}

TEST_CASE("three callbacks in a ring destroy flows that they have cancelled") {
  std::atomic<int> cancelled{0};
  testing::countdown parked(3);
  AsyncTool a, b, c;
  const std::array<event_loop*, 3> loops{loop_of(a), loop_of(b), loop_of(c)};
  std::array<std::unique_ptr<AsyncSteps>, 3> flows;
  for (std::size_t i = 0; i < 3; ++i) {
    flows[i] = std::make_unique<AsyncSteps>(*loops[i]);
    park(*flows[i], parked, cancelled);
    flows[i]->execute();
  }
  parked.wait();
  std::vector<std::function<void()>> calls;
  for (std::size_t i = 0; i < 3; ++i) {
    calls.push_back([&, next = (i + 1) % 3] {
      flows[next]->cancel();
      flows[next].reset();
    });
  }
  at_once({loops.begin(), loops.end()}, calls);
  CHECK(cancelled == 3);
  CHECK(held::live() == 0);
}

TEST_CASE("workers destroy flows whose branches wait on the loops of the other workers") {
  constexpr std::size_t threads = 3;
  for (int round = 0; round < 10; ++round) {
    testing::countdown parked(threads * threads), cancelled(threads * threads);
    threadpool pool(threads);
    std::array<std::unique_ptr<AsyncSteps>, threads> flows;
    std::vector<event_loop*> loops;
    for (std::size_t i = 0; i < threads; ++i) loops.push_back(&pool.loop(i));
    for (auto& flow : flows) {
      testing::start_line on_all(threads);  // a branch on each loop
      testing::countdown begun(threads);
      flow = std::make_unique<AsyncSteps>(pool);
      auto& branches = flow->parallel();
      for (std::size_t i = 0; i < threads; ++i) {
        branches.add([&, h = held()](IAsyncSteps& asi) {
          on_all.wait();
          asi.setCancel([&cancelled] { cancelled.count_down(); });
          parked.count_down();
          begun.count_down();
        });
      }
      flow->execute();
      begun.wait();
    }
    parked.wait();
    std::vector<std::function<void()>> calls;
    for (auto& flow : flows) calls.push_back([&flow] { flow.reset(); });
    at_once(loops, calls);
    cancelled.wait();  // a flow of the destroyer's loop ends when the callback has returned
    pool.stop();
    CHECK(held::live() == 0);
  }
}
