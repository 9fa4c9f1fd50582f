// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <utility>
#include <vector>

#include "async/async.hpp"
#include "async/select.hpp"
#include "steps/interop/coroutine.hpp"
#include "steps/interop/when_all.hpp"
#include "steps/steps.hpp"
#include "support/flows.hpp"
#include "support/live_count.hpp"

// Coroutines that wait for the first of several. Rules 43, 52 and 53 of steps/RULES.md. Coroutines of other types:
// select_awaiting.cpp.

using async::after;
using async::nothing_left;
using async::on_pop;
using async::on_push;
using async::on_ready;
using async::on_set;
using async::selection;
using steps::ErrorCode;
using steps::IAsyncSteps;
using steps::interop::co;
using steps::interop::start;
using steps::interop::task;
using testing::bench;
using testing::lines;
using testing::noting_code;
using namespace std::chrono_literals;

namespace {

using numbers = async::queue<int>;
using ring = async::bounded_queue<int>;
using ints = std::vector<int>;
struct local : testing::live_count<local> {};

task<int> flow_of(async::threadpool& pool, numbers& q, ring& r) {
  async::future<int> chosen = steps::post<int>(pool, [&q, &r](IAsyncSteps& asi) {
    const auto pass_on = [](IAsyncSteps& step, int v) { step.success(v); };
    asi.select(on_pop(q, pass_on), on_pop(r, pass_on), after(1h, [](IAsyncSteps& step) { step.success(-1); }));
  });
  co_return co_await std::move(chosen);
}

/// The first of two queues and a time; -1: the time; -2: closed.
task<int> first_of(numbers& q, ring& r, std::chrono::milliseconds limit) {
  const local mine;
  int got = -1;
  const auto keep = [&got](int n) { got = n; };
  if (co_await selection(on_pop(q, keep), on_pop(r, keep), after(limit)) == nothing_left) got = -2;
  co_return got;
}

auto selects(numbers& q, ring& r, ints& got, std::chrono::milliseconds limit = 1h) {
  return co([&q, &r, &got, limit](IAsyncSteps&) -> task<> { got.push_back(co_await first_of(q, r, limit)); });
}

}  // namespace

TEST_CASE("rule 43: a coroutine awaits a flow that selects") {
  async::threadpool pool(1);
  numbers q;
  ring r(1);
  std::future<int> first = start(flow_of(pool, q, r));
  std::future<int> second = start(flow_of(pool, q, r));
  r.enqueue(7);
  q.enqueue(8);
  CHECK(first.get() + second.get() == 15);
  CHECK(q.empty());
  CHECK(r.empty());
}

TEST_CASE_TEMPLATE("rule 53: a coroutine that is a step takes an element in its loop's turn", Flow, STEPS_FLOWS) {
  bench b;
  numbers q;
  ring r(2);
  ints got;
  Flow flow{b.loop};
  for (int i = 0; i < 3; ++i) flow.add(selects(q, r, got));
  flow.execute();
  b.drain();
  r.enqueue(1);
  CHECK(r.approx_size() == 1);  // not before the turn
  q.enqueue(2);
  b.drain();
  CHECK(got == ints{2, 1});
  b.loop.post([&] { q.enqueue(3); });
  b.drain();
  CHECK(got == ints{2, 1, 3});
  CHECK(local::live() == 0);
}

TEST_CASE_TEMPLATE("rule 53: the time is that of the flow's loop, from the wait on", Flow, STEPS_FLOWS) {
  bench b;
  numbers q;
  ring r(2);
  ints got;
  Flow flow{b.loop};
  flow.add(selects(q, r, got, 20ms)).add(selects(q, r, got, 20ms)).add(selects(q, r, got, 0ms));
  flow.execute();
  b.pass(19ms);
  CHECK(got.empty());
  b.pass(2ms);
  CHECK(got == ints{-1});
  b.pass(10ms);
  q.enqueue(5);
  b.pass(1ms);
  CHECK(got == ints{-1, 5, -1});
}

TEST_CASE_TEMPLATE("rule 53: when nothing is left but after() the coroutine goes on", Flow, STEPS_FLOWS) {
  bench b;
  numbers q;
  ring r(2);
  ints got;
  Flow flow{b.loop};
  flow.add(selects(q, r, got));
  flow.execute();
  b.drain();
  q.close();
  b.drain();
  CHECK(got.empty());
  r.close();
  b.drain();
  CHECK(got == ints{-2});
}

