// SPDX-License-Identifier: BSL-1.0
//
// A waiting thread runs the awaited tasks itself, whatever other tasks are queued and however busy the pool is.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "async/async.hpp"
#include "steps/spawn.hpp"
#include "support/ends_with_this_pool.hpp"
#include "support/occupied.hpp"
#include "support/scale.hpp"
#include "support/timer_step.hpp"

using async::parallel_for;
using async::parallel_invoke;
using async::task_group;
using async::threadpool;
using testing::ends_with_this_pool;
using namespace std::chrono_literals;

TEST_CASE("tasks left by the first function do not hide the second one, whichever thread runs them") {
  threadpool paused(0);
  threadpool busy(1);
  const testing::occupied until(busy, 1);
  for (threadpool* const pool : {&paused, &busy}) {
    task_group group(*pool);
    std::atomic<int> done{0};
    std::thread::id caller;
    std::thread::id of_second;
    CHECK(ends_with_this_pool(*pool, [&] {
      caller = std::this_thread::get_id();
      parallel_invoke(*pool, [&] { group.run([&done] { ++done; }); }, [&] { of_second = std::this_thread::get_id(); });
      group.wait();
    }));
    CHECK(of_second == caller);
    CHECK(done == 1);
  }
}

TEST_CASE("the waiting thread calls the second function at once, although the first has left tasks") {
  threadpool pool(1);
  std::thread::id caller;
  std::thread::id of_second;
  std::atomic<int> executed{0};
  pool.post([&] {
        caller = std::this_thread::get_id();
        parallel_invoke(
            pool, [&] { pool.execute([&executed] { ++executed; }); }, [&] { of_second = std::this_thread::get_id(); });
      })
      .get();
  pool.wait_idle();
  CHECK(of_second == caller);
  CHECK(executed == 1);
}

TEST_CASE("a busy pool does not delay a loop whose body adds tasks to an outer group") {
  threadpool pool(1);
  const testing::occupied until(pool, 1);
  task_group group(pool);
  std::atomic<int> done{0};
  CHECK(ends_with_this_pool(pool, [&] {
    parallel_for(pool, 0, 100, [&](int) { group.run([&done] { ++done; }); }, 1);
    group.wait();
  }));
  CHECK(done == 100);
}

TEST_CASE("in a paused pool the wait for a group ends, although its tasks lie between others in the deque") {
  for (const int newer_tasks : {10, 64, 65, 1'000}) {
    CAPTURE(newer_tasks);
    threadpool pool(0);
    std::atomic<int> done{0};
    const auto one = [&done] { ++done; };
    CHECK(ends_with_this_pool(pool, [&] {
      task_group older(pool);
      task_group between(pool);
      task_group newer(pool);
      older.run(one);
      between.run(one);
      for (int i = 0; i < newer_tasks; ++i) newer.run(one);
      between.wait();
      older.wait();
      newer.wait();
    }));
    CHECK(done == newer_tasks + 2);
  }
}

TEST_CASE("a task that polls a future, and then waits for it, has a stand-in also when its wait has run a task") {
  threadpool pool(1);
  async::promise<int> promise;
  async::future<int> awaited = promise.get_future();
  std::promise<void> has_posted;
  std::promise<void> is_queued;
  CHECK(ends_with_this_pool(pool, [&] {
    auto waits = pool.post([&] {
      CHECK(awaited.wait_for(0ms) == std::future_status::timeout);
      auto own = pool.post([] {});
      has_posted.set_value();
      is_queued.get_future().wait();
      return awaited.get();
    });
    has_posted.get_future().wait();
    pool.execute([&promise] { promise.set_value(42); });
    is_queued.set_value();
    CHECK(waits.get() == 42);
  }));
}

TEST_CASE("a task that polls for a flow of its own pool does not keep the pool's only thread from it") {
  for (const std::chrono::microseconds limit : {0us, 20us, 1000us}) {
    CAPTURE(limit.count());
    threadpool pool(1);
    CHECK(ends_with_this_pool(pool, [&] {
      pool.post([&] {
            auto flow = steps::post(pool, [](steps::IAsyncSteps& asi) {
              asi.relinquish();
              testing::add_timer(asi, 1ms);
            });
            while (flow.wait_for(limit) != std::future_status::ready) {
            }
          })
          .get();
    }));
  }
}

TEST_CASE("nested waits of tasks posted with execute: each wait ends, and runs what its task has made") {
  for (const std::size_t threads : {1U, 2U}) {
    threadpool pool(threads);
    for (std::size_t round = 0; round < testing::rounds(100); ++round) {
      std::atomic<int> executed{0};
      const std::function<void(int)> descend = [&](int depth) {
        if (depth == 0) return;
        const auto set = std::make_shared<std::promise<void>>();
        std::future<void> is_set = set->get_future();
        for (int i = 0; i < 3; ++i) pool.execute([&executed] { ++executed; });
        task_group group(pool);
        group.run([&, depth] { descend(depth - 1); });
        group.wait();
        pool.execute([set] { set->set_value(); });
        pool.wait(is_set);
      };
      pool.post([&] { descend(20); }).get();
      pool.wait_idle();
      REQUIRE(executed == 20 * 3);
    }
  }
}

TEST_CASE("a task's wait for a continuation goes on for another one of the same result, which needs the pool") {
  threadpool pool(1);
  for (std::size_t round = testing::rounds(100); round != 0; --round) {
    async::promise<int> source;
    const async::shared_future<int> first =
        source.get_future().then([](async::future<int> f) { return f.get(); }).share();
    async::future<int> other =
        first.then([&pool](const async::shared_future<int>& f) { return pool.post([] { return 1; }).get() + f.get(); });
    std::atomic<bool> is_waiting{false};
    auto task = pool.post([&is_waiting, first] {
      is_waiting = true;
      first.wait();
    });
    while (!is_waiting) std::this_thread::yield();
    std::this_thread::yield();
    std::thread([&source] { source.set_value(1); }).join();
    CHECK(other.get() == 2);
    task.get();
  }
}

TEST_CASE("a task waits for a long chain of continuations in its pool") {
  threadpool pool(2);
  async::promise<int> source;
  async::future<int> last = source.get_future();
  const auto links = static_cast<int>(testing::rounds(20'000));
  for (int i = 0; i < links; ++i) {
    last = std::move(last).then(pool, [](async::future<int> f) { return f.get() + 1; });
  }
  std::atomic<bool> is_waiting{false};
  auto task = pool.post([&] {
    is_waiting = true;
    return last.get();
  });
  while (!is_waiting) std::this_thread::yield();
  source.set_value(0);
  CHECK(task.get() == links);
}

TEST_CASE("a task makes a long chain of continuations in a time that grows as its length") {
  threadpool pool(1);
  const auto links = static_cast<int>(testing::rounds(200'000));  // minutes if it searched for each
  const int sum = pool.post([&pool, links] {
                        async::future<int> last = pool.post([] { return 0; });
                        for (int i = 0; i < links; ++i) {
                          last = std::move(last).then(pool, [](async::future<int> f) { return f.get() + 1; });
                        }
                        return last.get();
                      })
                      .get();
  CHECK(sum == links);
}
