// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "async/threadpool.hpp"
#include "steps/interop/coroutine.hpp"
#include "steps/interop/sync.hpp"
#include "steps/interop/when_all.hpp"
#include "steps/interop/with_timeout.hpp"
#include "support/flows.hpp"
#include "support/tasks.hpp"

// sync() of tasks. Rule 60 of steps/RULES.md. Without memory: interop_coroutine_groups_memory.cpp.

using async::event_loop;
using steps::ErrorCode;
using steps::IAsyncSteps;
using steps::interop::co;
using steps::interop::schedule;
using steps::interop::sleep_for;
using steps::interop::start;
using steps::interop::sync;
using steps::interop::task;
using steps::interop::when_all;
using steps::interop::with_timeout;
using testing::bench;
using testing::held;
using testing::lines;
using testing::text_of;
using namespace std::chrono_literals;

namespace {

/// Notes how many are inside.
struct room {
  task<int> stay(event_loop& loop, std::chrono::milliseconds time) {
    const held mine;
    most = (std::max)(most, static_cast<int>(held::live()));
    co_await sleep_for(loop, time);
    co_return ++visits;
  }
  int most = 0;
  int visits = 0;
};

}  // namespace

TEST_CASE_TEMPLATE("rule 60: flows take turns in a mutex, and the value comes out", Flow, STEPS_FLOWS) {
  bench b;
  steps::Mutex mutex;
  room inside;
  std::deque<Flow> flows;
  lines seen;
  for (int i = 0; i < 5; ++i) {
    Flow& flow = flows.emplace_back(b.loop);
    flow.add(co([&](IAsyncSteps& asi) -> task<> {
      seen.push_back(std::to_string(co_await sync(mutex, inside.stay(asi.tool(), 2ms))));
    }));
    flow.execute();
  }
  b.pass(30ms);
  CHECK(inside.most == 1);
  CHECK(seen == lines{"1", "2", "3", "4", "5"});
}

TEST_CASE_TEMPLATE("rule 60: the place is given back after a value, an exception, a timeout and a cancel", Flow,
                   STEPS_FLOWS) {
  bench b;
  steps::Semaphore one(1);
  room inside;
  const auto fails = [](event_loop& loop) -> task<> {
    co_await sleep_for(loop, 1ms);
    throw std::runtime_error("No");
  };
  lines seen;
  Flow flow{b.loop};
  flow.add(co([&](IAsyncSteps& asi) -> task<> {
    seen.push_back(co_await text_of(sync(one, inside.stay(asi.tool(), 1ms))));
    seen.push_back(co_await text_of(sync(one, fails(asi.tool()))));
    seen.push_back(co_await text_of(with_timeout(5ms, sync(one, inside.stay(asi.tool(), 1h)))));
    co_await sync(one, inside.stay(asi.tool(), 1h));
  }));
  flow.execute();
  b.pass(30ms);
  CHECK(seen == lines{"", "No", "Timeout: with_timeout(): the task has not ended in time"});
  CHECK(held::live() == 1);
  flow.cancel();
  CHECK(held::live() == 0);
  Flow next{b.loop};
  next.add(co([&](IAsyncSteps& asi) -> task<> { co_await sync(one, inside.stay(asi.tool(), 1ms)); }));
  next.execute();
  b.pass(10ms);
  CHECK(inside.visits == 2);
}

TEST_CASE_TEMPLATE("rule 60: a flow that ends while it waits leaves the queue", Flow, STEPS_FLOWS) {
  bench b;
  steps::Mutex mutex;
  room inside;
  const auto body = [&](IAsyncSteps& asi) -> task<> { co_await sync(mutex, inside.stay(asi.tool(), 5ms)); };
  Flow first{b.loop};
  Flow second{b.loop};
  Flow third{b.loop};
  for (Flow* flow : {&first, &second, &third}) {
    flow->add(co(body));
    flow->execute();
  }
  b.pass(2ms);
  second.cancel();
  b.pass(20ms);
  CHECK(inside.visits == 2);
  CHECK(inside.most == 1);
}

