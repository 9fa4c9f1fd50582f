// SPDX-License-Identifier: BSL-1.0
//
// post() and schedule() of coroutines with a blocking_pool.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "async/async.hpp"
#include "steps/asynctool.hpp"
#include "steps/interop/coroutine.hpp"
#include "steps/steps.hpp"
#include "support/coroutines.hpp"
#include "support/flows.hpp"
#include "support/gate.hpp"
#include "support/live_count.hpp"
#include "support/thrown.hpp"

using async::blocking_pool;
using async::blocking_pool_options;
using steps::IAsyncSteps;
using steps::interop::co;
using steps::interop::post;
using steps::interop::schedule;
using steps::interop::start;
using steps::interop::task;
using testing::bench;
using testing::gate;
using testing::lines;
using testing::why_dropped;
using namespace std::chrono_literals;

namespace {

struct local : testing::live_count<local> {};

task<> hop(blocking_pool& pool, std::thread::id& ran_on) {
  co_await schedule(pool);
  ran_on = std::this_thread::get_id();
}
task<int> call(blocking_pool& pool, int (*f)(int), int x) {
  const int got = co_await post(pool, f, x);
  co_return got;
}
int doubled(int x) { return 2 * x; }
int refuse(int) { throw std::out_of_range("too far"); }

}  // namespace

TEST_CASE("post() makes a call on a thread of the blocking_pool, and the coroutine goes on there with its result") {
  blocking_pool pool;
  std::vector<std::thread::id> places;
  int number = 0;
  const auto work = [&]() -> task<std::string> {
    places.push_back(std::this_thread::get_id());
    const auto f = [&places](std::unique_ptr<int> p) {
      places.push_back(std::this_thread::get_id());
      CHECK(async::threadpool::current() == nullptr);
      return p;
    };
    std::unique_ptr<int> argument = std::make_unique<int>(5);
    std::unique_ptr<int> got = co_await post(pool, f, std::move(argument));
    places.push_back(std::this_thread::get_id());
    const auto refer = [&number]() -> int& { return number; };
    (co_await post(pool, refer)) = *got;
    co_await post(pool, [] {});
    co_return std::to_string(number);
  };
  CHECK(start(work()).get() == "5");
  REQUIRE(places.size() == 3);
  CHECK(places[0] == std::this_thread::get_id());
  CHECK(places[1] != places[0]);
  CHECK(places[2] == places[1]);
}

TEST_CASE("an exception of a call on the blocking_pool is thrown into the coroutine") {
  blocking_pool pool;
  async::future<int> thrown = start(call(pool, refuse, 1));
  CHECK_THROWS_WITH_AS(thrown.get(), "too far", std::out_of_range);
  CHECK(start(call(pool, doubled, 4)).get() == 8);
}

TEST_CASE("function and arguments of a call on the blocking_pool have gone when the coroutine goes on") {
  blocking_pool pool;
  auto token = std::make_shared<int>(0);  // not const: a copy in f can be moved
  const auto work = [&]() -> task<long> {
    const auto f = [token](const std::shared_ptr<int>& argument) { CHECK(argument.use_count() >= 4); };
    co_await post(pool, f, token);
    co_return token.use_count();
  };
  CHECK(start(work()).get() == 2);  // the test's and that of f
}

TEST_CASE("schedule() resumes the coroutine on a thread of the blocking_pool, and of as many as there are calls") {
  constexpr int count = 8;
  blocking_pool pool;
  std::atomic<int> there{0};
  const auto meet = [&]() -> task<std::thread::id> {
    co_await schedule(pool);
    for (++there; there != count;) std::this_thread::yield();  // all at the same time
    co_return std::this_thread::get_id();
  };
  std::vector<async::future<std::thread::id>> ends;
  for (int i = 0; i < count; ++i) ends.push_back(start(meet()));
  std::vector<std::thread::id> ids;
  for (auto& end : ends) ids.push_back(end.get());
  std::sort(ids.begin(), ids.end());
  CHECK(std::unique(ids.begin(), ids.end()) == ids.end());
}

TEST_CASE("a coroutine moves between a loop, a threadpool and a blocking_pool") {
  steps::AsyncTool tool;
  async::threadpool workers(1);
  blocking_pool pool;
  const auto work = [&]() -> task<bool> {
    co_await schedule(tool.loop());
    bool is_right = tool.is_same_thread();
    co_await schedule(pool);
    is_right = is_right && !tool.is_same_thread() && async::threadpool::current() == nullptr;
    co_await schedule(workers);
    is_right = is_right && async::threadpool::current() == &workers;
    co_await schedule(pool);
    co_return is_right&& async::threadpool::current() == nullptr;
  };
  for (int i = 0; i < 100; ++i) CHECK(start(work()).get());
}

