// SPDX-License-Identifier: BSL-1.0
//
// Flows of a pool that are executed again: they have a loop of their own then, too.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "async/errors.hpp"
#include "async/parallel_for.hpp"
#include "async/select.hpp"
#include "async/threadpool.hpp"
#include "steps/spawn.hpp"
#include "steps/steps.hpp"

using async::event_loop;
using async::threadpool;
using steps::AsyncSteps;
using steps::IAsyncSteps;
using namespace std::chrono_literals;

TEST_CASE("a flow that is executed again does not wait for a worker that is inside a task") {
  threadpool pool(2);
  AsyncSteps flow(pool);
  flow.add([](IAsyncSteps&) {});
  flow.promise().get();
  std::promise<void> is_inside, may_end;
  auto blocked = pool.post([&] {
    is_inside.set_value();
    may_end.get_future().wait();
  });
  is_inside.get_future().wait();
  bool all_ended = true;
  for (int i = 0; all_ended && i < 50; ++i) {
    flow.add([](IAsyncSteps&) {});
    auto end = flow.promise();
    all_ended = end.wait_for(20s) == std::future_status::ready;
    if (!all_ended) may_end.set_value();
    end.wait();
  }
  CHECK(all_ended);
  if (all_ended) may_end.set_value();
  blocked.get();
}

TEST_CASE("a task that waits for a flow runs also its next execution, on the only worker") {
  threadpool pool(1);
  AsyncSteps flow(pool);
  auto task = pool.post([&] {
    for (int i = 0; i < 10; ++i) {
      flow.add([](IAsyncSteps&) {});
      pool.wait(flow.promise());
    }
  });
  REQUIRE(task.wait_for(20s) == std::future_status::ready);
}

TEST_CASE("a flow that is executed again shares its loop with no flow that has started meanwhile") {
  threadpool pool(2);
  std::vector<std::unique_ptr<AsyncSteps>> flows;
  std::vector<event_loop*> first;
  const auto loop_of = [](AsyncSteps& flow) {
    event_loop* found = nullptr;
    flow.add([&found](IAsyncSteps& asi) { found = &asi.tool(); });
    flow.promise().get();
    return found;
  };
  for (int i = 0; i < 300; ++i) {  // more than there are before the pool reviews its loops
    flows.push_back(std::make_unique<AsyncSteps>(pool));
    event_loop* const loop = loop_of(*flows.back());
    for (event_loop* const other : first) REQUIRE(loop != other);
    first.push_back(loop);
  }
  for (std::size_t i = 0; i < flows.size(); ++i) REQUIRE(loop_of(*flows[i]) == first[i]);
}

TEST_CASE("loops of flows that have been destroyed serve later ones") {
  threadpool pool(2);
  std::vector<event_loop*> seen;
  for (int i = 0; i < 3000; ++i) {
    AsyncSteps flow(pool);
    flow.add([&seen](IAsyncSteps& asi) {
      for (event_loop* const loop : seen) {
        if (loop == &asi.tool()) return;
      }
      seen.push_back(&asi.tool());
    });
    flow.promise().get();
  }
  CHECK(seen.size() <= 300);
}

TEST_CASE("a loop serves later flows although callbacks come to it late") {
  threadpool pool(2);
  std::vector<event_loop*> seen;
  for (int i = 0; i < 10'000; ++i) {
    event_loop* loop = nullptr;
    steps::post(pool, [&loop](IAsyncSteps& asi) { loop = &asi.tool(); }).get();
    loop->post([] {});
    if (std::find(seen.begin(), seen.end(), loop) == seen.end()) seen.push_back(loop);
  }
  CHECK(seen.size() <= 200);
}

TEST_CASE("stop() ends flows that never wait after 100 ms, on whichever workers they run") {
  for (const std::size_t flows : {1U, 2U, 5U}) {
    threadpool pool(4);
    std::vector<std::future<void>> ends;
    std::vector<std::chrono::steady_clock::time_point> cancelled(flows);
    for (std::size_t i = 0; i < flows; ++i) {
      ends.push_back(steps::post(pool, [&at = cancelled[i]](IAsyncSteps& asi) {
        asi.setCancel([&at](IAsyncSteps&) { at = std::chrono::steady_clock::now(); });
        asi.loop([](IAsyncSteps& s) { s.relinquish(); });
      }));
    }
    const auto begin = std::chrono::steady_clock::now();
    auto stop = std::async(std::launch::async, [&pool] { pool.stop(); });
    REQUIRE(stop.wait_for(20s) == std::future_status::ready);
    for (auto& end : ends) CHECK_THROWS_AS(end.get(), std::future_error);
    for (const auto at : cancelled) {
      if (at != std::chrono::steady_clock::time_point()) CHECK(at - begin >= 100ms);  // else stopped before its start
    }
  }
}

