// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "async/blocking_pool.hpp"
#include "async/threadpool.hpp"
#include "steps/interop/coroutine.hpp"
#include "steps/interop/timeout.hpp"
#include "steps/interop/when_all.hpp"
#include "support/alloc_counter.hpp"
#include "support/flows.hpp"
#include "support/live_count.hpp"

// timeout() of tasks: rule 59 of steps/RULES.md.

using async::event_loop;
using async::threadpool;
using steps::ErrorCode;
using steps::IAsyncSteps;
using steps::interop::co;
using steps::interop::execute;
using steps::interop::post;
using steps::interop::schedule;
using steps::interop::sleep_for;
using steps::interop::start;
using steps::interop::task;
using steps::interop::timeout;
using steps::interop::when_all;
using testing::bench;
using testing::lines;
using testing::noting_code;
using namespace std::chrono_literals;

namespace {

struct held : testing::live_count<held> {};

template <class T>
task<T> later(event_loop& loop, std::chrono::milliseconds delay, T value) {
  const held mine;
  co_await sleep_for(loop, delay);
  co_return value;
}
task<> pause(event_loop& loop, std::chrono::milliseconds delay) {
  const held mine;
  co_await sleep_for(loop, delay);
}

/// Runs body(asi) as a step, for up to two hours; returns the lines that it notes, then what the step ends with.
template <class Flow, class Body>
lines seen_by(Body body) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.add(co([&](IAsyncSteps& asi) -> task<> { return body(asi, seen); }), noting_code(seen));
  flow.execute();
  b.run(2h);
  CHECK(b.unhandled.empty());
  CHECK(held::live() == 0);
  return seen;
}

/// The code of the Error, or the text of another exception, with which `work` ends.
template <class T>
task<std::string> outcome_of(task<T> work) {
  try {
    static_cast<void>(co_await std::move(work));
  } catch (const steps::Error& e) {
    co_return std::string(e.code());
  } catch (const std::exception& e) {
    co_return std::string("exception ") + e.what();
  }
  co_return "value";
}

}  // namespace

TEST_CASE_TEMPLATE("rule 59: a task that is in time: its value, nothing, or its own exception", Flow, STEPS_FLOWS) {
  struct special : std::runtime_error {
    using std::runtime_error::runtime_error;
    int number = 7;
  };
  const auto failing = [](event_loop& loop) -> task<int> {
    co_await sleep_for(loop, 1ms);
    throw special("mine");
  };
  const auto seen = seen_by<Flow>([&](IAsyncSteps& asi, lines& to) -> task<> {
    const auto p = co_await timeout(10ms, later(asi.tool(), 5ms, std::make_unique<int>(3)));
    to.push_back(std::to_string(*p));
    co_await timeout(10ms, pause(asi.tool(), 5ms));
    const auto at_once = []() -> task<int> { co_return 4; };
    to.push_back(std::to_string(co_await timeout(0s, at_once())));
    try {
      static_cast<void>(co_await timeout(1h, failing(asi.tool())));
    } catch (const special& e) {
      to.push_back(e.what() + std::to_string(e.number));
    }
    co_await sleep_for(asi.tool(), 1ms);  // and goes on as before
    to.emplace_back("end");
  });
  CHECK(seen == lines{"3", "4", "mine7", "end"});
}

TEST_CASE_TEMPLATE("rule 59: a task that is late is destroyed where it waits, and Timeout is thrown", Flow,
                   STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.add(co([&](IAsyncSteps& asi) -> task<> {
    const auto begin = b.clock.now();
    task<int> lazy = timeout(10ms, later(asi.tool(), 1h, 1));
    co_await sleep_for(asi.tool(), 50ms);  // the limit counts from the await on
    const auto awaited = b.clock.now();
    seen.push_back(co_await outcome_of(std::move(lazy)));
    CHECK(held::live() == 0);  // the task has ended
    CHECK(b.clock.now() - awaited >= 10ms);
    CHECK(b.clock.now() - awaited < 12ms);
    for (const auto limit : {0ms, -5ms}) seen.push_back(co_await outcome_of(timeout(limit, later(asi.tool(), 1h, 1))));
    CHECK(b.clock.now() - begin < 70ms);
  }));
  flow.execute();
  b.run(2h);
  CHECK(seen == lines{"Timeout", "Timeout", "Timeout"});
  CHECK(b.unhandled.empty());
  CHECK(held::live() == 0);
}

