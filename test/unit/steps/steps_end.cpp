// SPDX-License-Identifier: BSL-1.0
//
// The end of flows whose loop another thread runs, has run, or is about to run.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "async/errors.hpp"
#include "async/event_loop.hpp"
#include "async/threadpool.hpp"
#include "steps/steps.hpp"
#include "support/live_count.hpp"
#include "support/scale.hpp"
#include "support/start_line.hpp"
#include "support/thrown.hpp"

using async::event_loop;
using steps::AsyncSteps;
using steps::IAsyncSteps;

TEST_CASE("a flow is destroyed on the thread that made it when the thread that ran its loop has ended") {
  event_loop loop;
  bool cancelled = false;
  {
    AsyncSteps flow{loop};
    flow.add([&](IAsyncSteps& asi) {
      asi.setCancel([&](IAsyncSteps&) { cancelled = true; });
      asi.waitExternal();
      loop.stop();
    });
    std::thread runner([&] { loop.run(); });
    loop.post([&] { flow.execute(); });
    runner.join();
    CHECK_FALSE(cancelled);
  }
  CHECK(cancelled);
}

TEST_CASE("a flow is destroyed while its execute() is on its way to a loop that no thread runs") {
  event_loop loop;
  bool ran = false;
  std::thread([&] { loop.iterate(); }).join();  // the loop's thread has ended
  {
    AsyncSteps flow{loop};
    flow.add([&](IAsyncSteps&) { ran = true; });
    flow.execute();
  }
  while (loop.iterate().have_work) {
  }
  CHECK_FALSE(ran);
}

TEST_CASE_TEMPLATE("rule 19: a flow that ends before its start has come to its loop drops its result as cancelled",
                   Flow, AsyncSteps, steps::NitroSteps<>) {
  for (const bool destroys : {false, true}) {
    event_loop loop;
    auto flow = std::make_unique<Flow>(loop);
    flow->add([](IAsyncSteps&) {});
    async::future<void> end;
    std::thread([&] { end = flow->promise(); }).join();
    destroys ? flow.reset() : flow->cancel();
    while (loop.iterate().have_work) {
    }
    CHECK(testing::why_dropped(end) == async::dropped_call::reason::cancelled);
  }
}

TEST_CASE("flows are executed and destroyed by the thread that made the loop while another begins and ends its run") {
  // A round mostly sleeps: the destructor of a flow whose loop no thread runs any more checks every 5 ms.
  for (std::size_t round = testing::rounds(500); round != 0; --round) {
    event_loop loop;
    std::atomic<int> ended{0};
    int waiting = 0;
    testing::run_threads(2, [&](std::size_t index) {
      if (index == 1) return loop.run();
      std::optional<AsyncSteps> flows[4];
      for (std::optional<AsyncSteps>& flow : flows) {
        flow.emplace(loop);
        flow->add([&](IAsyncSteps& asi) {
          ++waiting;
          asi.setCancel([&](IAsyncSteps&) { --waiting; });
          asi.waitExternal();
        });
        flow->execute();
      }
      flows[1]->cancel();
      flows[2].reset();
      loop.stop();
      for (std::optional<AsyncSteps>& flow : flows) flow.reset();
      ++ended;
    });
    REQUIRE(waiting == 0);
    REQUIRE(ended == 1);
  }
}

namespace {
struct captured : testing::live_count<captured> {};
}  // namespace

TEST_CASE_TEMPLATE("a flow that a mistake has ended before its first turn destroys its steps once", Flow, AsyncSteps,
                   steps::NitroSteps<>) {
  bool broken = false;
  SUBCASE("made while it waits for its turn") {}
  SUBCASE("made before it was given to the loop") { broken = true; }
  event_loop loop;
  Flow flow{loop};
  flow.add([item = captured()](IAsyncSteps&) { static_cast<void>(item); });
  if (broken) flow.breakLoopNoThrow();
  flow.execute();
  if (!broken) flow.add([](IAsyncSteps&) {});
  CHECK(captured::live() == 0);
  flow.cancel();
  CHECK(captured::live() == 0);
}

namespace {

/// Part of a step: destroys the flow that the step belongs to when it is destroyed itself.
template <class Flow>
struct destroyer {
  std::unique_ptr<Flow>* flow;
  captured item{};
  explicit destroyer(std::unique_ptr<Flow>& f) noexcept : flow(&f) {}
  destroyer(destroyer&& other) noexcept : flow(std::exchange(other.flow, nullptr)) {}
  ~destroyer() {
    if (flow != nullptr) flow->reset();
  }
};

template <class Flow>
std::unique_ptr<Flow> destroyed_by_a_step(std::unique_ptr<Flow> flow, std::unique_ptr<Flow>& owner) {
  flow->add([item = captured()](IAsyncSteps&) { static_cast<void>(item); });
  flow->add([by = destroyer<Flow>(owner)](IAsyncSteps&) { static_cast<void>(by); });
  flow->add([item = captured()](IAsyncSteps&) { static_cast<void>(item); });
  return flow;
}

}  // namespace

