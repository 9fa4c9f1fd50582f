// SPDX-License-Identifier: BSL-1.0
//
// Waits across pools, in callbacks of loops, in loop bodies on threads outside, and during destructors.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "async/async.hpp"
#include "steps/asyncsteps.hpp"
#include "steps/spawn.hpp"
#include "support/ends_with_this_pool.hpp"
#include "support/occupied.hpp"
#include "support/scale.hpp"
#include "support/timer_step.hpp"

using async::task_group;
using async::threadpool;
using namespace std::chrono_literals;

TEST_CASE("tasks of two pools of one thread wait for each other's tasks, back and forth") {
  threadpool a(1);
  threadpool b(1);
  const auto to_and_fro = [&] {
    auto there = b.post([&] {
      auto back = a.post([] { return 1; });
      return b.wait(back) + 1;
    });
    return a.wait(there) + 1;
  };
  CHECK(a.post(to_and_fro).get() == 3);
#if ASYNCSTEPS_CALL_STATE == 1  // otherwise get() of post()'s futures blocks the thread, see call_state.hpp
  CHECK(a.post([&] { return b.post([&] { return a.post([] { return 7; }).get(); }).get(); }).get() == 7);
#endif
}

TEST_CASE("a task waits for a call on the shared pool that waits for what the task has posted") {
  threadpool pool(1);
  const int result = pool.post([&] {
                           std::promise<int> promise;
                           auto future = promise.get_future();
                           pool.execute([&promise] { promise.set_value(5); });
                           auto call = async::async([&future] { return future.get(); });
                           return pool.wait(call);
                         })
                         .get();
  CHECK(result == 5);
}

TEST_CASE("a worker that waits for a group of another pool gets a stand-in in its own pool") {
  threadpool a(1);
  threadpool b(1);
  a.post([&] {
     task_group group(b);
     std::promise<void> taken;
     group.run([&] {
       taken.set_value();
       a.post([] {}).get();
     });
     taken.get_future().wait();  // the thread of b has taken it
     group.wait();
   }).get();
}

TEST_CASE("a worker that waits for a group of another pool turns the loops of its own, with their timers") {
  threadpool a(1);
  threadpool b(1);
  auto waits = a.post([&] {
    task_group group(b);
    std::promise<void> taken;
    group.run([&] {
      taken.set_value();
      steps::post(a, [](steps::IAsyncSteps& asi) {
        asi.relinquish();
        testing::add_timer(asi, 1ms);
      }).get();
    });
    taken.get_future().wait();  // the thread of b has taken it
    group.wait();
  });
  CHECK(testing::ends_with_this_pool(a, [&waits] { waits.get(); }));
}

TEST_CASE("a worker that blocks or polls in a group of another pool gets a stand-in, and turns its own loops") {
  bool polls = false;
  SUBCASE("blocks") { polls = false; }
  SUBCASE("polls") { polls = true; }
  threadpool a(1);
  threadpool b(1);
  std::promise<void> begun;
  async::promise<void> by_task;
  async::event by_loop;
  auto waits = a.post([&] {
    task_group group(b);
    group.run_and_wait([&] {
      begun.set_value();
      if (!polls) return by_loop.wait();
      async::future<void> awaited = by_task.get_future();
      while (awaited.wait_for(0ms) != std::future_status::ready) {
      }
    });
  });
  begun.get_future().wait();
  a.execute([&] {
    by_task.set_value();
    a.loop(0).post([&by_loop] { by_loop.set(); });
  });
  CHECK(testing::ends_with_this_pool(a, [&waits] { waits.get(); }));
  a.wait_idle();
}

TEST_CASE("callbacks that run in a task's wait belong to no group, even if the task does") {
  threadpool pool(1);
  std::promise<void> cancelled;
  std::promise<void> done;
  std::atomic<bool> is_cancelling{true};
  std::atomic<int> calls{0};
  std::atomic<bool> is_complete{false};
  task_group group(pool);
  std::promise<void> begun;
  group.run([&] {
    begun.set_value();
    cancelled.get_future().wait();
    auto callback = done.get_future();
    pool.wait(callback);
    CHECK(async::current_group_is_cancelling());
  });
  begun.get_future().wait();
  group.cancel();
  pool.loop(0).post([&] {
    is_cancelling = async::current_group_is_cancelling();
    is_complete = async::parallel_for(pool, 0, 100, [&calls](int) { ++calls; });
    done.set_value();
  });
  cancelled.set_value();
  static_cast<void>(group.wait());
  CHECK_FALSE(is_cancelling);
  CHECK(is_complete);
  CHECK(calls == 100);
}

