// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "async/queue.hpp"
#include "steps/interop/coroutine.hpp"
#include "support/flows.hpp"
#include "support/work_for.hpp"

// Turns of flows whose steps take long end before their hundredth step. Rule 33 of steps/RULES.md.

using steps::IAsyncSteps;
using steps::interop::co;
using steps::interop::task;
using testing::work_for;
using namespace std::chrono_literals;

namespace {

constexpr auto long_step = 2ms;
constexpr auto limit = 10ms;
// The first turn has seventeen, those of the limit as many as fit, and a slow machine fewer.
constexpr int most_steps = 40;

/// Adds a step with a time limit. build(step) adds what it limits.
template <class Build>
void add_limited(IAsyncSteps& asi, Build build) {
  asi.add(
      [build](IAsyncSteps& limited) {
        limited.setTimeout(limit);
        build(limited);
      },
      [](IAsyncSteps& limited, steps::ErrorCode code) {
        if (code == steps::errors::Timeout) limited.success();
      });
}
/// A loop of long steps whose time is limited. `rounds` counts them.
template <class Step>
void add_limited_loop(IAsyncSteps& asi, int& rounds, Step step) {
  add_limited(asi, [&rounds, step](IAsyncSteps& limited) {
    limited.loop([&rounds, step](IAsyncSteps& round) {
      ++rounds;
      step(round);
    });
  });
}
void work(IAsyncSteps&) { work_for(long_step); }

}  // namespace

TEST_CASE("a time limit reaches a flow of long steps on a pool") {
  async::threadpool pool(2);
  int rounds = 0;
  steps::post(pool, [&rounds](IAsyncSteps& asi) { add_limited_loop(asi, rounds, work); }).get();
  CHECK(rounds <= most_steps);
}

TEST_CASE("a time limit reaches a flow of long steps, and steps of steps, on an event loop") {
  async::event_loop loop;
  steps::AsyncSteps flow{loop};
  int rounds = 0, nested = 0;
  add_limited_loop(flow, rounds, work);
  add_limited_loop(flow, nested, [](IAsyncSteps& round) { round.add(work); });
  auto end = flow.promise<void>();
  while (!end.is_ready()) loop.run_for(1ms);
  CHECK(rounds <= most_steps);
  CHECK(nested <= most_steps);
}

TEST_CASE("a cancel from another thread reaches a flow of long steps") {
  async::threadpool pool(2);
  std::atomic<int> rounds{0};
  std::atomic<bool> is_over{false};
  auto end = steps::post(pool, [&](IAsyncSteps& asi) {
    asi.setCancel([&](IAsyncSteps&) { is_over = true; });
    asi.loop([&](IAsyncSteps&) {
      ++rounds;
      work_for(long_step);
    });
  });
  while (rounds == 0) std::this_thread::yield();
  const int before = rounds;
  end.cancel();
  while (!is_over) std::this_thread::yield();
  CHECK(rounds - before <= most_steps);
}

TEST_CASE("flows of long steps on one loop take turns, and timers of the loop come between") {
  async::event_loop loop;
  std::vector<std::unique_ptr<steps::AsyncSteps>> flows;
  constexpr int count = 4, each = 40;
  std::vector<int> rounds(count);
  int differ_most = 0, beats = 0;
  for (int i = 0; i < count; ++i) {
    flows.push_back(std::make_unique<steps::AsyncSteps>(loop));
    flows.back()->repeat(each, [&, i](IAsyncSteps&) {
      ++rounds[static_cast<std::size_t>(i)];
      const auto [least, most] = std::minmax_element(rounds.begin(), rounds.end());
      differ_most = std::max(differ_most, *most - *least);
      work_for(1ms);
    });
    flows.back()->execute();
  }
  steps::AsyncSteps beating{loop};
  beating.every(1ms, [&](IAsyncSteps& tick) {
    ++beats;
    if (*std::min_element(rounds.begin(), rounds.end()) == each) tick.breakLoop();
  });
  auto end = beating.promise<void>();
  while (!end.is_ready()) loop.run_for(1ms);
  CHECK(differ_most <= 20);
  CHECK(beats >= each / 2);
}

TEST_CASE("a time limit reaches a coroutine that works for long between waits that find what they need") {
  async::threadpool pool(2);
  async::queue<int> queue;
  for (int i = 0; i < 1'000; ++i) queue.enqueue(i);
  int rounds = 0;
  steps::post(pool, [&](IAsyncSteps& asi) {
    add_limited(asi, [&](IAsyncSteps& limited) {
      limited.add(co([&](IAsyncSteps&) -> task<> {
        while (co_await queue.pop()) {
          ++rounds;
          work_for(long_step);
        }
      }));
    });
  }).get();
  CHECK(rounds <= most_steps);
}

TEST_CASE("a time limit reaches a loop of coroutines that work for long, and have quick waits") {
  async::threadpool pool(2);
  async::queue<int> queue;
  for (int i = 0; i < 10'000; ++i) queue.enqueue(i);
  int rounds = 0;
  steps::post(pool, [&](IAsyncSteps& asi) {
    add_limited_loop(asi, rounds, [&queue](IAsyncSteps& round) {
      round.add(co([&queue](IAsyncSteps&) -> task<> {
        work_for(long_step);
        for (int i = 0; i < 20; ++i) co_await queue.pop();
      }));
    });
  }).get();
  CHECK(rounds <= most_steps);
}

TEST_CASE("flows of one long step each, branches, and posted functions let timers of their loop fire between them") {
  enum class kind { flows, branches, posted };
  for (const kind of : {kind::flows, kind::branches, kind::posted}) {
    CAPTURE(static_cast<int>(of));
    async::event_loop loop;
    constexpr int count = 60;
    int ran = 0, ran_at_beat = 0, most_between = 0;
    std::function<void()> beat = [&] {
      most_between = std::max(most_between, ran - std::exchange(ran_at_beat, ran));
      if (ran != count) loop.deferred(1ms, [&beat] { beat(); });
    };
    beat();
    loop.run_for(1ms);
    const auto work_once = [&ran] {
      work_for(1ms);
      ++ran;
    };
    std::vector<std::unique_ptr<steps::AsyncSteps>> flows;
    for (int i = 0; i < (of == kind::flows ? count : of == kind::branches ? 1 : 0); ++i) {
      flows.push_back(std::make_unique<steps::AsyncSteps>(loop));
      if (of == kind::flows) {
        flows.back()->add([&](IAsyncSteps&) { work_once(); });
      } else {
        auto& branches = flows.back()->parallel();
        for (int k = 0; k < count; ++k) branches.add([&](IAsyncSteps&) { work_once(); });
      }
      flows.back()->execute();
    }
    if (of == kind::posted) {
      std::thread([&] {
        for (int i = 0; i < count; ++i) loop.post(work_once);
      }).join();
    }
    while (ran_at_beat != count) loop.run_for(1ms);
    CHECK(most_between <= 20);
  }
}

TEST_CASE("a loop with a manual clock runs whole turns, however long they take") {
  testing::bench b;
  steps::AsyncSteps flow{b.loop};
  int rounds = 0;
  flow.loop([&rounds](IAsyncSteps&) {
    ++rounds;
    work_for(100us);
  });
  flow.execute();
  b.loop.iterate();
  CHECK(rounds == 100);
  b.loop.iterate();
  CHECK(rounds == 200);
}