TEST_CASE_TEMPLATE("rule 53: a timeout or cancel takes no element, and a wake-up goes on to the next waiter", Flow,
                   STEPS_FLOWS) {
  bench b;
  numbers q;
  ring r(2);
  ints got;
  lines seen;
  Flow flow{b.loop}, next{b.loop};
  SUBCASE("timeout") {
    flow.add(
        [&](IAsyncSteps& asi) {
          asi.setTimeout(20ms);
          asi.add(selects(q, r, got));
        },
        noting_code(seen));
    flow.execute();
    b.pass(21ms);
    CHECK(seen == lines{"Timeout"});
  }
  SUBCASE("cancel") {
    flow.add(selects(q, r, got));
    flow.execute();
    b.drain();
    flow.cancel();
  }
  SUBCASE("cancel after it was woken") {
    flow.add(selects(q, r, got));
    next.add([&](IAsyncSteps& asi) { asi.await(q); }).add([&](IAsyncSteps&, int n) { got.push_back(10 * n); });
    flow.execute();
    b.drain();
    next.execute();
    b.drain();
    q.enqueue(1);
    flow.cancel();
    b.drain();
    CHECK(got == ints{10});
    got.clear();
  }
  SUBCASE("destroyed after it was woken by both") {
    {
      Flow gone{b.loop};
      gone.add(selects(q, r, got));
      gone.execute();
      b.drain();
      q.enqueue(1);
      r.enqueue(2);
    }
    CHECK(q.approx_size() + r.approx_size() == 2);
    q.dequeue();
    r.dequeue();
  }
  CHECK(local::live() == 0);
  q.enqueue(1);
  r.enqueue(2);
  b.drain();
  CHECK(got.empty());
  CHECK(q.approx_size() == 1);
  CHECK(r.approx_size() == 1);
}

TEST_CASE("rule 53: futures and events end the wait; items stay where they are") {
  bench b;
  async::event e;
  async::promise<int> p;
  async::future<int> f = p.get_future();
  ring full(1);
  full.enqueue(1);
  std::vector<std::size_t> which;
  std::vector<int> item{1, 2, 3};
  async::bounded_queue<std::vector<int>> packed(1);
  packed.enqueue();
  steps::AsyncSteps flow{b.loop};
  flow.add(co([&](IAsyncSteps&) -> task<> {
    which.push_back(co_await selection(on_push(packed, std::move(item)), on_ready(f), on_set(e)));
    which.push_back(co_await selection(on_push(packed, std::move(item)), on_set(e)));
    which.push_back(co_await selection(on_push(packed, std::move(item))));
  }));
  flow.execute();
  b.drain();
  p.set_value(1);
  b.drain();
  CHECK(which.size() == 1);
  e.set();
  b.drain();
  CHECK(item.size() == 3);
  packed.dequeue();
  b.drain();
  CHECK(which == std::vector<std::size_t>{1, 1, 0});
  CHECK(packed.dequeue()->size() == 3);
}

TEST_CASE("rule 53: a branch that selects and loses when_any() leaves its queues") {
  bench b;
  numbers q;
  ring r(2);
  std::size_t winner = 9;
  steps::AsyncSteps flow{b.loop};
  flow.add(co([&](IAsyncSteps&) -> task<> {
    const auto won = co_await steps::interop::when_any(first_of(q, r, 1h), first_of(q, r, 10ms));
    winner = won.index;
  }));
  flow.execute();
  b.pass(11ms);
  CHECK(winner == 1);
  CHECK(local::live() == 0);
  q.enqueue(1);
  CHECK(q.approx_size() == 1);
}

TEST_CASE("rule 52: a flow selects on an event, also on one that is set and reset during the wait") {
  bench b;
  async::event e;
  numbers q;
  lines seen;
  steps::AsyncSteps flow{b.loop};
  flow.add([&](IAsyncSteps& asi) {
    asi.select(on_pop(q, [&](IAsyncSteps&, int) { seen.emplace_back("element"); }),
               on_set(e, [&](IAsyncSteps&) { seen.emplace_back("set"); }));
    e.set();
    e.reset();  // before the step's first run
  });
  flow.execute();
  b.drain();
  CHECK(seen.empty());
  e.set();
  e.reset();
  b.drain();
  CHECK(seen == lines{"set"});
  CHECK(e.is_set() == false);
}
