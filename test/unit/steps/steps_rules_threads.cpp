// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "async/select.hpp"
#include "support/flows.hpp"
#include "support/scale.hpp"

// Flows and other threads. Rules 2, 17, 19 to 21 and 32 of steps/RULES.md. On one thread: steps_rules_time.cpp.

using steps::ErrorCode;
using steps::IAsyncSteps;
using namespace std::chrono_literals;

namespace {

/// A promise that a callback sets once and another thread waits for, at most a minute.
template <class T = void>
struct sign {
  std::promise<T> promise;
  std::future<T> future = promise.get_future();
  bool seen() const { return future.wait_for(60s) == std::future_status::ready; }
};

/// The first execution of a flow runs until another thread has called late(flow), which its loop hears of when the
/// second one, added in a continuation of the first one's future, waits. Its result is 2.
template <class Flow, class Where, class Late>
int result_after_late_call(Where& where, const Late& late) {
  Flow flow{where};
  std::atomic<int> stage{0};
  flow.add([&](IAsyncSteps& asi) {
    stage = 1;
    while (stage != 2) std::this_thread::yield();
    asi.success(1);
  });
  sign<async::future<int>> second;
  auto first = flow.template promise<int>().then([&](async::future<int> ended) {
    flow.add([](IAsyncSteps& asi) { asi.select(async::after(5ms)); });
    flow.add([](IAsyncSteps& asi) { asi.success(2); });
    second.promise.set_value(flow.template promise<int>());
    return ended.get();
  });
  while (stage != 1) std::this_thread::yield();
  late(flow);
  stage = 2;
  REQUIRE(second.seen());
  CHECK(first.get() == 1);
  return second.future.get().get();
}

}  // namespace

TEST_CASE_TEMPLATE("rule 17: cancel() of another thread is a request that the loop carries out", Flow, STEPS_FLOWS) {
  steps::AsyncTool tool;
  sign<> waits;
  sign<std::thread::id> cancelled;
  std::thread::id loop_thread;
  Flow flow{tool};
  flow.add([&](IAsyncSteps& asi) {
    loop_thread = std::this_thread::get_id();
    asi.setCancel([&](IAsyncSteps&) { cancelled.promise.set_value(std::this_thread::get_id()); });
    waits.promise.set_value();
  });
  auto result = flow.promise();
  REQUIRE(waits.seen());
  flow.cancel();
  REQUIRE(cancelled.seen());
  CHECK(cancelled.future.get() == loop_thread);
  CHECK_THROWS_AS(result.get(), std::future_error);
}

TEST_CASE_TEMPLATE("rule 17: a cancel() of another thread that comes too late leaves the next execution alone", Flow,
                   STEPS_FLOWS) {
  steps::AsyncTool tool;
  async::threadpool pool(1);
  const auto cancel = [](Flow& flow) { flow.cancel(); };
  CHECK(result_after_late_call<Flow>(tool, cancel) == 2);
  CHECK(result_after_late_call<Flow>(pool, cancel) == 2);
}

TEST_CASE_TEMPLATE("rule 5: a mistake of another thread that comes too late is no error of the next execution", Flow,
                   STEPS_FLOWS) {
  steps::AsyncTool tool;
  async::threadpool pool(1);
  const auto mistake = [](Flow& flow) { flow.execute(); };
  CHECK(result_after_late_call<Flow>(tool, mistake) == 2);
  CHECK(result_after_late_call<Flow>(pool, mistake) == 2);
}

TEST_CASE_TEMPLATE("rule 17: destroying a flow on another thread waits until the loop has cancelled it", Flow,
                   STEPS_FLOWS) {
  steps::AsyncTool tool;
  for (int round = 0; round < 50; ++round) {
    sign<> waits;
    bool cancelled = false;  // no atomic: the destructor's wait orders it
    {
      Flow flow{tool};
      flow.add([&](IAsyncSteps& asi) {
        asi.setCancel([&](IAsyncSteps&) { cancelled = true; });
        waits.promise.set_value();
      });
      flow.execute();
      if (round % 2 == 0) REQUIRE(waits.seen());
    }
    if (round % 2 == 0) CHECK(cancelled);
  }
}

TEST_CASE_TEMPLATE("rule 19: destroying the flow right after get() is safe", Flow, STEPS_FLOWS) {
  steps::AsyncTool tool;
  const std::size_t rounds = testing::rounds(2000);
  int sum = 0;
  for (std::size_t i = 0; i < rounds; ++i) {
    auto flow = std::make_unique<Flow>(tool);
    flow->add([](IAsyncSteps& asi) { asi.add([](IAsyncSteps& inner) { inner.success(1); }); });
    auto result = flow->template promise<int>();
    sum += result.get();
    flow.reset();
  }
  CHECK(sum == static_cast<int>(rounds));
}

TEST_CASE_TEMPLATE("rule 20: many threads end one wait, and one of them wins", Flow, STEPS_FLOWS) {
  steps::AsyncTool tool;
  Flow flow{tool};
  const int rounds = static_cast<int>(testing::rounds(200));
  for (int round = 0; round < rounds; ++round) {
    sign<steps::completion<int>> made;
    flow.add([&](IAsyncSteps& asi) { made.promise.set_value(asi.completion<int>()); });
    flow.add([](IAsyncSteps& asi, int n) { asi.success(n); });
    auto result = flow.template promise<int>();
    REQUIRE(made.seen());
    const auto token = made.future.get();
    std::atomic<int> winner{-1};
    std::atomic<int> wins{0};
    std::thread threads[3];
    for (int i = 0; i < 3; ++i) {
      threads[i] = std::thread([&, i, mine = token] {
        if (!mine.success(i)) return;
        winner = i;
        ++wins;
      });
    }
    for (auto& thread : threads) thread.join();
    CHECK(wins == 1);
    CHECK(result.get() == winner);
    CHECK(!token.success(9));
  }
}

