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

#include "async/blocking_pool.hpp"
#include "async/queue.hpp"
#include "async/threadpool.hpp"
#include "steps/interop/coroutine.hpp"
#include "steps/interop/retry.hpp"
#include "steps/interop/with_timeout.hpp"
#include "support/coroutines.hpp"
#include "support/flows.hpp"
#include "support/tasks.hpp"

// retry() of coroutines. Rule 62 of steps/RULES.md.

using async::event_loop;
using steps::Error;
using steps::ErrorCode;
using steps::IAsyncSteps;
using steps::Retry;
using steps::interop::co;
using steps::interop::retry;
using steps::interop::schedule;
using steps::interop::start;
using steps::interop::task;
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

/// Pauses of 10, 20, 40 ms …, without chance.
constexpr Retry exact(std::size_t attempts) { return {.attempts = attempts, .delay = 10ms, .jitter = 0}; }

/// How many attempts are made when each throws `thrown`.
template <class Policy, class X>
std::size_t attempts_of(const Policy& policy, const X& thrown) {
  bench b;
  std::size_t count = 0;
  const auto fail = [&count, &thrown]() -> task<> {
    ++count;
    throw thrown;
    co_return;
  };
  const auto got = result_of<steps::AsyncSteps, bool>(
      b,
      [&](IAsyncSteps&) -> task<bool> {
        try {
          co_await retry(policy, fail);
        } catch (const X&) {
          co_return true;
        }
        co_return false;
      },
      1s);
  CHECK(got == true);
  return count;
}

}  // namespace

TEST_CASE_TEMPLATE("rule 62: attempts are made until one succeeds, with growing pauses", Flow, STEPS_FLOWS) {
  bench b;
  std::vector<async::manual_clock::time_point> times{b.clock.now()};
  const auto got = result_of<Flow, std::string>(
      b,
      [&](IAsyncSteps& asi) -> task<std::string> {
        event_loop& loop = asi.tool();
        const auto ask = [&](std::size_t attempt) -> task<std::string> {
          CHECK(held::live() == 0);  // nothing of the attempt before
          CHECK(attempt == times.size() - 1);
          times.push_back(b.clock.now());
          if (attempt < 3) co_await fail_after(loop, 1ms, "Busy");
          co_return "done";
        };
        co_return co_await retry(exact(5), ask);
      },
      1s);
  CHECK(got == "done");
  REQUIRE(times.size() == 5);
  const std::chrono::milliseconds expected[] = {0ms, 11ms, 21ms, 41ms};
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(times[i + 1] - times[i] >= expected[i]);
    CHECK(times[i + 1] - times[i] <= expected[i] + 2ms);  // the clock goes on by milliseconds, timers by ticks
  }
  CHECK(held::live() == 0);
}

TEST_CASE("rule 62: the function returns anything that is awaited, and may throw itself") {
  bench b;
  async::queue<std::unique_ptr<int>> elements;
  elements.enqueue(std::make_unique<int>(5));
  int calls = 0;
  const auto got = result_of<steps::AsyncSteps, lines>(b, [&](IAsyncSteps& asi) -> task<lines> {
    lines seen;
    const auto throws_first = [&calls] {
      if (++calls == 1) throw std::runtime_error("Busy");
      return async::make_ready_future(7);
    };
    seen.push_back(std::to_string(co_await retry(exact(2), throws_first)));
    const auto element = co_await retry(exact(1), [&elements] { return elements.pop(); });
    seen.push_back(std::to_string(**element));
    co_await retry(exact(1), [&asi](std::size_t) { return pause(asi.tool(), 1ms); });
    const auto owner = std::make_shared<int>(8);
    const auto owning = [owner] { return async::make_ready_future(*owner); };
    seen.push_back(std::to_string(co_await retry(exact(1), owning)));
    co_return seen;
  });
  CHECK(got == lines{"7", "5", "8"});
  CHECK(calls == 2);
}

namespace user {

struct ask {
  task<int> operator()(int number) const { co_return number + 1; }
};
/// Found by name beside a function of the library.
inline int attempt(const ask&, std::size_t) { return 7; }

}  // namespace user

TEST_CASE("rule 62: the number of the attempt is of any integer type, and users' own functions are left alone") {
  bench b;
  const auto got = result_of<steps::AsyncSteps, int>(
      b, [](IAsyncSteps&) -> task<int> { co_return co_await retry(exact(1), user::ask()); });
  CHECK(got == 1);
}

