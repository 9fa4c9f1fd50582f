// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "async/event.hpp"
#include "async/future.hpp"
#include "async/queue.hpp"
#include "async/select.hpp"
#include "async/threadpool.hpp"
#include "steps/interop/coroutine.hpp"
#include "steps/interop/sync.hpp"
#include "steps/semaphore.hpp"
#include "support/flows.hpp"
#include "support/live_count.hpp"

// Coroutines whose waits are ready give way. Rule 61 of steps/RULES.md.

using steps::IAsyncSteps;
using steps::interop::acquire;
using steps::interop::co;
using steps::interop::schedule;
using steps::interop::task;
using testing::bench;
using namespace std::chrono_literals;

namespace {

struct held : testing::live_count<held> {};

/// What a coroutine finds ready.
enum class ready { element, selection, future, permit, inner_task };

struct source {
  async::queue<int> queue;
  async::event set;
  steps::Semaphore permits{1};
  int rounds = 0;

  task<> take_element() { static_cast<void>(co_await queue.pop()); }
  task<> take(ready what) {
    ++rounds;
    switch (what) {
      case ready::element:
        queue.enqueue(rounds);
        CHECK(co_await queue.pop() == rounds);
        break;
      case ready::selection:
        CHECK(co_await async::selection(async::on_set(set), async::after(1h)) == 0);
        break;
      case ready::future:
        CHECK(co_await async::make_ready_future(rounds) == rounds);
        break;
      case ready::permit:
        CHECK(co_await acquire(permits));
        break;
      case ready::inner_task:
        queue.enqueue(rounds);
        co_await take_element();
        break;
    }
  }
};

}  // namespace

