// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "async/queue.hpp"
#include "async/threadpool.hpp"
#include "steps/interop/coroutine.hpp"
#include "steps/interop/when_all.hpp"
#include "steps/interop/with_timeout.hpp"
#include "support/coroutines.hpp"
#include "support/flows.hpp"
#include "support/tasks.hpp"

// with_timeout() of tasks. Rule 59 of steps/RULES.md. Without memory: interop_coroutine_groups_memory.cpp.

using async::event_loop;
using steps::ErrorCode;
using steps::IAsyncSteps;
using steps::interop::co;
using steps::interop::schedule;
using steps::interop::sleep_for;
using steps::interop::start;
using steps::interop::task;
using steps::interop::when_all;
using steps::interop::when_any;
using steps::interop::with_timeout;
using testing::after;
using testing::bench;
using testing::fail_after;
using testing::held;
using testing::lines;
using testing::pause;
using testing::result_of;
using testing::text_of;
using namespace std::chrono_literals;

namespace {

task<int> pop(async::queue<int>& queue) {
  const std::optional<int> element = co_await queue.pop();
  co_return element.value_or(0);
}

const std::string late = "Timeout: with_timeout(): the task has not ended in time";

}  // namespace

TEST_CASE_TEMPLATE("rule 59: a task that ends in time gives its value or exception", Flow, STEPS_FLOWS) {
  bench b;
  const auto got = result_of<Flow, lines>(b, [](IAsyncSteps& asi) -> task<lines> {
    event_loop& loop = asi.tool();
    lines seen;
    seen.push_back(std::to_string(co_await with_timeout(5ms, after(loop, 2ms, 7))));
    co_await with_timeout(1s, pause(loop, 1ms));
    auto owned = co_await with_timeout(5ms, after(loop, 1ms, std::make_shared<int>(8)));
    seen.push_back(std::to_string(*owned));
    seen.push_back(co_await text_of(with_timeout(5ms, fail_after(loop, 2ms, "No"))));
    co_return seen;
  });
  CHECK(got == lines{"7", "8", "No"});
  CHECK(held::live() == 0);
}

TEST_CASE_TEMPLATE("rule 59: when the time is up the task has gone, and Timeout is thrown", Flow, STEPS_FLOWS) {
  bench b;
  const auto began = b.clock.now();
  const auto got = result_of<Flow, lines>(b, [&](IAsyncSteps& asi) -> task<lines> {
    lines seen;
    try {
      co_await with_timeout(5ms, pause(asi.tool(), 1h));
    } catch (const steps::Error& error) {
      seen = {error.what(), std::string(error.error_info()), std::to_string(held::live())};
    }
    const auto waited = b.clock.now() - began;
    CHECK(waited >= 5ms);
    CHECK(waited <= 7ms);
    co_return seen;
  });
  CHECK(got == lines{"Timeout", "with_timeout(): the task has not ended in time", "0"});
}

TEST_CASE_TEMPLATE("rule 59: the time begins when the task is awaited", Flow, STEPS_FLOWS) {
  bench b;
  const auto got = result_of<Flow, int>(b, [](IAsyncSteps& asi) -> task<int> {
    task<int> limited = with_timeout(5ms, after(asi.tool(), 3ms, 7));
    co_await sleep_for(asi.tool(), 20ms);
    co_return co_await std::move(limited);
  });
  CHECK(got == 7);
}

TEST_CASE_TEMPLATE("rule 59: without a time, what needs no turn of the loop is in time", Flow, STEPS_FLOWS) {
  bench b;
  const auto at_once = []() -> task<int> { co_return 7; };
  const auto got = result_of<Flow, lines>(b, [&](IAsyncSteps& asi) -> task<lines> {
    lines seen;
    seen.push_back(std::to_string(co_await with_timeout(0s, at_once())));
    seen.push_back(std::to_string(co_await with_timeout(-1h, at_once())));
    seen.push_back(co_await text_of(with_timeout(0s, pause(asi.tool(), 1ms))));
    seen.push_back(std::to_string(co_await with_timeout(std::chrono::hours::max(), after(asi.tool(), 1ms, 8))));
    co_return seen;
  });
  CHECK(got == lines{"7", "7", late, "8"});
}

TEST_CASE_TEMPLATE("rule 59: limits in limits: the one that is up ends what is inside", Flow, STEPS_FLOWS) {
  bench b;
  const auto got = result_of<Flow, lines>(b, [](IAsyncSteps& asi) -> task<lines> {
    event_loop& loop = asi.tool();
    lines seen;
    seen.push_back(co_await text_of(with_timeout(10ms, text_of(with_timeout(5ms, pause(loop, 1h))))));
    seen.push_back(co_await with_timeout(10ms, text_of(with_timeout(5ms, pause(loop, 1h)))));
    seen.push_back(co_await text_of(with_timeout(5ms, text_of(with_timeout(10ms, pause(loop, 1h))))));
    CHECK(held::live() == 0);
    co_return seen;
  });
  CHECK(got == lines{"", late, late});
}

