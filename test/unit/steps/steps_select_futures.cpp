// SPDX-License-Identifier: BSL-1.0
//
// Futures that belong to a step of select(). Rule 42 of steps/RULES.md.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "async/async.hpp"
#include "support/flows.hpp"
#include "support/live_count.hpp"
#include "support/occupied.hpp"

using async::on_pop;
using async::on_ready;
using steps::ErrorCode;
using steps::IAsyncSteps;
using testing::bench;
using testing::lines;
using testing::noting;
using namespace std::chrono_literals;

namespace {

struct held : testing::live_count<held> {};

}  // namespace

TEST_CASE_TEMPLATE("rule 42: a future of the step is cancelled when another case or the step's end comes first", Flow,
                   STEPS_FLOWS) {
  async::threadpool pool(1);
  const testing::occupied busy(pool, 1);
  bench b;
  lines seen;
  async::queue<int> q;
  auto flow = std::make_unique<Flow>(b.loop);
  flow->add([&](IAsyncSteps& asi) {
    asi.setTimeout(10ms);
    asi.select(on_ready(pool.post([h = held()] {}), [](IAsyncSteps&) {}),
               on_pop(q, [&seen](IAsyncSteps&, int v) { seen.push_back("q" + std::to_string(v)); }), noting(seen));
  });
  SUBCASE("another case") {
    flow->execute();
    b.drain();
    CHECK(held::live() == 1);
    q.enqueue(5);
    b.drain();
    CHECK(seen == lines{"q5"});
  }
  SUBCASE("a timeout") {
    flow->execute();
    b.pass(20ms);
    CHECK(seen == lines{"Timeout: "});
  }
  SUBCASE("a cancel of the flow") {
    flow->execute();
    b.drain();
    flow->cancel();
  }
  SUBCASE("the end of the flow") {
    flow->execute();
    b.drain();
    CHECK(held::live() == 1);
    flow.reset();
  }
  CHECK(held::live() == 0);
}

TEST_CASE_TEMPLATE("rule 42: neither a future that has a name nor one that the handler moves out is cancelled", Flow,
                   STEPS_FLOWS) {
  async::threadpool pool(1);
  const testing::occupied busy(pool, 1);
  bench b;
  async::future<int> named = pool.post([h = held()] { return 7; });
  async::future<int> taken;
  async::promise<int> mine;
  auto flow = std::make_unique<Flow>(b.loop);
  flow->select(on_ready(named, [](IAsyncSteps&) {}),
               on_ready(mine.get_future(), [&](IAsyncSteps&, auto& f) { taken = std::move(f); }));
  flow->execute();
  b.drain();
  mine.set_value(3);
  b.drain();
  flow.reset();
  CHECK(taken.get() == 3);
  CHECK(!named.is_ready());
  CHECK(held::live() == 1);
  CHECK(named.cancel());
}

TEST_CASE("rule 42: a flow of post() that loses in select() is asked to end, and its timeout reaches it") {
  async::threadpool pool(2);
  for (const bool is_timeout : {false, true}) {
    async::event gone, ended;
    std::atomic<bool> has_begun{false};
    steps::post(pool, [&](IAsyncSteps& asi) {
      asi.add(
          [&](IAsyncSteps& step) {
            if (is_timeout) step.setTimeout(20ms);
            step.select(on_ready(steps::post(pool,
                                             [&](IAsyncSteps& work) {
                                               work.onEnd([&] { ended.set(); });
                                               has_begun = true;
                                               work.waitExternal();
                                             })),
                        async::on_set(gone));
          },
          [](IAsyncSteps& step, ErrorCode code) {
            if (code == steps::errors::Timeout) step.success();
          });
    });
    while (!has_begun) std::this_thread::yield();
    if (!is_timeout) gone.set();
    ended.wait();
  }
}
