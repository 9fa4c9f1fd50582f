// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "steps/steps.hpp"
#include "support/live_count.hpp"
#include "support/wait_while.hpp"

// A parallel() of one branch stays on its flow's loop; the branches of that branch are on several.

using async::threadpool;
using steps::ErrorCode;
using steps::IAsyncSteps;
using namespace std::chrono_literals;

namespace {

struct held : testing::live_count<held> {};

constexpr int workers = 3;

/// Inner branches that all wait. Each has begun on another worker.
struct inner_branches {
  template <class OnCancel>
  void build(IAsyncSteps& only, OnCancel on_cancel) {
    auto& branches = only.parallel();
    for (int i = 0; i < workers; ++i) {
      branches.add([this, on_cancel, h = held()](IAsyncSteps& branch) {
        ++alive;
        branch.setCancel([this, on_cancel](IAsyncSteps&) {
          on_cancel();
          --alive;
        });
        --missing;
        await_all();
      });
    }
  }
  void await_all() const {
    while (missing > 0) std::this_thread::yield();
  }

  /// For cancel handlers: whether this one may block, so that a worker is left for the other loops.
  bool may_block() { return ++ending < workers; }

  std::atomic<int> missing{workers};
  std::atomic<int> ending{0};
  std::atomic<int> alive{0};
};

}  // namespace

TEST_CASE("an error of the step around an only branch waits for the branches of that branch on other loops") {
  threadpool pool(workers);
  for (int round = 0; round < 3; ++round) {
    inner_branches inner;
    std::atomic<IAsyncSteps*> group{nullptr};
    std::atomic<int> at_handler{-1};
    // A branch that is alive when the handler runs is so until then; else it ends a little later, to be seen.
    const auto end_late = [&] {
      if (!inner.may_block()) return;
      const auto limit = std::chrono::steady_clock::now() + 30ms;
      while (at_handler == -1 && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
    };
    auto flow = std::make_unique<steps::AsyncSteps>(pool);
    flow->add([&](IAsyncSteps& asi) {
      auto& outer = asi.parallel([&](IAsyncSteps& step, ErrorCode code) {
        at_handler = inner.alive.load();
        if (round == 0 && code == "Outside") step.success();
      });
      outer.add([&](IAsyncSteps& only) { inner.build(only, end_late); });
      group = &outer;
    });
    auto end = flow->promise<void>();
    inner.await_all();
    if (round == 2) {
      flow.reset();
      CHECK(inner.alive == 0);
      CHECK_THROWS_AS(end.get(), std::future_error);
      continue;
    }
    group.load()->errorNoThrow("Outside");
    if (round == 0) {
      end.get();
    } else {
      CHECK_THROWS_AS(end.get(), steps::Error);
    }
    CHECK(at_handler == 0);
    CHECK(inner.alive == 0);
  }
  pool.wait_idle();
  CHECK(held::live() == 0);
}

namespace {

/// Cancels a flow while its error waits for the branches of an only branch. False: the error had ended it before the
/// cancel, which is a request, came to its loop.
bool cancel_beside_error(threadpool& pool) {
  inner_branches inner;
  std::atomic<IAsyncSteps*> group{nullptr};
  std::atomic<bool> cancelled{false};
  std::atomic<int> handled{0}, outermost{0};
  steps::AsyncSteps flow{pool};
  flow.add([&](IAsyncSteps& asi) {
    asi.setCancel([&](IAsyncSteps&) { ++outermost; });
    auto& outer = asi.parallel([&](IAsyncSteps&, ErrorCode) { ++handled; });
    outer.add([&](IAsyncSteps& only) {
      inner.build(only, [&] {
        if (inner.may_block()) testing::wait_while(cancelled, false);
      });
    });
    group = &outer;
  });
  auto end = flow.promise<void>();
  inner.await_all();
  group.load()->errorNoThrow("Outside");
  flow.cancel();  // comes to the flow's loop after the error
  cancelled = true;
  bool was_in_time = true;
  try {
    end.get();
    FAIL("the flow has succeeded");
  } catch (const std::future_error&) {
  } catch (const steps::Error& e) {
    CHECK(e.code() == "Outside");
    was_in_time = false;
  }
  CHECK(inner.alive == 0);
  CHECK(outermost == 1);
  CHECK(handled <= 1);
  return was_in_time;
}

}  // namespace

TEST_CASE("a flow is cancelled while its error waits for the branches of an only branch") {
  threadpool pool(workers);
  int rounds = 1;
  while (!cancel_beside_error(pool) && rounds < 100) ++rounds;
  CHECK(rounds < 100);
}

TEST_CASE("a cancel handler around an only branch, whose branches end last, destroys a flow of another loop") {
  threadpool pool(2);
  steps::AsyncTool tool;
  std::atomic<int> waiting{0};
  std::atomic<bool> has_returned{false}, has_ended{false}, was_late{false}, done{false};
  const auto destroy_another = [&] {
    {
      std::atomic<bool> has_started{false};
      steps::AsyncSteps other{tool};
      other.add([&](IAsyncSteps&) {
        has_started = true;
        std::this_thread::sleep_for(50ms);
        was_late = has_returned.load();
        has_ended = true;
      });
      other.execute();
      while (!has_started) std::this_thread::yield();
    }  // waits for the step
    has_returned = true;
    done = true;
  };
  async::future<void> flow = steps::post(pool, [&](IAsyncSteps& asi) {
    asi.add([&](IAsyncSteps& step) {
      step.setCancel(destroy_another);
      step.add([&](IAsyncSteps& inner) {
        inner.parallel().add([&](IAsyncSteps& only) {
          auto& branches = only.parallel();
          for (int i = 0; i < 2; ++i) {
            branches.add([&](IAsyncSteps& branch) {
              branch.waitExternal();
              ++waiting;
            });
          }
        });
      });
    });
  });
  while (waiting != 2) std::this_thread::yield();
  flow.cancel();
  while (!done || !has_ended) std::this_thread::yield();
  CHECK_FALSE(was_late);
}

TEST_CASE("a flow is destroyed on a paused pool while the branches of its only branch wait on other loops") {
  threadpool pool(workers);
  inner_branches inner;
  std::atomic<int> cancelled{0};
  auto flow = std::make_unique<steps::AsyncSteps>(pool);
  flow->add([&](IAsyncSteps& asi) {
    auto& outer = asi.parallel();
    outer.add([&](IAsyncSteps& only) { inner.build(only, [&] { ++cancelled; }); });
  });
  flow->execute();
  inner.await_all();
  pool.wait_idle();
  pool.configurepool(0);
  pool.wait_idle();
  flow.reset();
  CHECK(cancelled == workers);
  CHECK(inner.alive == 0);
  CHECK(held::live() == 0);
}

TEST_CASE("an only branch, and the branches of it, have turns as long as their flow's") {
  threadpool pool(1);
  for (const int inner : {0, 2}) {
    CAPTURE(inner);
    int before_task = 0;
    std::atomic<int> iterations{0};
    const auto count = [&iterations](IAsyncSteps& asi) {
      asi.repeat(50, [&iterations](IAsyncSteps&) { ++iterations; });
    };
    steps::post(pool, [&](IAsyncSteps& asi) {
      asi.parallel().add([&](IAsyncSteps& only) {
        pool.execute([&] { before_task = iterations; });
        if (inner == 0) return count(only);
        auto& branches = only.parallel();
        for (int i = 0; i < inner; ++i) branches.add(count);
      });
    }).get();
    pool.wait_idle();
    CHECK(iterations == (inner == 0 ? 50 : 100));
    CHECK(before_task % 50 == 0);
  }
}
