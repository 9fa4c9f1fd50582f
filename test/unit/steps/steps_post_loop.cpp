// SPDX-License-Identifier: BSL-1.0
//
// steps::post(loop, body): flows that own themselves, on one event loop.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "async/async.hpp"
#include "steps/steps.hpp"
#include "support/alloc_counter.hpp"
#include "support/flows.hpp"
#include "support/live_count.hpp"
#include "support/occupied.hpp"
#include "support/thrown.hpp"

using steps::ErrorCode;
using steps::IAsyncSteps;
using testing::bench;
using testing::is_broken;
using testing::lines;
using namespace std::chrono_literals;

namespace {

struct held : testing::live_count<held> {};

}  // namespace

TEST_CASE("rule 55: a flow posted to a loop starts in a turn of it, in the order of posts, and gives its result") {
  bench b;
  lines seen;
  auto first = steps::post<int>(b.loop, [&](IAsyncSteps& asi) {
    seen.push_back("first");
    CHECK(&asi.tool() == &b.loop);
    asi.add([](IAsyncSteps& step) { step.success(1); });
    asi.add([](IAsyncSteps& step, int n) { step.success(n + 1); });
  });
  b.loop.post([&] { seen.push_back("callback"); });
  auto second = steps::post(b.loop, [&, h = held()](IAsyncSteps&) { seen.push_back("second"); });
  CHECK(seen.empty());
  CHECK(!first.is_ready());
  b.drain();
  CHECK(first.get() == 2);
  second.get();
  CHECK(seen == lines{"callback", "first", "second"});  // messages come before what they make ready
  CHECK(held::live() == 0);
}

TEST_CASE("rule 55: a callback and a step of the loop post flows, which start after they have returned") {
  bench b;
  lines seen;
  std::vector<async::future<void>> ends;
  const auto post = [&](const char* name, auto body) {
    ends.push_back(steps::post(b.loop, [&seen, name, body](IAsyncSteps& asi) {
      seen.push_back(name);
      body(asi);
    }));
  };
  b.loop.immediate([&] {
    post("outer", [&](IAsyncSteps& asi) {
      post("inner", [](IAsyncSteps&) {});
      CHECK(!ends.back().is_ready());
      CHECK_THROWS_AS(ends.back().get(), std::system_error);  // it would stop the loop
      seen.push_back("outer goes on");
      asi.successStep();
    });
    seen.push_back("callback goes on");
  });
  b.drain();
  CHECK(seen == lines{"callback goes on", "outer", "outer goes on", "inner"});
  for (auto& each : ends) CHECK(each.is_ready());
}

TEST_CASE("rule 55: flows posted by many threads run on the loop's thread only, with errors and results of each") {
  steps::AsyncTool tool;
  constexpr int threads = 4, each = 200;
  long sum = 0;  // of the loop's thread
  std::vector<std::thread> posters;
  std::atomic<int> errors{0};
  for (int t = 0; t < threads; ++t) {
    posters.emplace_back([&] {
      std::vector<async::future<int>> results;
      for (int i = 0; i < each; ++i) {
        results.push_back(steps::post<int>(tool, [&sum, i](IAsyncSteps& asi) {
          asi.add([&sum, i](IAsyncSteps& step) {
            sum += i;
            step.relinquish();
          });
          asi.add([i](IAsyncSteps& step) {
            if (i % 10 == 0) step.error("Tenth", "as asked");
            step.success(i);
          });
        }));
      }
      for (int i = 0; i < each; ++i) {
        try {
          const int got = results[static_cast<std::size_t>(i)].get();
          CHECK(got == i);
        } catch (const steps::Error& e) {
          CHECK(e.code() == "Tenth");
          ++errors;
        }
      }
    });
  }
  for (auto& poster : posters) poster.join();
  CHECK(errors == threads * each / 10);
  CHECK(steps::post<long>(tool, [&sum](IAsyncSteps& asi) { asi.success(sum); }).get() ==
        threads * each * (each - 1) / 2);
}