TEST_CASE_TEMPLATE("a flow destroyed by one of its steps, which is dropped before the start, ends as if cancelled",
                   Flow, AsyncSteps, steps::NitroSteps<>) {
  std::unique_ptr<Flow> flow;
  std::future<void> end;
  const auto start = [&](auto& where) {
    flow = destroyed_by_a_step(std::make_unique<Flow>(where), flow);
    end = flow->template promise<void>();
  };
  SUBCASE("cancelled on a pool") {
    async::threadpool pool(0);
    start(pool);
    flow->cancel();
  }
  SUBCASE("cancelled on a pool by another thread") {
    async::threadpool pool(0);
    start(pool);
    std::thread([&] { flow->cancel(); }).join();
  }
  SUBCASE("destroyed on a pool") {
    async::threadpool pool(0);
    start(pool);
    flow.reset();
  }
  SUBCASE("cancelled on a loop") {
    event_loop loop;
    start(loop);
    flow->cancel();
  }
  SUBCASE("cancelled on a loop, in a turn") {
    event_loop loop;
    start(loop);
    loop.post([&] { flow->cancel(); });
    while (loop.iterate().have_work) {
    }
  }
  SUBCASE("executed by another thread, and cancelled before that has come to the loop") {
    event_loop loop;
    std::thread([&] { start(loop); }).join();
    flow->cancel();
    while (loop.iterate().have_work) {
    }
  }
  SUBCASE("on a loop that goes") {
    event_loop loop;
    start(loop);
  }
  SUBCASE("executed by another thread on a loop that goes") {
    event_loop loop;
    std::thread([&] { start(loop); }).join();
  }
  CHECK(flow == nullptr);
  CHECK(captured::live() == 0);
  CHECK_THROWS_AS(end.get(), std::future_error);
}

namespace {

/// A capture of a step: tells that the loop drops it, and waits until it is not the last or `stop` is set.
struct dropped_slowly {
  dropped_slowly(std::atomic<int>& s, int says, const std::atomic<bool>& u) noexcept
      : stage(&s), says_stage(says), until(&u) {}
  dropped_slowly(dropped_slowly&& other) noexcept
      : stage(std::exchange(other.stage, nullptr)), says_stage(other.says_stage), until(other.until) {}
  ~dropped_slowly() {
    if (stage == nullptr) return;
    *stage = says_stage;
    const auto limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
    while (!*until && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
  }

  std::atomic<int>* stage;
  int says_stage;
  const std::atomic<bool>* until;
};

}  // namespace

TEST_CASE_TEMPLATE("a flow that is destroyed while its loop goes stays until the loop has dropped its start", Flow,
                   AsyncSteps, steps::NitroSteps<>) {
  std::optional<event_loop> owner(std::in_place);
  event_loop& loop = *owner;
  std::atomic<int> stage{0};
  std::atomic<bool> all_given{false}, is_gone{false};
  const auto await_stage = [&stage](int n) {
    while (stage < n) std::this_thread::yield();
  };
  Flow waiting{loop};
  waiting.add([&](IAsyncSteps& asi) {
    asi.setCancel([&](IAsyncSteps&) {
      stage = 1;
      await_stage(2);
    });
  });
  waiting.execute();
  loop.iterate();
  bool dropped_first = false;
  std::thread other([&] {
    Flow first{loop}, second{loop};
    std::optional<Flow> last(std::in_place, loop);
    first.add([part = dropped_slowly(stage, 3, all_given)](IAsyncSteps&) { static_cast<void>(part); });
    second.add([part = dropped_slowly(stage, 4, is_gone)](IAsyncSteps&) { static_cast<void>(part); });
    last->add([item = captured()](IAsyncSteps&) { static_cast<void>(item); });
    await_stage(1);  // the loop is being destroyed
    first.execute();
    stage = 2;
    await_stage(3);  // it drops the first, and has taken no messages since: it refuses them from there on
    second.execute();
    last->execute();
    all_given = true;
    await_stage(4);  // it drops the second
    last.reset();
    dropped_first = captured::live() == 0 && !is_gone.exchange(true);
  });
  owner.reset();
  CHECK(captured::live() == 0);
  other.join();
  CHECK(dropped_first);
}