TEST_CASE_TEMPLATE("rule 59: no catch (...) inside a task sees the end of a limit around it", Flow, STEPS_FLOWS) {
  for (const std::chrono::milliseconds inner : {std::chrono::milliseconds(1h), 5ms}) {  // the latter is up as well
    CAPTURE(inner.count());
    bench b;
    lines caught;
    const auto limited = [&](event_loop& loop) -> task<> {
      try {
        co_await with_timeout(inner, pause(loop, 1h));
      } catch (...) {
        caught.push_back("inside");
      }
    };
    const auto got = result_of<Flow, std::string>(b, [&limited](IAsyncSteps& asi) -> task<std::string> {
      co_return co_await text_of(with_timeout(5ms, limited(asi.tool())));
    });
    CHECK(got == late);
    CHECK(caught.empty());
  }
}

TEST_CASE_TEMPLATE("rule 59: a task may wait for others, and others may have limits", Flow, STEPS_FLOWS) {
  bench b;
  const auto both = [](event_loop& loop, std::chrono::milliseconds slow) -> task<int> {
    auto [x, y] = co_await when_all(after(loop, 1ms, 1), after(loop, slow, 2));
    co_return x + y;
  };
  const auto got = result_of<Flow, lines>(b, [&](IAsyncSteps& asi) -> task<lines> {
    event_loop& loop = asi.tool();
    lines seen;
    seen.push_back(std::to_string(co_await with_timeout(5ms, both(loop, 2ms))));
    seen.push_back(co_await text_of(with_timeout(5ms, both(loop, 1h))));
    CHECK(held::live() == 0);
    auto [first, second] =
        co_await when_all(text_of(with_timeout(5ms, pause(loop, 1h))), with_timeout(5ms, after(loop, 4ms, 3)));
    seen.push_back(first + std::to_string(second));
    const auto any = co_await when_any(with_timeout(5ms, after(loop, 1h, 1)), with_timeout(50ms, after(loop, 20ms, 2)));
    seen.push_back(std::to_string(any.index));
    co_return seen;
  });
  CHECK(got == lines{"3", late, late + "3", "1"});
  CHECK(held::live() == 0);
}

namespace {

task<int> twice(event_loop& loop) {
  int sum = co_await with_timeout(1s, after(loop, 1ms, 1));
  sum += co_await with_timeout(1s, after(loop, 1ms, 1));
  co_return sum;
}

}  // namespace

TEST_CASE_TEMPLATE("rule 59: limits inside tasks leave the flow's memory in order, wherever its chunks end", Flow,
                   STEPS_FLOWS) {
  for (std::size_t padding = 0; padding < 32; ++padding) {
    CAPTURE(padding);
    bench b;
    const auto got = result_of<Flow, int>(b, [padding](IAsyncSteps& asi) -> task<int> {
      for (std::size_t i = 0; i < padding; ++i) asi.stack<void*>();
      auto [x, y] = co_await when_all(twice(asi.tool()), twice(asi.tool()));
      co_return x + y + co_await with_timeout(1s, twice(asi.tool()));
    });
    CHECK(got == 6);
  }
  CHECK(held::live() == 0);
}

TEST_CASE("a coroutine that is no step is destroyed on its loop while its task has a limit") {
  bench b;
  const auto waiting = [](event_loop& loop) -> testing::other_coroutine { co_await with_timeout(1h, pause(loop, 1h)); };
  testing::other_coroutine waits{};
  b.loop.post([&] { waits = waiting(b.loop); });
  b.pass(2ms);
  CHECK(held::live() == 1);
  b.loop.post([&] { waits.handle.destroy(); });
  b.pass(2ms);
  CHECK(held::live() == 0);
}

TEST_CASE_TEMPLATE("rule 59: a timeout or cancel of the step ends the task first, and is not thrown", Flow,
                   STEPS_FLOWS) {
  bench b;
  lines seen;
  bool resumed = false;
  Flow flow{b.loop};
  flow.add(co([&](IAsyncSteps& asi) -> task<> {
             asi.setTimeout(5ms);
             asi.setCancel([&](IAsyncSteps&) { seen.push_back("cancel handler"); });
             try {
               co_await with_timeout(10ms, pause(asi.tool(), 1h));
             } catch (...) {
               resumed = true;
             }
             resumed = true;
           }),
           testing::noting_code(seen));
  SUBCASE("timeout") {
    flow.execute();
    b.pass(20ms);
    CHECK(seen == lines{"cancel handler", "Timeout"});
  }
  SUBCASE("cancel") {
    flow.execute();
    b.pass(2ms);
    CHECK(held::live() == 1);
    flow.cancel();
    CHECK(seen == lines{"cancel handler"});
  }
  CHECK(held::live() == 0);
  CHECK_FALSE(resumed);
}