TEST_CASE_TEMPLATE("rule 61: a coroutine that finds all at hand starves neither flows, timers nor its own limit", Flow,
                   STEPS_FLOWS) {
  for (const ready what : {ready::element, ready::selection, ready::future, ready::permit, ready::inner_task}) {
    CAPTURE(static_cast<int>(what));
    bench b;
    source from;
    from.set.set();
    int other_at = 0;
    int timer_at = 0;
    Flow endless{b.loop};
    testing::lines seen;
    endless.add(co([&](IAsyncSteps& asi) -> task<> {
                  asi.setTimeout(20ms);
                  while (from.rounds < 100'000) {
                    b.clock.advance(10us);
                    co_await from.take(what);
                  }
                }),
                testing::noting_code(seen));
    endless.execute();
    Flow other{b.loop};
    other.add([&](IAsyncSteps&) { other_at = from.rounds; });
    other.execute();
    b.loop.deferred(5ms, [&] { timer_at = from.rounds; });
    for (int i = 0; i < 1'000 && seen.empty(); ++i) b.loop.iterate();
    CHECK(other_at > 0);
    CHECK(other_at <= 101);
    CHECK(timer_at >= 500);
    CHECK(timer_at <= 1'000);
    CHECK(seen == testing::lines{"Timeout"});
    CHECK(from.rounds >= 2'000);
    CHECK(from.rounds <= 2'500);
  }
}

TEST_CASE("rule 61: a NitroSteps without further steps gives way, too") {
  bench b;
  source from;
  steps::NitroSteps<steps::nitro::MaxSteps<2>> flow{b.loop};
  flow.add(co([&](IAsyncSteps&) -> task<> {
    while (from.rounds < 250) co_await from.take(ready::permit);
  }));
  flow.execute();
  b.loop.iterate();
  CHECK(from.rounds <= 101);
  b.drain();
  CHECK(from.rounds == 250);
  CHECK(b.unhandled.empty());
}

TEST_CASE_TEMPLATE("rule 61: nothing is lost when a flow is cancelled while its coroutine has given way", Flow,
                   STEPS_FLOWS) {
  bench b;
  async::queue<int> queue;
  for (int i = 0; i < 1'000; ++i) queue.enqueue(i);
  int taken = 0;
  Flow flow{b.loop};
  flow.add(co([&](IAsyncSteps&) -> task<> {
    for (;;) {
      const std::optional<int> element = co_await queue.pop();
      CHECK(element == taken);
      ++taken;
    }
  }));
  flow.execute();
  b.loop.iterate();
  CHECK(taken > 0);
  CHECK(taken < 1'000);
  flow.cancel();
  int left = 0;
  for (int element = 0; queue.dequeue(element); ++left) CHECK(element == taken + left);
  CHECK(taken + left == 1'000);
}

TEST_CASE_TEMPLATE("rule 61: a coroutine that has given way waits for what is not there any more", Flow, STEPS_FLOWS) {
  bench b;
  async::queue<int> queue;
  int taken = 0;
  bool has_ended = false;
  Flow flow{b.loop};
  flow.add(co([&](IAsyncSteps&) -> task<> {
    while (co_await queue.pop()) ++taken;
    has_ended = true;
  }));
  for (int i = 0; i < 250; ++i) queue.enqueue(i);
  flow.execute();
  b.loop.iterate();
  CHECK(taken == 100);
  for (int element = 0; queue.dequeue(element);) {
  }
  b.drain();
  CHECK(taken == 100);
  queue.enqueue(7);
  b.drain();
  CHECK(taken == 101);
  queue.close();
  b.drain();
  CHECK(has_ended);
}

TEST_CASE_TEMPLATE("rule 61: a future that is awaited as the coroutine gives way is cancelled with the flow", Flow,
                   STEPS_FLOWS) {
  bench b;
  async::threadpool pool(0);
  async::future<int> never = pool.post([mine = held()] { return 1; });
  async::queue<int> queue;
  for (int i = 0; i < 100; ++i) queue.enqueue(i);
  bool is_awaiting = false;
  Flow flow{b.loop};
  flow.add(co([&](IAsyncSteps&) -> task<> {
    for (int i = 0; i < 100; ++i) co_await queue.pop();
    is_awaiting = true;
    co_await std::move(never);
  }));
  flow.execute();
  b.loop.iterate();
  CHECK(is_awaiting);
  CHECK(held::live() == 1);
  flow.cancel();
  CHECK(held::live() == 0);
}

TEST_CASE_TEMPLATE("rule 61: a coroutine that has succeeded or failed ends where it would give way", Flow,
                   STEPS_FLOWS) {
  for (const bool fails : {false, true}) {
    CAPTURE(fails);
    bench b;
    async::queue<int> queue;
    for (int i = 0; i < 1'000; ++i) queue.enqueue(i);
    int taken = 0;
    bool has_gone_on = false;
    testing::lines seen;
    Flow flow{b.loop};
    flow.add(co([&](IAsyncSteps& asi) -> task<> {
               fails ? asi.errorNoThrow("Mine") : asi.success();
               for (; co_await queue.pop(); ++taken) {
               }
             }),
             testing::noting_code(seen));
    flow.add([&](IAsyncSteps&) { has_gone_on = true; });
    flow.execute();
    b.drain();
    CHECK(taken == 100);
    CHECK(has_gone_on);
    CHECK(seen == (fails ? testing::lines{"Mine"} : testing::lines{}));
    CHECK(b.unhandled.empty());
  }
}

TEST_CASE_TEMPLATE("rule 61: a token of completion() ends a coroutine that has given way", Flow, STEPS_FLOWS) {
  for (const bool fails : {false, true}) {
    CAPTURE(fails);
    bench b;
    async::queue<int> queue;
    for (int i = 0; i < 1'000; ++i) queue.enqueue(i);
    int taken = 0;
    steps::completion<int> done;
    testing::lines seen;
    Flow flow{b.loop};
    flow.add(co([&, mine = held()](IAsyncSteps& asi) -> task<int> {
               const held local;
               done = asi.completion<int>();
               for (; co_await queue.pop(); ++taken) {
               }
               co_return 1;
             }),
             testing::noting_code(seen));
    if (!fails) flow.add([&](IAsyncSteps&, int result) { seen.push_back(std::to_string(result)); });
    flow.execute();
    b.loop.iterate();
    CHECK(taken == 100);
    CHECK((fails ? done.error("Told") : done.success(42)));
    CHECK(!done.success(43));
    b.loop.iterate();
    b.loop.iterate();
    CHECK(taken <= 200);
    CHECK(seen == testing::lines{fails ? "Told" : "42"});
    flow.cancel();
    int left = 0;
    for (int element = 0; queue.dequeue(element); ++left) CHECK(element == taken + left);
    CHECK(taken + left == 1'000);
    CHECK(b.unhandled.empty());
  }
  CHECK(held::live() == 0);
}

TEST_CASE_TEMPLATE("rule 61: success() and error() from outside end a coroutine that has given way", Flow,
                   STEPS_FLOWS) {
  for (const bool fails : {false, true}) {
    CAPTURE(fails);
    bench b;
    async::queue<int> queue;
    for (int i = 0; i < 1'000; ++i) queue.enqueue(i);
    int taken = 0;
    IAsyncSteps* step = nullptr;
    testing::lines seen;
    Flow flow{b.loop};
    flow.add(co([&](IAsyncSteps& asi) -> task<int> {
               step = &asi;
               for (; co_await queue.pop(); ++taken) {
               }
               co_return 1;
             }),
             testing::noting_code(seen));
    if (!fails) flow.add([&](IAsyncSteps&, int result) { seen.push_back(std::to_string(result)); });
    flow.execute();
    b.loop.iterate();
    CHECK(taken == 100);
    fails ? step->errorNoThrow("Told") : step->success(42);
    b.loop.iterate();
    CHECK(taken == 100);
    CHECK(seen == testing::lines{fails ? "Told" : "42"});
    flow.cancel();
    CHECK(b.unhandled.empty());
  }
}

TEST_CASE_TEMPLATE("rule 61: a result that cannot be kept is the error of a coroutine that has given way", Flow,
                   STEPS_FLOWS) {
  struct fragile {
    explicit fragile(bool* t) noexcept : throws(t) {}
    fragile(fragile&& other) : throws(other.throws) {
      if (*throws) throw steps::Error("Broken");
    }
    bool* throws;
  };
  bench b;
  source from;
  bool throws = false;
  steps::completion<fragile> done;
  testing::lines seen;
  Flow flow{b.loop};
  flow.add(co([&](IAsyncSteps& asi) -> task<> {
             done = asi.completion<fragile>();
             for (;;) co_await from.take(ready::element);
           }),
           testing::noting_code(seen));
  flow.execute();
  b.loop.iterate();
  CHECK(done.success(&throws));
  throws = true;
  b.loop.iterate();
  b.loop.iterate();
  CHECK(seen == testing::lines{"Broken"});
  flow.cancel();
}

TEST_CASE_TEMPLATE("rule 61: a result whose constructor cancels the flow of a coroutine that has given way", Flow,
                   STEPS_FLOWS) {
  struct cancelling {
    explicit cancelling(steps::IAsyncSteps* f) noexcept : flow(f) {}
    cancelling(cancelling&& other) : flow(other.flow) { flow->cancel(); }
    steps::IAsyncSteps* flow;
  };
  bench b;
  source from;
  steps::completion<cancelling> done;
  Flow flow{b.loop};
  flow.add(co([&, mine = held()](IAsyncSteps& asi) -> task<> {
    done = asi.completion<cancelling>();
    for (;;) co_await from.take(ready::element);
  }));
  flow.execute();
  b.loop.iterate();
  CHECK(done.success(&flow));
  b.loop.iterate();
  b.loop.iterate();
  CHECK(held::live() == 0);
  CHECK(flow);
  CHECK(b.unhandled.empty());
}

TEST_CASE("rule 61: a coroutine on a pool is cancelled while its queue is never empty") {
  async::threadpool pool(2);
  async::queue<int> queue;
  std::atomic<long> taken{0};
  steps::AsyncSteps flow{pool};
  flow.add(co([&](IAsyncSteps&) -> task<> {
    for (;;) {
      queue.enqueue(1);
      co_await queue.pop();
      taken.fetch_add(1, std::memory_order_relaxed);
    }
  }));
  async::future<void> end = flow.promise<void>();
  while (taken.load(std::memory_order_relaxed) < 10'000) std::this_thread::yield();
  flow.cancel();
  CHECK_THROWS_AS(end.get(), std::future_error);
}
