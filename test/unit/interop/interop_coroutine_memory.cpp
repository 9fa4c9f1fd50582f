// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <future>
#include <new>
#include <string>
#include <thread>

#include "async/queue.hpp"
#include "async/threadpool.hpp"
#include "steps/interop/coroutine.hpp"
#include "support/alloc_counter.hpp"
#include "support/flows.hpp"
#include "support/live_count.hpp"

// The allocations of coroutines, and their failure.

using steps::IAsyncSteps;
using steps::interop::execute;
using steps::interop::sleep_for;
using steps::interop::task;
using testing::bench;
using namespace std::chrono_literals;

namespace {

struct local : testing::live_count<local> {};

task<int> count_down(int from) {
  if (from == 0) co_return 0;
  co_return 1 + co_await count_down(from - 1);
}

}  // namespace

TEST_CASE("in the steady state frames and waits allocate nothing") {
  bench b;
  const auto work = [](async::event_loop& loop) -> task<int> {
    int sum = 0;
    for (int i = 0; i < 10; ++i) {
      co_await sleep_for(loop, 1ms);
      sum += co_await count_down(3);
    }
    co_return sum;
  };
  steps::AsyncSteps flow{b.loop};
  const auto round = [&] {
    flow.add(steps::interop::co([&work](IAsyncSteps& asi) -> task<int> { co_return co_await work(asi.tool()); }));
    flow.execute();
    b.pass(20ms);
  };
  round();
  const testing::alloc_counter counter;
  round();
  CHECK(counter.calls() == 0);
}

TEST_CASE("every allocation fails once: the step's error is the text of std::bad_alloc, and nothing is left") {
  std::size_t failed = 0;
  bool done = false;
  for (std::size_t k = 0; !done; ++k) {
    static_cast<void>(async::threadpool::trim());
    {
      bench b;
      steps::AsyncSteps flow{b.loop};
      std::string outcome;
      testing::fail_alloc failing(k);
      try {
        flow.add(steps::interop::co([](IAsyncSteps& asi) -> task<int> {
                   const local mine;
                   co_await sleep_for(asi.tool(), 1ms);
                   const auto large = [](std::array<char, 4'000> text) -> task<int> { co_return text[7]; };
                   int sum = co_await large({});
                   steps::AsyncSteps inner{asi.tool()};
                   inner.add([](IAsyncSteps& s) { s.success(1); });
                   sum += co_await execute<int>(inner);
                   co_return sum;
                 }),
                 [&](IAsyncSteps& asi, steps::ErrorCode code) {
                   outcome = code.view().substr(0, 15);
                   asi.success();
                 })
            .add([&](IAsyncSteps&) { done = outcome.empty(); });
        flow.execute();
        b.pass(5ms);
      } catch (const std::bad_alloc&) {
        CHECK(failing.has_failed());
      }
      if (failing.has_failed()) {
        ++failed;
        done = false;
      }
    }
    CHECK(local::live() == 0);
    REQUIRE(k < 1'000);
  }
  CHECK(failed > 0);
}

TEST_CASE("a flow that is cancelled without memory resumes the coroutine that awaits it") {
  bench b;
  int thrown = 0;
  steps::AsyncSteps inner{b.loop}, outer{b.loop}, third{b.loop};
  for (steps::AsyncSteps* flow : {&inner, &third}) flow->add([](IAsyncSteps& asi) { asi.waitExternal(); });
  outer.add(steps::interop::co([&](IAsyncSteps&) -> task<> {
    try {
      co_await execute(inner);
    } catch (const std::exception&) {
      ++thrown;
    }
  }));
  outer.execute();
  std::future<void> result = third.promise();
  b.drain();
  {
    const testing::no_memory none;
    inner.cancel();
    third.cancel();
  }
  b.drain();
  CHECK(thrown == 1);
  CHECK(static_cast<bool>(outer));
  CHECK_THROWS_AS(result.get(), std::exception);  // std::bad_alloc, or a broken promise where that needs none
}

TEST_CASE("a coroutine that has given way, and has no memory to wait then, gets std::bad_alloc") {
  int taken = 0;
  bool is_caught = false;
  static_cast<void>(async::threadpool::trim());
  std::thread([&] {  // has no recycled blocks
    bench b;
    async::queue<int> queue;
    for (int i = 0; i < 100; ++i) queue.enqueue(i);
    steps::AsyncSteps flow{b.loop};
    flow.add(steps::interop::co([&](IAsyncSteps&) -> task<> {
      try {
        while (co_await queue.pop()) ++taken;
      } catch (const std::bad_alloc&) {
        is_caught = true;
      }
    }));
    flow.execute();
    b.loop.iterate();
    const testing::no_memory none;
    b.loop.iterate();
  })
      .join();
  CHECK(taken == 100);
  CHECK(is_caught);
}