TEST_CASE("a coroutine that is a step goes on in its flow's loop, which runs others while the call blocks") {
  bench b;
  blocking_pool pool;
  gate held;
  lines seen;
  steps::AsyncSteps flow{b.loop};
  flow.add(co([&](IAsyncSteps& asi) -> task<int> {
    const auto f = [&held] {
      held.pass();
      return 6;
    };
    const int got = co_await post(pool, f);
    seen.push_back(async::event_loop::current() == &asi.tool() ? "on the loop" : "elsewhere");
    co_await schedule(pool);
    seen.push_back(async::event_loop::current() == &asi.tool() ? "on the loop" : "elsewhere");
    co_return got;
  }));
  flow.add([&](IAsyncSteps&, int got) { seen.push_back(std::to_string(got)); });
  async::future<void> end = flow.promise();
  b.drain();
  held.wait_for_one();
  b.loop.immediate([&] { seen.push_back("another callback"); });
  b.drain();
  held.open();
  while (!end.is_ready()) b.drain();
  CHECK(seen == lines{"another callback", "on the loop", "on the loop", "6"});
}

TEST_CASE("a step that ends while its call blocks is destroyed at once, and the call's result is dropped") {
  bench b;
  blocking_pool pool;
  gate held;
  lines seen;
  steps::AsyncSteps flow{b.loop};
  flow.add(co([&](IAsyncSteps& asi) -> task<> {
             asi.setTimeout(5ms);
             const local mine;
             const auto f = [&held] {
               held.pass();
               return std::make_unique<local>();
             };
             static_cast<void>(co_await post(pool, f));
             seen.push_back("resumed");
           }),
           testing::noting_code(seen));
  async::future<void> end = flow.promise();
  b.drain();
  held.wait_for_one();
  CHECK(local::live() == 1);
  b.pass(7ms);
  CHECK(end.is_ready());
  CHECK(local::live() == 0);
  held.open();
  pool.wait_idle();
  b.drain();
  CHECK(local::live() == 0);
  CHECK(seen == lines{"Timeout"});
}

TEST_CASE("a coroutine of another type that is destroyed while its call waits is not resumed, and the call is made") {
  blocking_pool pool({.max_threads = 1});
  gate held;
  pool.execute([&held] { held.pass(); });
  held.wait_for_one();
  bool is_called = false, is_resumed = false;
  const auto work = [&]() -> testing::other_coroutine {
    const local mine;
    const auto f = [&is_called] { is_called = true; };
    co_await post(pool, f);
    is_resumed = true;
  };
  const testing::other_coroutine waits = work();
  CHECK(pool.queued() == 1);
  waits.handle.destroy();
  CHECK(local::live() == 0);
  held.open();
  pool.wait_idle();
  CHECK(is_called);
  CHECK(!is_resumed);
}

TEST_CASE("a blocking_pool that has been stopped throws into the coroutine, as do steps") {
  blocking_pool pool;
  pool.stop();
  std::thread::id ran_on;
  async::future<int> made = start(call(pool, doubled, 1));
  async::future<void> moved = start(hop(pool, ran_on));
  CHECK_THROWS_AS(made.get(), async::stopped);
  CHECK_THROWS_AS(moved.get(), async::stopped);
  CHECK(ran_on == std::thread::id());
  bench b;
  lines seen;
  steps::AsyncSteps flow{b.loop};
  flow.add(co([&pool](IAsyncSteps&) -> task<int> {
             const int got = co_await post(pool, doubled, 3);
             co_return got;
           }),
           testing::noting_code(seen));
  flow.execute();
  b.drain();
  CHECK(seen == lines{"Stopped"});
}

TEST_CASE("a blocking_pool whose queue is full throws into the coroutine, and what waits goes on") {
  blocking_pool pool({.max_threads = 1, .max_queue = 1});
  gate held;
  pool.execute([&held] { held.pass(); });
  held.wait_for_one();
  std::thread::id ran_on, never;
  async::future<void> waits = start(hop(pool, ran_on));
  async::future<void> refused = start(hop(pool, never));
  async::future<int> refused_call = start(call(pool, doubled, 1));
  CHECK_THROWS_AS(refused.get(), async::queue_full);
  CHECK_THROWS_AS(refused_call.get(), async::queue_full);
  CHECK(!waits.is_ready());
  held.open();
  waits.get();
  CHECK(ran_on != std::thread::id());
  CHECK(never == std::thread::id());
}