TEST_CASE_TEMPLATE("rule 60: a full queue is DefenseRejected, and the task has not begun", Flow, STEPS_FLOWS) {
  bench b;
  steps::Mutex mutex(1, 0);
  room inside;
  Flow holder{b.loop};
  holder.add(co([&](IAsyncSteps& asi) -> task<> { co_await sync(mutex, inside.stay(asi.tool(), 10ms)); }));
  holder.execute();
  lines seen;
  Flow flow{b.loop};
  flow.add(co([&](IAsyncSteps& asi) -> task<> {
    seen.push_back(co_await text_of(sync(mutex, inside.stay(asi.tool(), 1ms))));
    co_await sleep_for(asi.tool(), 20ms);
    seen.push_back(co_await text_of(sync(mutex, inside.stay(asi.tool(), 1ms))));
  }));
  flow.execute();
  b.pass(50ms);
  REQUIRE(seen.size() == 2);
  CHECK(seen[0].starts_with("DefenseRejected: Mutex"));
  CHECK(seen[1].empty());
  CHECK(inside.visits == 2);
}

TEST_CASE_TEMPLATE("rule 60: a mutex lets its flow in again; tasks side by side are other flows", Flow, STEPS_FLOWS) {
  bench b;
  steps::Mutex mutex;
  room inside;
  bool ended = false;
  Flow flow{b.loop};
  flow.sync(mutex, [&](IAsyncSteps& asi) {
    asi.add(co([&](IAsyncSteps& step) -> task<> {
      co_await sync(mutex, sync(mutex, inside.stay(step.tool(), 1ms)));
      ended = true;
    }));
  });
  flow.execute();
  b.pass(10ms);
  CHECK(ended);

  room both;
  Flow other{b.loop};
  other.add(co([&](IAsyncSteps& step) -> task<> {
    co_await when_all(sync(mutex, both.stay(step.tool(), 2ms)), sync(mutex, both.stay(step.tool(), 2ms)));
  }));
  other.execute();
  b.pass(10ms);
  CHECK(both.visits == 2);
  CHECK(both.most == 1);
}

TEST_CASE("rule 60: a throttle lets its rate in") {
  bench b;
  steps::Throttle throttle(2, 10ms);
  int done = 0;
  const auto at_once = [&]() -> task<> {
    ++done;
    co_return;
  };
  steps::AsyncSteps flow{b.loop};
  flow.add(co([&](IAsyncSteps&) -> task<> {
    for (int i = 0; i < 6; ++i) co_await sync(throttle, at_once());
  }));
  flow.execute();
  b.drain();
  CHECK(done == 2);
  b.pass(12ms);
  CHECK(done == 4);
  b.pass(12ms);
  CHECK(done == 6);
}

TEST_CASE("on a pool, coroutines in steps and without one share a semaphore") {
  constexpr int count = 2'000;
  constexpr std::size_t places = 3;
  async::threadpool pool(4);
  steps::Semaphore semaphore(places);
  std::atomic<std::size_t> inside{0};
  std::atomic<std::size_t> most{0};
  std::atomic<int> visits{0};
  const auto visit = [&](event_loop& loop) -> task<> {
    const std::size_t now = inside.fetch_add(1) + 1;
    for (std::size_t was = most.load(); was < now && !most.compare_exchange_weak(was, now);) {
    }
    co_await schedule(loop);
    inside.fetch_sub(1);
    visits.fetch_add(1);
  };
  const auto without_step = [&](int i) -> task<> {
    co_await schedule(pool);
    co_await sync(semaphore, visit(pool.loop(static_cast<std::size_t>(i) % 4)));
  };
  std::vector<async::future<void>> all;
  for (int i = 0; i < count; ++i) {
    all.push_back(start(without_step(i)));
    all.push_back(steps::post(pool, [&](IAsyncSteps& asi) {
      asi.add(co([&](IAsyncSteps& step) -> task<> { co_await sync(semaphore, visit(step.tool())); }));
    }));
  }
  for (auto& each : all) each.get();
  CHECK(visits == 2 * count);
  CHECK(inside == 0);
  CHECK(most >= 1);
  CHECK(most <= places);
}