TEST_CASE("rule 62: the captures of a lambda last as long as the attempts") {
  bench b;
  const auto attempts = [](event_loop& loop) {
    const auto ask = [owned = std::make_shared<int>(0), &loop]() -> task<int> {
      co_await pause(loop, 1ms);
      if (++*owned < 3) throw std::runtime_error("Busy");
      co_return *owned;
    };
    return retry(exact(3), ask);
  };
  const auto got = result_of<steps::AsyncSteps, int>(
      b, [&](IAsyncSteps& asi) -> task<int> { co_return co_await attempts(asi.tool()); });
  CHECK(got == 3);
}

TEST_CASE("rule 62: on() and when() see the code that a step would have") {
  const Retry four = exact(4);
  const auto listed = four.on(steps::errors::Timeout, "Busy");
  CHECK(attempts_of(listed, Error("Busy", "now")) == 4);
  CHECK(attempts_of(listed, std::runtime_error("Busy")) == 4);
  CHECK(attempts_of(listed, steps::errors::Timeout) == 4);
  CHECK(attempts_of(listed, Error("NotFound")) == 1);
  CHECK(attempts_of(listed, std::runtime_error("NotFound")) == 1);
  CHECK(attempts_of(listed, ErrorCode("NotFound")) == 1);
  CHECK(attempts_of(four.on(steps::errors::QueueFull), async::queue_full()) == 4);
  CHECK(attempts_of(four.on(steps::errors::Stopped), async::stopped()) == 4);
  CHECK(attempts_of(four.on(steps::errors::InternalError), 7) == 4);  // no std::exception
  CHECK(attempts_of(exact(1), Error("Busy")) == 1);
  int left = 2;
  const auto counting = four.when([&left](ErrorCode code) { return code == "Busy" && left-- > 0; });
  CHECK(attempts_of(counting, Error("Other")) == 1);
  CHECK(attempts_of(counting, Error("Busy")) == 3);
}

TEST_CASE("rule 62: an exception of the predicate takes the error's place") {
  bench b;
  int calls = 0;
  const auto got = result_of<steps::AsyncSteps, std::string>(b, [&](IAsyncSteps& asi) -> task<std::string> {
    const auto policy = exact(3).when([](ErrorCode) -> bool { throw std::runtime_error("of the predicate"); });
    const auto ask = [&] { return ++calls, fail_after(asi.tool(), 1ms, "Busy"); };
    co_return co_await text_of(retry(policy, ask));
  });
  CHECK(got == "of the predicate");
  CHECK(calls == 1);
}

TEST_CASE("rule 62: the exception of an attempt has gone before the pause") {
  struct busy : std::runtime_error {
    explicit busy(std::shared_ptr<int> h) : runtime_error("Busy"), held(std::move(h)) {}
    std::shared_ptr<int> held;
  };
  bench b;
  std::weak_ptr<int> of_first;
  std::size_t calls = 0;
  bool has_gone = false;
  const auto got = result_of<steps::AsyncSteps, int>(b, [&](IAsyncSteps&) -> task<int> {
    const auto ask = [&](std::size_t attempt) -> task<int> {
      ++calls;
      if (attempt == 1) co_return 1;
      const auto large = std::make_shared<int>(0);
      of_first = large;
      throw busy(large);
    };
    b.loop.deferred(5ms, [&] { has_gone = calls == 1 && of_first.expired(); });
    co_return co_await retry(exact(2), ask);
  });
  CHECK(got == 1);
  CHECK(has_gone);
}

TEST_CASE_TEMPLATE("rule 62: an error that a function of asi throws is the step's", Flow, STEPS_FLOWS) {
  bench b;
  int calls = 0;
  Flow flow{b.loop};
  flow.add(co([&calls](IAsyncSteps& asi) -> task<> {
    const auto ask = [&]() -> task<> {
      ++calls;
      asi.error("Busy", "of the step");
      co_return;
    };
    co_await retry(exact(3), ask);
  }));
  flow.execute();
  b.run(100ms);
  CHECK(calls == 1);
  CHECK(b.unhandled == lines{"Busy"});
}