TEST_CASE("stop() ends flows that call their pool again and again") {
  enum class call { by_await, by_post, that_posts, that_splits, that_takes_long };  // long: the lookout turns timers
  for (const call how : {call::by_await, call::by_post, call::that_posts, call::that_splits, call::that_takes_long}) {
    CAPTURE(static_cast<int>(how));
    const bool is_long = how == call::that_takes_long;
    auto pool = std::make_unique<threadpool>(2);
    std::atomic<std::size_t> calls{0};
    const auto work = [&pool = *pool, &calls, how, is_long] {
      const auto end = std::chrono::steady_clock::now() + (is_long ? 30ms : 100us);
      while (std::chrono::steady_clock::now() < end) {
      }
      if (how == call::that_posts) pool.post([] {}).get();
      if (how == call::that_splits) async::parallel_for(pool, 0, 100, [](int) {});
      ++calls;
    };
    std::vector<async::future<void>> ends;
    for (int i = is_long ? 6 : 50; i != 0; --i) {
      ends.push_back(steps::post(*pool, [&pool = *pool, work, how](IAsyncSteps& asi) {
        asi.loop([&pool, work, how](IAsyncSteps& round) {
          if (how == call::by_post) {
            round.add([&pool, work](IAsyncSteps& step) { step.await(pool.post(work)); });
          } else {
            round.await(pool, work);
          }
          round.select(async::after(1ms));
        });
      }));
    }
    while (calls < (is_long ? 10U : 1'000U)) std::this_thread::yield();
    auto stop = std::async(std::launch::async, [&pool] { pool->stop(); });
    REQUIRE(stop.wait_for(20s) == std::future_status::ready);
    for (auto& end : ends) CHECK_THROWS_AS(end.get(), async::dropped_call);
  }
}

TEST_CASE("stop() runs the tasks that were posted before it, and theirs, however often flows call the pool") {
  threadpool pool(2);
  std::atomic<std::size_t> calls{0};
  std::atomic<int> tasks{0};
  auto flow = steps::post(
      pool, [&](IAsyncSteps& asi) { asi.loop([&](IAsyncSteps& round) { round.await(pool, [&calls] { ++calls; }); }); });
  struct chain {
    threadpool& pool;
    std::atomic<int>& tasks;
    void operator()() const {
      std::this_thread::sleep_for(20ms);
      if (++tasks < 20) pool.execute(*this);
    }
  };
  auto answer = steps::post(pool, [](IAsyncSteps& asi) { asi.select(async::after(300ms)); });
  bool is_answered = false;
  while (calls == 0) std::this_thread::yield();
  pool.execute(chain{pool, tasks});
  pool.execute([&] {
    answer.get();
    is_answered = true;
  });
  pool.stop();
  CHECK(tasks == 20);
  CHECK(is_answered);
  CHECK_THROWS_AS(flow.get(), async::dropped_call);
}

TEST_CASE("tasks of a pool that stops are no flows' although they start flows") {
  threadpool pool(1);
  std::atomic<int> tasks{0};
  struct chain {
    threadpool& pool;
    std::atomic<int>& tasks;
    void operator()() const {
      steps::post(pool, [](IAsyncSteps&) {}).get();
      std::this_thread::sleep_for(10ms);
      if (++tasks < 40) pool.execute(*this);
    }
  };
  auto waits = steps::post(pool, [](IAsyncSteps& asi) { asi.loop([](IAsyncSteps& s) { s.relinquish(); }); });
  auto answer = steps::post(pool, [&tasks](IAsyncSteps& asi) {
    asi.loop([&tasks](IAsyncSteps& s) {
      if (tasks == 40) s.breakLoop();
      s.select(async::after(1ms));
    });
  });
  pool.execute(chain{pool, tasks});
  pool.stop();
  CHECK(tasks == 40);
  answer.get();
  CHECK_THROWS_AS(waits.get(), async::dropped_call);
}

TEST_CASE("stop() makes no call for which a cancelled flow has queued") {
  threadpool pool(1);
  std::atomic<int> calls{0};
  std::vector<async::future<void>> ends;
  for (int i = 0; i < 100; ++i) {
    ends.push_back(steps::post(pool, [&](IAsyncSteps& asi) {
      asi.loop([&](IAsyncSteps& round) {
        round.await(pool, [&calls] {
          std::this_thread::sleep_for(5ms);
          ++calls;
        });
      });
    }));
  }
  while (calls < 1) std::this_thread::yield();
  const int before = calls;
  pool.stop();
  CHECK(calls - before < 80);  // flows' own for 100 ms; nearly 100 others are queued then
  for (auto& end : ends) CHECK_THROWS_AS(end.get(), async::dropped_call);
}

TEST_CASE("stop() ends flows that go from branches to branches, beside flows that never wait") {
  enum class stops { runs_tasks, discards };
  for (const std::size_t workers : {1U, 2U}) {
    for (const stops how : {stops::runs_tasks, stops::discards}) {
      CAPTURE(workers);
      CAPTURE(static_cast<int>(how));
      threadpool pool(workers);
      std::atomic<int> rounds{0};
      auto branching = steps::post(pool, [&rounds](IAsyncSteps& asi) {
        asi.loop([&rounds](IAsyncSteps& round) {
          ++rounds;
          auto& both = round.parallel();
          for (int i = 0; i < 2; ++i) both.add([](IAsyncSteps&) {});
        });
      });
      auto other = steps::post(pool, [](IAsyncSteps& asi) { asi.loop([](IAsyncSteps& s) { s.relinquish(); }); });
      while (rounds < 1'000) std::this_thread::yield();
      auto stop = std::async(std::launch::async, [&pool, how] {
        if (how == stops::discards) {
          static_cast<void>(pool.stop(async::discard));
        } else {
          pool.stop();
        }
      });
      REQUIRE(stop.wait_for(20s) == std::future_status::ready);
      CHECK_THROWS_AS(branching.get(), async::dropped_call);
      CHECK_THROWS_AS(other.get(), async::dropped_call);
    }
  }
}