TEST_CASE("rule 55: an error without handler is the future's, also when the future has gone") {
  bench b;
  auto failed = steps::post(b.loop, [](IAsyncSteps& asi) { asi.error("Failed", "why"); });
  auto thrown = steps::post(b.loop, [](IAsyncSteps&) { throw std::out_of_range("far"); });
  auto wrong = steps::post<int>(b.loop, [](IAsyncSteps& asi) { asi.success(std::string("no int")); });
  static_cast<void>(steps::post(b.loop, [](IAsyncSteps& asi) { asi.error("Unseen"); }));
  b.drain();
  CHECK_THROWS_WITH_AS(failed.get(), "Failed", steps::Error);
  CHECK_THROWS_AS(thrown.get(), std::out_of_range);
  CHECK_THROWS_WITH_AS(wrong.get(), "InternalError", steps::Error);
  CHECK(b.unhandled.empty());
}

TEST_CASE("rule 56: cancel() drops a flow that has not started, and cancels one that has, on the loop's thread") {
  bench b;
  lines seen;
  bool was_called = false;
  auto early = steps::post(b.loop, [&was_called, h = held()](IAsyncSteps&) { was_called = true; });
  CHECK(held::live() == 1);
  CHECK(early.cancel());
  CHECK(held::live() == 0);
  CHECK(!early.cancel());
  CHECK(is_broken(early));
  auto late = steps::post(b.loop, [&seen, h = held()](IAsyncSteps& asi) {
    asi.setCancel([&seen](IAsyncSteps&) { seen.push_back("cancelled"); });
    asi.onEnd([&seen] { seen.push_back("ended"); });
  });
  b.drain();
  CHECK(!late.is_ready());
  std::thread([&late] { CHECK(!late.cancel()); }).join();
  CHECK(!late.cancel());
  CHECK(seen.empty());
  b.drain();
  CHECK(seen == lines{"cancelled", "ended"});
  CHECK(is_broken(late));
  CHECK(held::live() == 0);
  CHECK(!was_called);
  auto ended = steps::post<int>(b.loop, [](IAsyncSteps& asi) { asi.success(1); });
  b.drain();
  CHECK(!ended.cancel());
  CHECK(ended.get() == 1);
}

TEST_CASE("rule 57: the loop's end cancels flows, with their handlers, wherever they wait, and drops the unstarted") {
  lines seen;
  std::vector<async::future<void>> ends;
  async::queue<int> queue;
  async::promise<int> promise;
  async::event event;
  {
    async::event_loop loop;
    const auto post = [&](const char* name, auto wait) {
      ends.push_back(steps::post(loop, [&seen, name, wait, h = held()](IAsyncSteps& asi) {
        asi.add([&seen, name, wait](IAsyncSteps& step) {
          step.onEnd([&seen, name] { seen.push_back(name); });
          step.setCancel([&seen](IAsyncSteps&) { seen.push_back("cancelled"); });
          wait(step);
        });
      }));
    };
    post("waits", [](IAsyncSteps&) {});
    post("has a timer", [](IAsyncSteps& asi) { asi.setTimeout(1h); });
    post("queue", [&queue](IAsyncSteps& asi) { asi.await(queue); });
    post("future", [f = promise.get_future().share()](IAsyncSteps& asi) { asi.await(async::shared_future<int>(f)); });
    post("event", [&event](IAsyncSteps& asi) { asi.await(event); });
    post("is ready", [](IAsyncSteps& asi) { asi.loop([](IAsyncSteps& turn) { turn.relinquish(); }); });
    for (int i = 0; i < 5; ++i) loop.iterate();
    CHECK(seen.empty());
    ends.push_back(steps::post(loop, [&seen, h = held()](IAsyncSteps&) { seen.push_back("unstarted"); }));
  }
  CHECK(held::live() == 0);
  CHECK(seen.size() == 12);
  for (const char* name : {"waits", "has a timer", "queue", "future", "event", "is ready"}) {
    INFO(name);
    CHECK(std::find(seen.begin(), seen.end(), name) != seen.end());
  }
  for (auto& each : ends) {
    CHECK(!each.cancel());  // the loop has gone
    CHECK(is_broken(each));
  }
  queue.enqueue(1);
  CHECK(queue.dequeue() == 1);
}

TEST_CASE("rule 57: a flow that is posted while the loop is destroyed is dropped") {
  async::future<void> end;
  bool was_called = false;
  {
    async::event_loop loop;
    static_cast<void>(steps::post(loop, [&](IAsyncSteps& asi) {
      asi.onEnd([&] { end = steps::post(loop, [&was_called, h = held()](IAsyncSteps&) { was_called = true; }); });
      asi.waitExternal();
    }));
    loop.iterate();
    CHECK(!end.valid());
  }
  CHECK(!was_called);
  CHECK(held::live() == 0);
  CHECK(is_broken(end));
}