TEST_CASE("the body of a loop on a thread outside is inside the pool, and can wait there with a lock held") {
  threadpool pool(2);
  CHECK(threadpool::current() == nullptr);
  std::mutex mutex;
  std::atomic<int> elsewhere{0};
  int sum = 0;
  async::parallel_for(
      pool, 0, 50,
      [&](int i) {
        const std::lock_guard lock(mutex);
        if (threadpool::current() != &pool) ++elsewhere;
        auto result = pool.post([i] { return i; });
        sum += pool.wait(result);
      },
      1);
  CHECK(sum == 1225);
  CHECK(elsewhere == 0);
  CHECK(threadpool::current() == nullptr);
}

TEST_CASE("a body of a loop waits with a lock held: no task runs in it that another loop's body has posted there") {
  for (const bool from_outside : {true, false}) {
    CAPTURE(from_outside);
    threadpool pool(1);
    threadpool other(1);
    std::optional<testing::occupied> worker(std::in_place, other, 1);
    const auto do_here = [&](auto work) { from_outside ? work() : pool.post(work).get(); };
    std::atomic<bool> is_locked = false;
    std::atomic<bool> was_met = false;
    do_here(
        [&] { async::parallel_for(other, 0, 1, [&](int) { other.execute([&] { was_met = is_locked.load(); }); }); });
    async::promise<void> promise;
    std::thread fulfils([&] {
      std::this_thread::sleep_for(30ms);
      promise.set_value();
    });
    do_here([&] {
      async::parallel_for(other, 0, 1, [&](int) {
        is_locked = true;
        promise.get_future().get();
        is_locked = false;
      });
    });
    fulfils.join();
    worker.reset();
    other.wait_idle();
    CHECK_FALSE(was_met);
  }
}

TEST_CASE("on a paused pool the body of a loop waits for a task that it posts") {
  threadpool pool(0);
  int sum = 0;
  async::parallel_for(pool, 0, 10, [&](int i) {
    auto result = pool.post([i] { return i; });
    sum += pool.wait(result);
  });
  CHECK(sum == 45);
}

TEST_CASE("on a stopped pool the thread outside makes all calls of a loop, and runs what they post") {
  threadpool pool(2);
  pool.stop();
  int calls = 0;
  std::atomic<int> posted{0};
  async::parallel_for(pool, 0, 10, [&](int) {
    ++calls;
    pool.execute([&posted] { ++posted; });
    auto result = pool.post([] { return 1; });
    CHECK(pool.wait(result) == 1);
  });
  CHECK(calls == 10);
  CHECK(posted == 10);
}