TEST_CASE_TEMPLATE("rule 62: with_timeout() limits each attempt, or all of them", Flow, STEPS_FLOWS) {
  bench b;
  int calls = 0;
  const auto got = result_of<Flow, lines>(
      b,
      [&](IAsyncSteps& asi) -> task<lines> {
        const auto ask = [&] { return ++calls, pause(asi.tool(), 1h); };
        const auto ask_briefly = [&] { return with_timeout(1ms, ask()); };
        lines seen;
        seen.push_back(co_await text_of(retry(exact(3).on(steps::errors::Timeout), ask_briefly)));
        seen.push_back(std::to_string(calls));
        seen.push_back(co_await text_of(with_timeout(5ms, retry(exact(3), ask))));
        seen.push_back(co_await text_of(with_timeout(15ms, retry(exact(9), ask_briefly))));
        seen.push_back(std::to_string(calls));
        co_return seen;
      },
      1s);
  const std::string late = "Timeout: with_timeout(): the task has not ended in time";
  CHECK(got == lines{late, "3", late, late, "6"});
  CHECK(held::live() == 0);
}

TEST_CASE_TEMPLATE("rule 62: a timeout and cancel() end attempts and pauses, and nothing is thrown", Flow,
                   STEPS_FLOWS) {
  for (const bool is_in_pause : {false, true}) {
    for (const bool is_cancelled : {false, true}) {
      bench b;
      int calls = 0;
      bool goes_on = false;
      Flow flow{b.loop};
      flow.add(co([&](IAsyncSteps& asi) -> task<> {
        if (!is_cancelled) asi.setTimeout(5ms);
        const held mine;
        const auto ask = [&]() -> task<> {
          ++calls;
          if (is_in_pause) throw std::runtime_error("Busy");
          co_await pause(asi.tool(), 1h);
        };
        try {
          co_await retry(exact(3), ask);
          goes_on = true;
        } catch (...) {
          goes_on = true;
        }
      }));
      flow.execute();
      b.run(4ms);
      CHECK(held::live() == (is_in_pause ? 1 : 2));
      if (is_cancelled) flow.cancel();
      b.run(4ms);
      CHECK(held::live() == 0);
      CHECK(calls == 1);
      CHECK_FALSE(goes_on);
      CHECK(b.unhandled == (is_cancelled ? lines{} : lines{"Timeout"}));
    }
  }
}

TEST_CASE_TEMPLATE("rule 62: attempts without a pause take turns with other flows", Flow, STEPS_FLOWS) {
  bench b;
  std::size_t calls = 0;
  Flow flow{b.loop};
  flow.add(co([&calls](IAsyncSteps& asi) -> task<> {
    asi.setTimeout(5ms);
    const auto ask = [&calls]() -> task<> {
      ++calls;
      throw std::runtime_error("Busy");
      co_return;
    };
    co_await retry({.attempts = Retry::unlimited, .delay = 0ms}, ask);
  }));
  flow.execute();
  for (int turn = 0; turn < 1'000 && b.unhandled.empty(); ++turn) {
    b.loop.iterate();
    b.clock.advance(1ms);
  }
  CHECK(b.unhandled == lines{"Timeout"});
  CHECK(calls >= 100);
}

TEST_CASE("rule 62: no attempts are a mistake") {
  bench b;
  const auto got = result_of<steps::AsyncSteps, std::string>(b, [](IAsyncSteps& asi) -> task<std::string> {
    co_return co_await text_of(retry({.attempts = 0}, [&] { return after(asi.tool(), 1ms, 1); }));
  });
  CHECK(got == "InternalError: retry() with Retry::attempts of 0");
}

TEST_CASE("retry() without a flow, on a pool and on any thread") {
  async::threadpool pool(2);
  const auto ask = [&pool](std::size_t attempt) -> task<std::size_t> {
    co_await schedule(pool);
    if (attempt < 3) throw std::runtime_error("Busy");
    co_return attempt;
  };
  CHECK(start(retry({.attempts = 5, .delay = 1ms}, ask)).get() == 3);
  CHECK_THROWS_WITH_AS(start(retry({.attempts = 2, .delay = 1ms}, ask)).get(), "Busy", std::runtime_error);

  async::blocking_pool disk({.max_threads = 1});
  int calls = 0;
  const auto call = [&] {
    return disk.post([&calls] {
      if (++calls < 3) throw std::runtime_error("Busy");
      return calls;
    });
  };
  CHECK(start(retry({.delay = 1ms}, call)).get() == 3);
}