TEST_CASE("stop() of a blocking_pool makes the calls of coroutines that wait, and resumes these") {
  blocking_pool pool({.max_threads = 1});
  gate held;
  pool.execute([&held] { held.pass(); });
  held.wait_for_one();
  std::thread::id ran_on;
  async::future<int> made = start(call(pool, doubled, 21));
  async::future<void> moved = start(hop(pool, ran_on));
  CHECK(pool.queued() == 2);
  std::thread stopper([&pool] { pool.stop(); });
  held.open();
  stopper.join();
  CHECK(made.get() == 42);
  moved.get();
  CHECK(ran_on != std::this_thread::get_id());
}

TEST_CASE("a coroutine that runs on a blocking_pool while it stops may use it still") {
  blocking_pool pool({.max_threads = 1});
  gate held;
  const auto work = [&]() -> task<int> {
    co_await schedule(pool);
    held.pass();
    const int first = co_await post(pool, doubled, 1);
    const int second = co_await post(pool, doubled, first);
    co_return second;
  };
  async::future<int> end = start(work());
  held.wait_for_one();
  std::thread stopper([&pool] { pool.stop(); });
  for (bool has_begun = false; !has_begun;) {  // until the stop has begun
    try {
      pool.execute([] {});
    } catch (const async::stopped&) {
      has_begun = true;
    }
  }
  held.open();
  stopper.join();
  CHECK(end.get() == 4);
}

TEST_CASE("stop(discard) of a blocking_pool breaks the waits of coroutines, counts them, and destroys their calls") {
  blocking_pool pool({.max_threads = 1});
  gate held;
  bool went_on = false;
  const auto run = [&]() -> task<> {
    co_await schedule(pool);
    held.pass();
    went_on = true;
  };
  async::future<void> running = start(run());
  held.wait_for_one();
  bool is_called = false;
  const auto work = [&]() -> task<> {
    const auto f = [&is_called, l = local()] { is_called = true; };
    co_await post(pool, f);
  };
  std::vector<async::future<void>> waiting;
  std::thread::id never;
  for (int i = 0; i < 10; ++i) waiting.push_back(i % 2 == 0 ? start(work()) : start(hop(pool, never)));
  CHECK(pool.queued() == 10);
  std::thread opener([&] {
    while (!waiting.back().is_ready() || local::live() != 0) std::this_thread::yield();
    held.open();
  });
  CHECK(pool.stop(async::discard) == 10);
  opener.join();
  running.get();
  CHECK(went_on);
  for (auto& each : waiting) CHECK(why_dropped(each) == async::dropped_call::reason::stopped);
  CHECK(!is_called);
  CHECK(never == std::thread::id());
}

TEST_CASE("stop(discard) of a blocking_pool fails the steps of flows that wait for it, on their loops") {
  bench b;
  blocking_pool pool({.max_threads = 1});
  gate held;
  pool.execute([&held] { held.pass(); });
  held.wait_for_one();
  lines seen;
  steps::AsyncSteps flow{b.loop};
  flow.add(co([&pool](IAsyncSteps&) -> task<> { co_await schedule(pool); }), testing::noting_code(seen));
  flow.execute();
  b.drain();
  std::thread opener([&held, &pool] {
    while (pool.queued() != 0) std::this_thread::yield();
    held.open();
  });
  CHECK(pool.stop(async::discard) == 1);
  opener.join();
  CHECK(seen.empty());
  b.drain();
  CHECK(seen == lines{"Stopped"});
}

TEST_CASE("calls of a blocking_pool and tasks of a threadpool start coroutines that use the blocking_pool") {
  blocking_pool pool;
  async::threadpool workers(1);
  CHECK(pool.post([&pool] { return start(call(pool, doubled, 1)).get(); }).get() == 2);  // holds its thread meanwhile
  CHECK(workers.post([&pool] { return start(call(pool, doubled, 2)).get(); }).get() == 4);
  // The only worker goes on with other tasks while a task waits for the coroutine.
  gate held;
  async::future<int> outer = workers.post([&] {
    const auto work = [&]() -> task<int> {
      const auto f = [&held] {
        held.pass();
        return 1;
      };
      const int got = co_await post(pool, f);
      co_return got;
    };
    return start(work()).get();
  });
  held.wait_for_one();
  CHECK(workers.post([] { return 3; }).get() == 3);
  held.open();
  CHECK(outer.get() == 1);
}
