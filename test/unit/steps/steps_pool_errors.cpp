// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <exception>
#include <future>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "async/errors.hpp"
#include "async/threadpool.hpp"
#include "steps/interop/coroutine.hpp"
#include "support/flows.hpp"
#include "support/occupied.hpp"
#include "support/room_for_one.hpp"

// The errors of pools and futures have codes, by which handlers know them. Rule 9 of steps/RULES.md.

using async::threadpool;
using steps::ErrorCode;
using steps::IAsyncSteps;
using testing::bench;
using testing::lines;
using testing::noting;
using namespace std::chrono_literals;

namespace {

/// What handlers of flows see, which the exceptions say to other code.
const std::string stopped = std::string("Stopped: ") + async::stopped().what();
const std::string queue_full = std::string("QueueFull: ") + async::queue_full().what();
const std::string broken_promise =
    std::string("BrokenPromise: ") + std::future_error(std::future_errc::broken_promise).what();
const std::string cancelled = "BrokenPromise: async: the call or flow has been cancelled";

/// A pool that takes no more work.
struct stopped_pool : threadpool {
  stopped_pool() : threadpool(1) { stop(); }
};

/// Runs a step in a flow, and returns what its handler has seen.
template <class Flow, class F>
lines seen_by_handler(F step) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.add(step, noting(seen));
  flow.execute();
  b.pass(100ms);
  return seen;
}

}  // namespace

TEST_CASE_TEMPLATE("rule 9: what is left to a stopped pool fails with Stopped", Flow, STEPS_FLOWS) {
  stopped_pool gone;
  CHECK(seen_by_handler<Flow>([&](IAsyncSteps& asi) { asi.await(gone, [] { return 1; }); }) == lines{stopped});
  CHECK(seen_by_handler<Flow>([&](IAsyncSteps& asi) { asi.await(gone.post([] { return 1; })); }) == lines{stopped});
  CHECK(seen_by_handler<Flow>([&](IAsyncSteps&) { steps::post(gone, [](IAsyncSteps&) {}); }) == lines{stopped});
  CHECK(seen_by_handler<Flow>([&](IAsyncSteps&) {
          steps::AsyncSteps other{gone};
          other.add([](IAsyncSteps&) {});
          other.execute();
        }) == lines{stopped});
}

TEST_CASE_TEMPLATE("rule 9: what a full pool refuses fails with QueueFull", Flow, STEPS_FLOWS) {
  threadpool pool(testing::with_room_for_one());
  const testing::occupied busy(pool, 1);
  pool.execute([] {});
  CHECK(seen_by_handler<Flow>([&](IAsyncSteps& asi) { asi.await(pool, [] {}); }) == lines{queue_full});
  CHECK(seen_by_handler<Flow>([&](IAsyncSteps&) { steps::post(pool, [](IAsyncSteps&) {}); }) == lines{queue_full});
}

TEST_CASE_TEMPLATE("a promise() that a full pool refuses leaves no promise to the next execution", Flow, STEPS_FLOWS) {
  threadpool pool(testing::with_room_for_one());
  lines unhandled;
  Flow flow{pool};
  flow.add([](IAsyncSteps& asi) { asi.error("Lost"); });
  {
    const testing::occupied busy(pool, 1);
    pool.execute([] {});
    CHECK_THROWS_AS(flow.promise(), async::queue_full);
  }
  pool.wait_idle();
  flow.state().set_unhandled_error([&](ErrorCode code) { unhandled.emplace_back(code); });
  flow.execute();
  pool.wait_idle();
  CHECK(unhandled == lines{"Lost"});
}

TEST_CASE_TEMPLATE("rule 9: a future that gets no value fails with BrokenPromise", Flow, STEPS_FLOWS) {
  const auto awaits = [](auto make) { return seen_by_handler<Flow>([&](IAsyncSteps& asi) { asi.await(make()); }); };
  CHECK(awaits([] { return async::promise<int>().get_future(); }) == lines{broken_promise});
  CHECK(awaits([] { return async::promise<int>().get_future().share(); }) == lines{broken_promise});
  CHECK(awaits([] { return std::promise<int>().get_future(); }) == lines{broken_promise});
  CHECK(awaits([] { return std::promise<void>().get_future().share(); }) == lines{broken_promise});
  threadpool pool(0);
  CHECK(awaits([&] {
          auto call = pool.post([] { return 1; });
          call.cancel();
          return call;
        }) == lines{cancelled});

  // Broken while the flow waits.
  bench b;
  lines seen;
  std::optional<async::promise<int>> here(std::in_place);
  std::optional<std::promise<int>> there(std::in_place);
  Flow flow{b.loop};
  flow.add([&](IAsyncSteps& asi) { asi.await(here->get_future()); }, noting(seen));
  flow.add([&](IAsyncSteps& asi) { asi.await(there->get_future()); }, noting(seen));
  flow.execute();
  b.drain();
  here.reset();
  b.drain();
  there.reset();
  b.pass(20ms);
  CHECK(seen == lines{broken_promise, broken_promise});
}