TEST_CASE_TEMPLATE("rule 59: a task may throw Timeout itself, or what looks like the end of a task", Flow,
                   STEPS_FLOWS) {
  bench b;
  const auto fails = [](const char* with) -> task<> {
    throw std::runtime_error(with);
    co_return;
  };
  const auto got = result_of<Flow, lines>(b, [&](IAsyncSteps&) -> task<lines> {
    lines seen;
    seen.push_back(co_await text_of(with_timeout(5ms, fails("Timeout"))));
    seen.push_back(co_await text_of(with_timeout(5ms, fails("steps::interop: the time of a task is up"))));
    co_return seen;
  });
  CHECK(got == lines{"Timeout", "steps::interop: the time of a task is up"});
}

TEST_CASE_TEMPLATE("rule 59: an exception of the value's move is thrown where the task is awaited", Flow, STEPS_FLOWS) {
  struct stuck {
    stuck(int) {}                                          // NOLINT: implicit
    stuck(stuck&&) { throw std::runtime_error("stuck"); }  // NOLINT: it throws
    stuck& operator=(stuck&&) = delete;
  };
  bench b;
  const auto gives = []() -> task<stuck> { co_return 1; };
  const auto got = result_of<Flow, lines>(b, [&](IAsyncSteps&) -> task<lines> {
    lines seen;
    seen.push_back(co_await text_of(with_timeout(5ms, gives())));
    try {
      co_await when_all(gives());
    } catch (const std::exception& e) {
      seen.emplace_back(e.what());
    }
    co_return seen;
  });
  CHECK(got == lines{"stuck", "stuck"});
}

TEST_CASE_TEMPLATE("rule 59: no element is lost when the time is up", Flow, STEPS_FLOWS) {
  bench b;
  async::queue<int> queue;
  const auto got = result_of<Flow, lines>(b, [&](IAsyncSteps&) -> task<lines> {
    lines seen;
    seen.push_back(co_await text_of(with_timeout(5ms, pop(queue))));
    queue.enqueue(7);
    seen.push_back(std::to_string(co_await with_timeout(5ms, pop(queue))));
    co_return seen;
  });
  CHECK(got == lines{late, "7"});
}

TEST_CASE_TEMPLATE("misuse is an error where it is awaited", Flow, STEPS_FLOWS) {
  bench b;
  const auto got = result_of<Flow, lines>(b, [](IAsyncSteps& asi) -> task<lines> {
    task<int> one = after(asi.tool(), 1ms, 1);
    co_await std::move(one);
    lines seen;
    seen.push_back(co_await text_of(with_timeout(5ms, std::move(one))));
    co_return seen;
  });
  CHECK(got == lines{"InternalError: a task that has been moved from or awaited"});
  CHECK_THROWS_WITH_AS(start(with_timeout(5ms, after(b.loop, 1ms, 1))).get(), "InternalError", steps::Error);
  CHECK(held::live() == 0);
}

TEST_CASE("a NitroSteps without a timer for it fails at the step") {
  bench b;
  lines seen;
  steps::NitroSteps<steps::nitro::MaxTimeouts<0>> flow{b.loop};
  flow.add(co([](IAsyncSteps& asi) -> task<> { co_await with_timeout(5ms, pause(asi.tool(), 1ms)); }),
           testing::noting(seen));
  flow.execute();
  b.pass(10ms);
  CHECK(seen == lines{"InternalError: the flow exceeds nitro::MaxTimeouts"});
  CHECK(held::live() == 0);
}

TEST_CASE("on a pool, in a step and without one") {
  async::threadpool pool(2);
  const auto body = [](async::threadpool& p) -> task<lines> {
    co_await schedule(p);
    const int value = co_await with_timeout(1h, after(p.loop(0), 1ms, 7));
    lines seen{std::to_string(value)};
    seen.push_back(co_await text_of(with_timeout(1ms, pause(p.loop(1), 1h))));
    seen.push_back(co_await text_of(with_timeout(1h, fail_after(p.loop(1), 1ms, "No"))));
    co_return seen;
  };
  const lines expected{"7", late, "No"};
  SUBCASE("without a step") { CHECK(start(body(pool)).get() == expected); }
  SUBCASE("a step of a flow of the pool") {
    steps::AsyncSteps flow{pool};
    flow.add(co([&](IAsyncSteps&) { return body(pool); }));
    CHECK(flow.promise<lines>().get() == expected);
  }
  SUBCASE("thousands of them") {
    constexpr int count = 5'000;
    const auto one = [](async::threadpool& p, int i) -> task<int> {
      co_await schedule(p);
      co_return (co_await text_of(with_timeout(i % 2 == 0 ? 1ms : 1h, pause(p.loop(0), i % 2 == 0 ? 60min : 1ms))))
          .empty();
    };
    std::vector<async::future<int>> all;
    for (int i = 0; i < count; ++i) all.push_back(start(one(pool, i)));
    int in_time = 0;
    for (auto& each : all) in_time += each.get();
    CHECK(in_time == count / 2);
  }
  CHECK(held::live() == 0);
}
