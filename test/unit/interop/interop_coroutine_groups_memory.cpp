// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "async/threadpool.hpp"
#include "steps/interop/coroutine.hpp"
#include "steps/interop/sync.hpp"
#include "steps/interop/when_all.hpp"
#include "steps/interop/with_timeout.hpp"
#include "support/alloc_counter.hpp"
#include "support/flows.hpp"
#include "support/live_count.hpp"

// The allocations of when_all(), when_any(), with_timeout() and sync() of tasks, and their failure.

using async::event_loop;
using steps::IAsyncSteps;
using steps::interop::co;
using steps::interop::sleep_for;
using steps::interop::sync;
using steps::interop::task;
using steps::interop::when_all;
using steps::interop::when_any;
using steps::interop::with_timeout;
using testing::bench;
using namespace std::chrono_literals;

namespace {

struct local : testing::live_count<local> {};

task<int> number(event_loop& loop, int i) {
  const local mine;
  co_await sleep_for(loop, 1ms);
  co_return i;
}
task<std::string> text() { co_return std::string(1'000, 'x'); }

task<int> work(event_loop& loop) {
  const local mine;
  std::vector<task<int>> many;
  for (int i = 0; i != 12; ++i) many.push_back(number(loop, i));
  int sum = 0;
  for (const int i : co_await when_all(std::move(many))) sum += i;
  auto [large, one] = co_await when_all(text(), number(loop, 1));
  const auto any = co_await when_any(number(loop, 1), number(loop, 2));
  steps::Mutex mutex;
  sum += co_await with_timeout(1h, sync(mutex, number(loop, 3)));
  co_return sum + static_cast<int>(large.size()) + one + static_cast<int>(any.index);
}

}  // namespace

TEST_CASE("in the steady state groups of tasks allocate nothing") {
  bench b;
  steps::AsyncSteps flow{b.loop};
  int sum = 0;
  const auto round = [&] {
    flow.add(co([](IAsyncSteps& asi) -> task<int> {
          auto [x, y] = co_await when_all(number(asi.tool(), 1), number(asi.tool(), 2));
          const auto any = co_await when_any(number(asi.tool(), x), number(asi.tool(), y));
          co_return x + y + static_cast<int>(any.index);
        }))
        .add([&sum](IAsyncSteps&, int i) { sum += i; });
    flow.execute();
    b.pass(10ms);
  };
  round();
  const testing::alloc_counter counter;
  round();
  CHECK(counter.calls() == 0);
  CHECK(sum == 6);
}

TEST_CASE("loops of with_timeout() and sync() allocate nothing in the steady state") {
  bench b;
  steps::AsyncSteps flow{b.loop};
  steps::Mutex mutex;
  int sum = 0;
  const auto run = [&](int rounds) {
    bool ended = false;
    flow.add(co([&sum, &mutex, &ended, rounds](IAsyncSteps& asi) -> task<> {
      for (int i = 0; i < rounds; ++i) {
        sum += co_await with_timeout(1h, number(asi.tool(), 1));
        sum += co_await sync(mutex, number(asi.tool(), 1));
      }
      ended = true;
    }));
    flow.execute();
    while (!ended) b.pass(1ms);
  };
  run(10);
  const testing::alloc_counter counter;
  run(1'000);
  CHECK(counter.calls() == 0);
  CHECK(sum == 2'020);
}

TEST_CASE("every allocation fails once: the coroutine gets std::bad_alloc or its step fails, and nothing is left") {
  for (const bool has_flow : {true, false}) {
    CAPTURE(has_flow);
    std::size_t failed = 0;
    std::size_t caught = 0;
    bool done = false;
    for (std::size_t k = 0; !done; ++k) {
      static_cast<void>(async::threadpool::trim());
      {
        bench b;
        steps::AsyncSteps flow{b.loop};
        std::string outcome;
        int result = 0;
        const auto attempt = [&](event_loop& loop) -> task<> {
          try {
            result = co_await work(loop);
          } catch (const std::bad_alloc&) {
            ++caught;
            CHECK(local::live() == 0);  // whatever had begun has ended
          }
        };
        testing::fail_alloc failing(k);
        try {
          if (has_flow) {
            flow.add(co([&](IAsyncSteps& asi) -> task<> { return attempt(asi.tool()); }),
                     [&](IAsyncSteps& asi, steps::ErrorCode code) {
                       outcome = code.view();
                       asi.success();
                     });
            flow.execute();
          } else {
            b.loop.post([&] {
              try {
                static_cast<void>(steps::interop::start(attempt(b.loop)));
              } catch (const std::bad_alloc&) {
                outcome = "not started";
              }
            });
          }
          b.pass(10ms);
        } catch (const std::bad_alloc&) {
          CHECK(failing.has_failed());
        }
        if (failing.has_failed()) {
          ++failed;
        } else {
          done = true;
          CHECK(result == 66 + 1'000 + 1 + 3);
        }
      }
      CHECK(local::live() == 0);
      REQUIRE(k < 1'000);
    }
    CHECK(failed > 5);
    CHECK(caught > 3);
  }
}
