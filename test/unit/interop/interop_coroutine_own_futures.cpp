// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <chrono>
#include <future>
#include <memory>
#include <stdexcept>
#include <utility>

#include "async/async.hpp"
#include "steps/interop/coroutine.hpp"
#include "steps/interop/when_all.hpp"
#include "support/alloc_counter.hpp"
#include "support/flows.hpp"
#include "support/live_count.hpp"

// co_await of async::future and async::shared_future in tasks. Rule 54 of steps/RULES.md.

using steps::IAsyncSteps;
using steps::interop::co;
using steps::interop::start;
using steps::interop::task;
using steps::interop::when_any;
using testing::bench;
using testing::lines;
using testing::noting_code;
using namespace std::chrono_literals;

namespace {

struct local : testing::live_count<local> {};

task<int> value_of(async::future<int> f) { co_return co_await std::move(f); }
task<int> value_of_shared(async::shared_future<int> f) {
  const local mine;
  co_return co_await f;
}

}  // namespace

TEST_CASE("a step awaits futures that are ready, become ready in the loop and on another thread, and fail") {
  bench b;
  async::promise<int> here, elsewhere, failing;
  async::shared_future<int> shared = elsewhere.get_future().share();
  steps::AsyncSteps flow{b.loop};
  int sum = 0;
  lines seen;
  flow.add(co([&](IAsyncSteps&) -> task<> { sum += co_await value_of(async::make_ready_future(1)); }))
      .add(co([&](IAsyncSteps&) -> task<> { sum += co_await here.get_future(); }))
      .add(co([&](IAsyncSteps&) -> task<> { sum += co_await value_of_shared(shared) + co_await shared; }))
      .add(co([&](IAsyncSteps&) -> task<> { sum += co_await failing.get_future(); }), noting_code(seen))
      .add(co([&](IAsyncSteps&) -> task<> { sum += co_await async::future<int>(); }), noting_code(seen));
  flow.execute();
  b.drain();
  CHECK(sum == 1);
  b.loop.post([&] { here.set_value(10); });
  b.drain();
  CHECK(sum == 11);
  std::thread other([&] { elsewhere.set_value(100); });
  other.join();
  CHECK(sum == 11);  // not before the loop's turn
  b.drain();
  CHECK(sum == 211);
  failing.set_exception(std::make_exception_ptr(std::runtime_error("failed")));
  b.drain();
  REQUIRE(seen.size() == 2);
  CHECK(seen[0] == "failed");
  CHECK(local::live() == 0);
}

TEST_CASE("a step that ends early cancels a future that it awaits, and drops a shared one") {
  async::threadpool pool(0);
  int made = 0;
  async::shared_future<void> shared = pool.post([&made] { made += 10; }).share();
  for (const bool is_shared : {false, true}) {
    bench b;
    steps::AsyncSteps flow{b.loop};
    flow.add(co([&](IAsyncSteps&) -> task<> {
      if (is_shared) {
        co_await shared;
      } else {
        co_await pool.post([&made] { ++made; });
      }
    }));
    flow.execute();
    b.drain();
    flow.cancel();
    b.drain();
  }
  pool.configurepool(1);
  shared.get();
  pool.wait_idle();
  CHECK(made == 10);
}

TEST_CASE("outside of flows a coroutine resumes where the future is made ready") {
  async::promise<int> p;
  async::future<int> sum = start(value_of(p.get_future()));
  p.set_value(3);
  CHECK(sum.get() == 3);
}

TEST_CASE("rule 54: a coroutine that is destroyed while it waits for a future drops it at once") {
  bench b;
  async::promise<std::shared_ptr<local>> p;
  async::shared_future<std::shared_ptr<local>> f = p.get_future().share();
  {
    steps::AsyncSteps flow{b.loop};
    flow.add(co([f](IAsyncSteps&) -> task<> { co_await f; }));
    flow.execute();
    b.drain();
    f = {};
    SUBCASE("which becomes ready before the message has arrived") { p.set_value(std::make_shared<local>()); }
    SUBCASE("which becomes ready later") {}
    SUBCASE("which becomes ready on another thread meanwhile") {
      std::thread other([&] { p.set_value(std::make_shared<local>()); });
      flow.cancel();
      other.join();
    }
  }
  b.drain();
  CHECK(b.unhandled.empty());
}

TEST_CASE("rule 54: a hundred thousand waits for a shared future that lose keep no memory") {
  bench b;
  async::promise<int> never;
  const async::shared_future<int> f = never.get_future().share();
  steps::AsyncSteps flow{b.loop};
  const auto run = [&](std::size_t rounds) {
    flow.repeat(rounds, [&](IAsyncSteps& asi, std::size_t) {
      asi.add(co([&](IAsyncSteps&) -> task<> {
        const auto won = co_await when_any(value_of_shared(f), value_of(async::make_ready_future(1)));
        if (won.index != 1) throw std::logic_error("it is never ready");
      }));
    });
    flow.execute();
    b.drain();
  };
  run(10);
  const testing::alloc_counter counter;
  run(100'000);
  CHECK(counter.calls() < 10);
  CHECK(b.unhandled.empty());
  CHECK(local::live() == 0);
}

TEST_CASE("a hundred thousand steps that wait for a shared future in vain keep no memory") {
  bench b;
  async::promise<int> never;
  const async::shared_future<int> f = never.get_future().share();
  steps::AsyncSteps flow{b.loop};
  const auto run = [&](std::size_t rounds) {
    flow.repeat(rounds, [&](IAsyncSteps& asi, std::size_t) {
      auto& race = asi.race();
      race.await(f);
      race.add([](IAsyncSteps&) {});
    });
    flow.execute();
    b.drain();
  };
  run(10);
  const testing::alloc_counter counter;
  run(100'000);
  CHECK(counter.live() < 10);
}