TEST_CASE_TEMPLATE("rule 21: success() and error() of another thread do not wait for the loop", Flow, STEPS_FLOWS) {
  for (const bool fails : {false, true}) {
    steps::AsyncTool tool;
    sign<IAsyncSteps*> waits;
    sign<> called;
    sign<> busy;
    bool returned = false;
    Flow flow{tool};
    flow.add([&](IAsyncSteps& asi) {
      asi.waitExternal();
      waits.promise.set_value(&asi);
    });
    flow.add([](IAsyncSteps& asi, int n) { asi.success(n); });
    auto result = flow.template promise<int>();
    REQUIRE(waits.seen());
    tool.post([&] {  // keeps the loop's thread busy until the call has returned
      busy.promise.set_value();
      returned = called.seen();
    });
    REQUIRE(busy.seen());
    IAsyncSteps& waiting = *waits.future.get();
    if (fails) {
      waiting.errorNoThrow("Outside", "the info");
    } else {
      waiting.success(5);
    }
    called.promise.set_value();
    if (fails) {
      CHECK_THROWS_WITH_AS(result.get(), "Outside", steps::Error);
    } else {
      CHECK(result.get() == 5);
    }
    CHECK(returned);
  }
}

TEST_CASE_TEMPLATE("rule 21: two loops whose steps end each other's waits do not block each other", Flow, STEPS_FLOWS) {
  steps::AsyncTool one;
  steps::AsyncTool two;
  const int rounds = static_cast<int>(testing::rounds(200));
  for (int round = 0; round < rounds; ++round) {
    sign<IAsyncSteps*> waits[2];
    Flow first{one};
    Flow second{two};
    Flow* const flows[] = {&first, &second};
    std::future<void> results[2];
    for (int i = 0; i < 2; ++i) {
      flows[i]->add([&, i](IAsyncSteps& asi) {
        asi.waitExternal();
        waits[i].promise.set_value(&asi);
      });
      results[i] = flows[i]->promise();
    }
    REQUIRE(waits[0].seen());
    REQUIRE(waits[1].seen());
    one.post([step = waits[1].future.get()] { step->success(); });
    two.post([step = waits[0].future.get()] { step->success(); });
    for (auto& result : results) {
      REQUIRE(result.wait_for(60s) == std::future_status::ready);
      result.get();
    }
  }
}

TEST_CASE_TEMPLATE("rule 32: flows of two loops pass one mutex in turn, each on its own loop", Flow, STEPS_FLOWS) {
  steps::AsyncTool tools[2];
  steps::Mutex mutex;
  int inside = 0;  // no atomic: the mutex orders it
  std::atomic<int> strangers{0};
  constexpr int flows = 4;
  const std::size_t rounds = testing::rounds(300);
  {
    std::unique_ptr<Flow> all[flows];
    std::future<void> results[flows];
    for (int i = 0; i < flows; ++i) {
      auto& tool = tools[i % 2];
      all[i] = std::make_unique<Flow>(tool);
      all[i]->repeat(rounds, [&](IAsyncSteps& asi, std::size_t) {
        asi.sync(mutex, [&](IAsyncSteps& in) {
          if (!tool.is_same_thread()) ++strangers;
          const int seen = inside++;
          in.relinquish();
          in.add([&, seen](IAsyncSteps&) { inside = seen + 1; });
        });
      });
      results[i] = all[i]->promise();
    }
    for (auto& result : results) {
      REQUIRE(result.wait_for(60s) == std::future_status::ready);
      result.get();
    }
  }
  CHECK(inside == static_cast<int>(rounds) * flows);
  CHECK(strangers == 0);
}

TEST_CASE_TEMPLATE("rule 20: a step that ends while a token fails to store its result is not waited for any more", Flow,
                   STEPS_FLOWS) {
  struct refusing {
    explicit refusing(IAsyncSteps* f) {
      if (f == nullptr) return;
      f->cancel();
      throw steps::Error("Refused", "");
    }
    refusing(refusing&&) noexcept = default;
  };
  testing::bench b;
  Flow flow{b.loop};
  steps::completion<refusing> token;
  flow.add([&](IAsyncSteps& asi) { token = asi.completion<refusing>(); });
  flow.execute();
  b.drain();
  CHECK(token);
  CHECK_THROWS_AS(token.success(&flow), steps::Error);
  CHECK_FALSE(token);
  CHECK_FALSE(token.success(nullptr));
  CHECK_FALSE(token.error("E"));
}

TEST_CASE_TEMPLATE("rules 2, 20: a step with sub-steps does not wait for its completion(), of which calls are late",
                   Flow, STEPS_FLOWS) {
  for (const bool gives_way : {false, true}) {
    testing::bench b;
    Flow flow{b.loop};
    steps::completion<int> outer;
    steps::completion<int> inner;
    flow.add([&](IAsyncSteps& asi) {
      asi.setTimeout(1s);
      outer = asi.completion<int>();
      if (gives_way) asi.add([](IAsyncSteps&) {}).relinquish();
      asi.add([&](IAsyncSteps& step) { inner = step.completion<int>(); });
    });
    int result = 0;
    flow.add([&](IAsyncSteps&, int x) { result = x; });
    flow.execute();
    b.drain();
    CHECK_FALSE(static_cast<bool>(outer));
    CHECK_FALSE(outer.success(1));
    CHECK_FALSE(outer.error("E"));
    CHECK(inner.success(2));
    b.drain();
    CHECK(result == 2);
    CHECK(b.unhandled.empty());
  }
}