TEST_CASE_TEMPLATE("rule 59: limits within limits, and groups within and around them", Flow, STEPS_FLOWS) {
  const auto all_of = [](event_loop& loop) -> task<int> {
    co_await when_all(pause(loop, 1ms), pause(loop, 1h));
    co_return 1;
  };
  const auto seen = seen_by<Flow>([&](IAsyncSteps& asi, lines& to) -> task<> {
    event_loop& loop = asi.tool();
    to.push_back(co_await outcome_of(timeout(20ms, timeout(10ms, later(loop, 15ms, 1)))));
    to.push_back(co_await outcome_of(timeout(10ms, timeout(20ms, later(loop, 15ms, 1)))));
    to.push_back(co_await outcome_of(timeout(20ms, timeout(20ms, later(loop, 15ms, 1)))));
    to.push_back(co_await outcome_of(timeout(10ms, all_of(loop))));
    auto [one, two] =
        co_await when_all(outcome_of(timeout(2ms, later(loop, 5ms, 1))), outcome_of(timeout(9ms, later(loop, 5ms, 1))));
    to.push_back(one);
    to.push_back(two);
  });
  CHECK(seen == lines{"Timeout", "Timeout", "value", "Timeout", "Timeout", "value"});
}

TEST_CASE_TEMPLATE("rule 59: the end of the step around destroys the task, by timeout or cancel", Flow, STEPS_FLOWS) {
  for (const bool by_cancel : {false, true}) {
    bench b;
    lines seen;
    Flow flow{b.loop};
    flow.add(co([&](IAsyncSteps& asi) -> task<> {
               if (!by_cancel) asi.setTimeout(5ms);
               seen.push_back(co_await outcome_of(timeout(1h, later(asi.tool(), 1h, 1))));
             }),
             noting_code(seen));
    flow.execute();
    b.pass(3ms);
    CHECK(held::live() == 1);
    if (by_cancel) flow.cancel();
    b.pass(5ms);
    CHECK(held::live() == 0);
    CHECK(seen == (by_cancel ? lines{} : lines{"Timeout"}));
  }
}

TEST_CASE("rule 59: misuse is an InternalError where it is awaited") {
  const auto seen = seen_by<steps::AsyncSteps>([&](IAsyncSteps& asi, lines& to) -> task<> {
    task<int> gone = later(asi.tool(), 1ms, 1);
    const task<int> other = std::move(gone);
    to.push_back(co_await outcome_of(timeout(1s, std::move(gone))));
  });
  CHECK(seen == lines{"InternalError"});
  const auto number = []() -> task<int> { co_return 1; };
  CHECK_THROWS_WITH_AS(start(timeout(1s, number())).get(), "InternalError", steps::Error);  // no loop here
  async::blocking_pool pool;
  CHECK(pool.post([&] { return start(outcome_of(timeout(1s, number()))).get(); }).get() == "InternalError");
}

TEST_CASE("rule 59: limits on a pool, in steps and in coroutines that are none: each task ends once") {
  constexpr int count = 1'000;
  for (const bool is_step : {true, false}) {
    CAPTURE(is_step);
    threadpool pool(2);
    std::atomic<int> late{0}, in_time{0};
    const auto one = [&](int i) -> task<> {
      const held mine;
      event_loop& loop = *event_loop::current();
      try {
        const int got = co_await timeout(std::chrono::microseconds(i % 400), later(loop, 0ms, i));
        in_time += got == i ? 1 : count;
      } catch (const steps::Error& e) {
        late += e.code() == steps::errors::Timeout ? 1 : count;
      }
      co_await timeout(1h, pause(loop, 0ms));
    };
    std::vector<async::future<void>> all;
    for (int i = 0; i != count; ++i) {
      if (is_step) {
        all.push_back(steps::post(
            pool, [&one, i](IAsyncSteps& asi) { asi.add(co([&one, i](IAsyncSteps&) -> task<> { return one(i); })); }));
      } else {
        all.push_back(start([](threadpool& on, const auto& body, int n) -> task<> {
          co_await schedule(on);
          co_await body(n);
        }(pool, one, i)));
      }
    }
    for (auto& f : all) f.get();
    CHECK(late + in_time == count);
    CHECK(held::live() == 0);
  }
}

TEST_CASE("rule 59: every allocation fails once: std::bad_alloc is thrown, and nothing is left") {
  std::size_t failed = 0;
  std::size_t caught = 0;
  for (bool done = false; !done;) {
    static_cast<void>(threadpool::trim());
    bench b;
    lines seen;
    steps::AsyncSteps flow{b.loop};
    flow.add(co([&](IAsyncSteps& asi) -> task<> {
               try {
                 seen.push_back(std::to_string(co_await timeout(1h, later(asi.tool(), 1ms, 1))));
               } catch (const std::bad_alloc&) {
                 ++caught;
                 seen.emplace_back("bad_alloc");
               }
             }),
             noting_code(seen));
    testing::fail_alloc failing(failed);
    flow.execute();
    b.pass(5ms);
    failing.stop();
    done = !failing.has_failed();
    CHECK(held::live() == 0);
    if (done) CHECK(seen == lines{"1"});
    CHECK(seen.size() == 1);
    if (!done) ++failed;
    REQUIRE(failed < 1'000);
  }
  CHECK(caught >= 1);
}