TEST_CASE("rule 57: the last step of a flow may lead to the end of its loop on another thread") {
  for (int round = 0; round < 100; ++round) {
    auto tool = std::make_unique<steps::AsyncTool>();
    async::future<void> end = steps::post(*tool, [](IAsyncSteps& asi) { asi.setTimeout(10s), asi.success(); });
    async::future<void> other = steps::post(*tool, [](IAsyncSteps& asi) { asi.waitExternal(); });
    std::thread canceller([&other] { static_cast<void>(other.cancel()); });
    end.get();
    canceller.join();
    tool.reset();
    CHECK(is_broken(other));
  }
}

TEST_CASE("flows posted to loop(i) of a pool stay there, and end with the pool") {
  async::threadpool pool(2);
  async::event_loop& loop = pool.loop(1);
  int shared = 0;  // of the loop
  std::vector<async::future<void>> ends;
  for (int i = 0; i < 500; ++i) {
    ends.push_back(steps::post(loop, [&shared, &loop](IAsyncSteps& asi) {
      asi.repeat(3, [&shared, &loop](IAsyncSteps& step) {
        CHECK(&step.tool() == &loop);
        ++shared;
        step.tool().deferred(100us, [t = step.completion<>()] { t.success(); });
      });
    }));
  }
  for (auto& each : ends) each.get();
  CHECK(steps::post<int>(loop, [&shared](IAsyncSteps& asi) { asi.success(shared); }).get() == 1'500);
  std::atomic<int> cancelled{0};
  auto waits = steps::post(loop, [&cancelled](IAsyncSteps& asi) { asi.setCancel([&cancelled] { ++cancelled; }); });
  pool.wait_idle();
  SUBCASE("stop()") { pool.stop(); }
  SUBCASE("stop(discard)") { CHECK(pool.stop(async::discard) == 1); }
  CHECK(cancelled == 1);
  CHECK(is_broken(waits));
  auto late = steps::post(loop, [](IAsyncSteps&) {});
  CHECK(is_broken(late));
}

TEST_CASE("a task of a pool that waits for a flow on another loop does not block the pool") {
  steps::AsyncTool tool;
  async::threadpool pool(1);
  CHECK(pool.post([&] {
              std::atomic<bool> is_called{false};
              auto flow = steps::post<int>(tool, [&is_called, &pool](IAsyncSteps& asi) {
                asi.await(pool, [&is_called] {
                  is_called = true;
                  return 7;
                });
              });
              return flow.get();
            })
            .get() == 7);
}

TEST_CASE("a flow posted to a loop continues, and is awaited by another flow") {
  bench b;
  auto seven = steps::post<int>(b.loop, [](IAsyncSteps& asi) { asi.success(7); });
  auto next = std::move(seven).then([](async::future<int> f) { return f.get() + 1; });
  int got = 0;
  auto waits = steps::post(b.loop, [&](IAsyncSteps& asi) {
    asi.await(std::move(next));
    asi.add([&got](IAsyncSteps&, int n) { got = n; });
  });
  b.drain();
  CHECK(got == 8);
  waits.get();
}

TEST_CASE("without memory a flow is not posted to the loop, or its future throws, and nothing leaks") {
  struct large : testing::live_count<large> {
    std::array<unsigned char, 2000> bytes{};
  };
  int failures = 0, errors = 0;
  for (bool has_failed = true; has_failed; ++failures) {
    static_cast<void>(async::threadpool::trim());
    std::thread([&] {  // with an empty cache of blocks
      bench b;
      int got = 0;
      std::string error;
      testing::fail_alloc failing(static_cast<std::size_t>(failures));
      try {
        auto end = steps::post<int>(b.loop, [l = large()](IAsyncSteps& asi) {
          asi.add([inner = large()](IAsyncSteps& step) { step.success(5); });
        });
        b.drain();
        failing.stop();
        REQUIRE(end.is_ready());
        got = end.get();
      } catch (const std::bad_alloc&) {
        error = "bad_alloc";
      } catch (const steps::Error& e) {
        error = e.code();
      }
      failing.stop();
      has_failed = failing.has_failed();
      CHECK(got == (error.empty() ? 5 : 0));
      CHECK((has_failed || error.empty()));
      if (!error.empty()) ++errors;
    })
        .join();
    CHECK(large::live() == 0);
  }
  CHECK(errors > 3);
}