TEST_CASE("rule 9: a flow that waits for a cancelled one fails with BrokenPromise") {
  bench b;
  lines seen;
  steps::AsyncSteps waits{b.loop};
  steps::AsyncSteps waited_for{b.loop};
  waited_for.add([](IAsyncSteps& asi) { asi.waitExternal(); });
  waits.await(waited_for.promise(), noting(seen));
  waits.execute();
  b.drain();
  waited_for.cancel();
  b.drain();
  CHECK(seen == lines{cancelled});
}

TEST_CASE_TEMPLATE("rule 9: an error of a branch keeps its code and info", Flow, STEPS_FLOWS) {
  stopped_pool gone;
  const auto branches = [&](IAsyncSteps& group) {
    group.await(gone, [] {});
    group.add([](IAsyncSteps& branch) { branch.error("Other"); });
  };
  CHECK(seen_by_handler<Flow>([&](IAsyncSteps& asi) { branches(asi.parallel()); }) == lines{stopped});
}

TEST_CASE("rule 9: branches on a pool keep code and info, too") {
  stopped_pool gone;
  threadpool pool(2);
  auto seen = steps::post<std::string>(pool, [&gone](IAsyncSteps& asi) {
    auto& branches = asi.parallel([](IAsyncSteps& failed, ErrorCode code) {
      failed.success(std::string(code) + ": " + std::string(failed.state().error_info()));
    });
    branches.await(gone, [] {});
    branches.add([](IAsyncSteps& branch) { branch.waitExternal(); });
  });
  CHECK(seen.get() == stopped);
}

TEST_CASE("a pool that is being stopped still runs the branches of a step that it runs") {
  std::promise<void> begun;
  threadpool pool(2);
  auto sum = steps::post<int>(pool, [&begun, &pool](IAsyncSteps& asi) {
    begun.set_value();
    while (true) {  // until stop() refuses work from outside
      try {
        std::async(std::launch::async, [&pool] { pool.execute([] {}); }).get();
      } catch (const async::stopped&) {
        break;
      }
    }
    auto& numbers = asi.stack<std::array<int, 3>>();
    auto& branches = asi.parallel();
    for (int& number : numbers) branches.add([&number](IAsyncSteps&) { number = 1; });
    asi.add([&numbers](IAsyncSteps& last) { last.success(numbers[0] + numbers[1] + numbers[2]); });
  });
  begun.get_future().wait();
  pool.stop();
  CHECK(sum.get() == 3);
}

TEST_CASE_TEMPLATE("rule 9: the hook of unhandled errors gets the code, a future the exception", Flow, STEPS_FLOWS) {
  stopped_pool gone;
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.state().set_unhandled_error([&](ErrorCode code) { seen.emplace_back(code); });
  flow.add([&](IAsyncSteps& asi) { asi.await(gone, [] {}); });
  flow.execute();
  b.drain();
  flow.add([&](IAsyncSteps& asi) {
    asi.setCancel([] { throw async::queue_full(); });
    asi.errorNoThrow("First");
  });
  flow.execute();
  b.drain();
  flow.await(std::promise<void>().get_future());
  flow.execute();
  b.drain();
  CHECK(seen == lines{"Stopped", "QueueFull", "First", "BrokenPromise"});
  flow.add([&](IAsyncSteps& asi) { asi.await(gone, [] {}); });
  auto end = flow.promise();
  b.drain();
  CHECK_THROWS_AS(end.get(), async::stopped);
}

TEST_CASE("rule 9: other errors of futures have their text as the code") {
  const std::future_error other(std::future_errc::promise_already_satisfied);
  CHECK(seen_by_handler<steps::AsyncSteps>([&](IAsyncSteps&) { throw other; }) ==
        lines{std::string(other.what()) + ": "});
}

TEST_CASE("rule 9: a coroutine that is a step fails with the same codes") {
  stopped_pool gone;
  CHECK(seen_by_handler<steps::AsyncSteps>([&](IAsyncSteps& asi) {
          asi.add(steps::interop::co(
              [&](IAsyncSteps&) -> steps::interop::task<void> { co_await steps::interop::post(gone, [] {}); }));
        }) == lines{stopped});
}

TEST_CASE("a hook that a flow on a pool sets for its loop goes with the flow") {
  std::atomic<int> of_pool{0};
  std::atomic<int> of_flow{0};
  async::threadpool_options options;
  options.threads = 1;
  options.on_unhandled = [&](std::exception_ptr) { ++of_pool; };
  threadpool pool(std::move(options));
  {
    steps::AsyncSteps first{pool};
    first.add([&](IAsyncSteps& asi) { asi.tool().on_unhandled([&](std::exception_ptr) { ++of_flow; }); });
    first.promise().get();
  }
  steps::AsyncSteps second{pool};
  second.add([](IAsyncSteps& asi) {
    asi.tool().immediate([done = asi.completion<>()] {
      done.success();
      throw std::runtime_error("of a callback");
    });
  });
  second.promise().get();
  pool.wait_idle();
  CHECK(of_pool == 1);
  CHECK(of_flow == 0);
}