TEST_CASE("threads that fork in many pools in turn use the same deque in a pool each time") {
  std::vector<std::unique_ptr<threadpool>> pools;
  for (int i = 0; i < 8; ++i) pools.push_back(std::make_unique<threadpool>(0));
  std::vector<std::unique_ptr<task_group>> groups;
  for (const auto& pool : pools) groups.push_back(std::make_unique<task_group>(*pool));
  std::vector<int> ran(pools.size());
  const auto begin = std::chrono::steady_clock::now();
  for (std::size_t round = 0; round < 5'000; ++round) {
    for (std::size_t i = 0; i < 3; ++i) groups[i]->run([&ran, i] { ++ran[i]; });
  }
  for (std::size_t i = 3; i < pools.size(); ++i) {
    async::parallel_invoke(
        *pools[i], [&] { ++ran[i]; }, [&] { async::parallel_for(*pools[0], 0, 3, [&ran, i](int) { ++ran[i]; }); });
  }
  for (const auto& group : groups) group->wait();
  CHECK(ran == std::vector<int>{5'000, 5'000, 5'000, 4, 4, 4, 4, 4});
  CHECK(std::chrono::steady_clock::now() - begin < 20s);  // with a new place for each task it would take minutes
}

#if !ASYNCSTEPS_EMULATED_THREAD_LOCALS  // which are freed before their destructors run
TEST_CASE("threads with objects that fork in their destructors leave nothing in the pool") {
  threadpool pool(1);
  struct late {
    threadpool* where = nullptr;
    std::atomic<int>* ran = nullptr;
    ~late() {
      task_group group(*where);
      group.run([this] { ++*ran; });
      group.wait();
    }
  };
  std::atomic<int> ran{0};
  for (int i = 0; i < 100; ++i) {
    std::thread([&] {
      static thread_local late last;  // made before the thread's seat in the pool, so destroyed after it
      last.where = &pool;
      last.ran = &ran;
      async::parallel_invoke(pool, [&] { ++ran; }, [&] { ++ran; });
    }).join();
  }
  CHECK(ran == 300);
}
#endif

TEST_CASE("a task that runs during unwinding is not taken for a task that the exception leaves") {
  threadpool pool(0);
  task_group outer(pool);
  int ran = 0;
  struct waits {
    task_group& group;
    ~waits() { group.wait(); }
  };
  try {
    const waits at_end{outer};
    outer.run([&] {
      task_group inner(pool);
      inner.run([&ran] { ++ran; });
    });  // inner's destructor waits during the unwinding of the exception below
    throw std::runtime_error("on its way");
  } catch (const std::runtime_error&) {
  }
  CHECK(ran == 1);
}

TEST_CASE("cancel() concurrent with wait() leaves no group cancelled that wait() has reset") {
  threadpool pool(0);
  for (std::size_t i = 0; i < testing::rounds(3'000); ++i) {
    task_group group(pool);
    std::thread canceller([&group] { group.cancel(); });
    static_cast<void>(group.wait());
    canceller.join();
    while (!group.wait()) {
    }
    int ran = 0;
    CHECK(group.run_and_wait([&ran] { ++ran; }));
    REQUIRE(ran == 1);
  }
}

TEST_CASE("parallel_invoke calls nothing in a group that is already cancelled") {
  threadpool pool(1);
  task_group group(pool);
  int ran = 0;
  CHECK_FALSE(group.run_and_wait([&] {
    group.cancel();
    CHECK_FALSE(async::parallel_invoke(pool, [&ran] { ++ran; }, [&ran] { ++ran; }));
    CHECK_FALSE(async::parallel_invoke(pool, [&ran] { ++ran; }));
  }));
  CHECK(ran == 0);
}

TEST_CASE("a future outlives its pool, and is waited for by other threads and pools") {
  threadpool other(1);
  auto pool = std::make_unique<threadpool>(1);
  std::future<int> standard = pool->post([] { return 1; });
  std::future<int> joined = async::async([] { return 2; });
  async::future<int> own = pool->post([] { return 3; });
  standard.wait();
  own.wait();
  pool.reset();
  CHECK(other.post([&] { return other.wait(standard) + other.wait(joined) + other.wait(own); }).get() == 6);
}

TEST_CASE("a pool has ended whose call has returned a future, and a thread outside waits for it") {
  async::promise<int> late;
  async::promise<void> start;
  auto pool = std::make_unique<threadpool>(1);
  async::future<int> result =
      start.get_future().then(*pool, [&late](async::future<void>) { return late.get_future(); });
  start.set_value();
  pool.reset();
  std::thread maker([&late] {
    std::this_thread::yield();
    late.set_value(7);
  });
  result.wait();
  maker.join();
  CHECK(result.get() == 7);
}

TEST_CASE("a pool ends while threads outside wait for its calls") {
  for (std::size_t i = 0; i < testing::rounds(1'000); ++i) {
    auto pool = std::make_unique<threadpool>(1);
    async::future<int> own = pool->post([] { return 1; });
    std::future<int> standard = pool->post([] { return 2; });
    auto flow = std::make_unique<steps::AsyncSteps>(*pool);
    flow->add([](steps::IAsyncSteps& asi) { asi.waitExternal(); });
    flow->execute();
    int sum = 0;
    std::thread first([&] { sum += own.get(); });
    std::thread second([&standard] { standard.wait(); });
    std::thread third([&flow] { flow.reset(); });
    pool.reset();
    first.join();
    second.join();
    third.join();
    REQUIRE(sum + standard.get() == 3);
  }
}
