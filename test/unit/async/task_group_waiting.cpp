// SPDX-License-Identifier: BSL-1.0
//
// Threads that wait for a task_group.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <set>
#include <string_view>
#include <thread>

#include "async/parallel_for.hpp"
#include "async/parallel_invoke.hpp"
#include "async/task_group.hpp"
#include "async/threadpool.hpp"
#include "support/occupied.hpp"
#include "support/process_cpu_time.hpp"

using async::task_group;
using async::threadpool;
using testing::occupied;
using namespace std::chrono_literals;

TEST_CASE("a thread outside runs tasks of the group while it waits [trap: it stalls when no other thread can]") {
  threadpool pool(2);
  const occupied busy(pool, 2);
  task_group group(pool);
  std::set<std::thread::id> threads;
  for (int i = 0; i < 100; ++i) group.run([&threads] { threads.insert(std::this_thread::get_id()); });
  group.wait();
  CHECK(threads == std::set<std::thread::id>{std::this_thread::get_id()});
}

TEST_CASE("a task of an awaited group can wait for another task of the pool, on one worker [trap: deadlock]") {
  threadpool pool(1);
  int result = 0;
  pool.post([&] {
        task_group group(pool);
        std::future<int> other = pool.post([] { return 5; });
        group.run([&] { result = pool.wait(other); });
        group.wait();
      })
      .get();
  CHECK(result == 5);
}

TEST_CASE("the pool runs tasks of a group before anything waits for it [trap: they stall]") {
  threadpool pool(1);
  task_group group(pool);
  std::promise<void> ran;
  group.run([&ran] { ran.set_value(); });
  CHECK(ran.get_future().wait_for(60s) == std::future_status::ready);
  group.wait();
}

TEST_CASE("what a worker runs after the last task of a group does not hold up a wait for it [trap: stalls]") {
  threadpool pool(1);
  for (const std::string_view next : {"a post", "a task of another group", "a loop's callback"}) {
    CAPTURE(next);
    task_group group(pool);
    task_group other(pool);
    std::promise<void> last_began;
    std::promise<void> has_waited;
    const auto is_in_time = std::make_shared<std::promise<bool>>();
    const auto block = [is_in_time, until = has_waited.get_future().share()] {
      is_in_time->set_value(until.wait_for(10s) == std::future_status::ready);
    };
    pool.post([&] {  // the worker takes its newest task first
          if (next == "a post") pool.execute(block);
          if (next == "a task of another group") other.run(block);
          group.run([&] {
            group.run([&] {
              if (next == "a loop's callback") pool.loop(0).post(block);
              last_began.set_value();
            });
          });
        })
        .get();
    last_began.get_future().wait();
    group.wait();  // nothing is left to run here
    has_waited.set_value();
    CHECK(is_in_time->get_future().get());
    other.wait();
  }
}

TEST_CASE("a wait ends although a thread that waits for the group, too, has gone on to a part of the group's loop") {
  threadpool pool(1);
  const occupied busy(pool, 1);
  task_group group(pool);
  std::promise<void> has_gone_on, has_waited;
  std::thread other([&] {
    has_gone_on.get_future().wait();
    group.wait();
    has_waited.set_value();
  });
  bool is_in_time = false;
  async::parallel_for(
      group, 0, 2,
      [&](int i) {
        if (i == 0) {
          group.run([] {});
          group.wait();
        } else {
          has_gone_on.set_value();
          is_in_time = has_waited.get_future().wait_for(10s) == std::future_status::ready;
        }
      },
      1U);
  other.join();
  CHECK(is_in_time);
}

TEST_CASE("a task has waited for others: no task that these have posted runs in its next wait, with a lock held") {
  threadpool pool(1);
  std::atomic<std::thread::id> has_lock{};
  std::atomic<bool> was_met = false;
  const auto look = [&] {  // a stand-in may run it meanwhile
    pool.execute([&] { was_met = has_lock.load() == std::this_thread::get_id(); });
  };
  const auto wait_with_lock = [&] {
    async::promise<int> promise;
    std::thread fulfils([&] {
      std::this_thread::sleep_for(20ms);
      promise.set_value(1);
    });
    has_lock = std::this_thread::get_id();
    static_cast<void>(promise.get_future().get());
    has_lock = std::thread::id{};
    fulfils.join();
  };
  SUBCASE("for one task of a group") {
    pool.post([&] {
          task_group group(pool);
          group.run(look);
          group.wait();
          wait_with_lock();
        })
        .get();
  }
  SUBCASE("for tasks of a group, which lie below what has been posted") {
    pool.post([&] {
          task_group group(pool);
          for (int i = 0; i != 10; ++i) group.run([] {});
          group.run(look);
          for (int i = 0; i != 10; ++i) group.run([] {});
          group.wait();
          wait_with_lock();
        })
        .get();
  }
  SUBCASE("for a task of a group that has posted before it adds another one") {
    pool.post([&] {
          task_group group(pool);
          group.run([] {});
          group.run([&] {
            look();
            group.run([] {});
          });
          group.wait();
          wait_with_lock();
        })
        .get();
  }
  SUBCASE("for a call") {
    pool.post([&] {
          pool.post(look).get();
          wait_with_lock();
        })
        .get();
  }
  pool.wait_idle();
  CHECK_FALSE(was_met);
}

TEST_CASE("a task has posted another one and waits for a group: its next wait runs what it has posted") {
  threadpool pool(0);
  bool is_done = false;
  async::parallel_for(pool, 0, 1, [&](int) {  // on a paused pool no other thread would run it
    async::promise<int> promise;
    async::future<int> future = promise.get_future();
    pool.execute([&] { promise.set_value(1); });
    task_group group(pool);
    group.run([&] { group.run([&] { group.run([] {}); }); });
    for (int i = 0; i != 10; ++i) group.run([] {});
    group.wait();
    is_done = future.get() == 1;
  });
  CHECK(is_done);
}

TEST_CASE("a task on a paused pool has waited for others: its next wait runs what it and these have posted") {
  threadpool pool(0);
  const auto wait_for_post = [&pool] {
    async::promise<void> promise;
    async::future<void> future = promise.get_future();
    pool.execute([&promise] { promise.set_value(); });
    future.get();
  };
  const auto leave_one = [&pool] { pool.execute([] {}); };
  bool is_done = false;
  task_group here(pool);
  SUBCASE("for a call, and for what that has posted") {
    here.run([&] {
      async::future<void> inner;
      pool.post([&] { inner = pool.post([] {}); }).get();
      inner.get();
      wait_for_post();
      is_done = true;
    });
  }
  SUBCASE("for a group that leaves a task, after it has posted one") {
    here.run([&] {
      async::promise<void> promise;
      async::future<void> future = promise.get_future();
      pool.execute([&promise] { promise.set_value(); });
      task_group group(pool);
      group.run(leave_one);
      group.wait();
      future.get();
      is_done = true;
    });
  }
  SUBCASE("for such a group, in the call beside it") {
    here.run([&] {
      async::parallel_invoke(
          pool,
          [&] {
            task_group group(pool);
            group.run(leave_one);
            group.wait();
          },
          wait_for_post);
      is_done = true;
    });
  }
  here.wait();
  CHECK(is_done);
}

TEST_CASE("a pool is paused: a wait in a group's task runs nothing of the task that waits for the group") {
  threadpool pool(1);
  std::promise<void> begun, paused;
  async::promise<void> promise;
  bool is_held = false, is_run = false, was_held = false;
  async::future<void> done = pool.post([&] {
    {
      async::task_group first(pool);  // leaves something above what this task posts
      first.run([&pool] { pool.execute([] {}); });
      first.wait();
    }
    begun.set_value();
    paused.get_future().wait();
    is_held = true;  // as a lock that the posted task takes
    pool.execute([&] {
      is_run = true;
      was_held = is_held;
    });
    async::task_group second(pool);
    second.run([other = promise.get_future()] {
      CHECK(other.wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout);
    });
    second.wait();
    is_held = false;
  });
  begun.get_future().wait();
  pool.configurepool(0);
  paused.set_value();
  done.get();
  pool.configurepool(1);
  pool.wait_idle();
  CHECK(is_run);
  CHECK(!was_held);
}

TEST_CASE("a thread that waits for a long task sleeps") {
  threadpool pool(2);
  for (const bool inside : {false, true}) {
    const auto body = [&] {
      task_group group(pool);
      std::promise<void> started;
      group.run([&started] {
        started.set_value();
        std::this_thread::sleep_for(300ms);
      });
      started.get_future().wait();
      const auto before = testing::process_cpu_time();
      group.wait();
      return testing::process_cpu_time() - before;
    };
    const std::chrono::nanoseconds used = inside ? pool.post(body).get() : body();
    CHECK(used < 60ms);
  }
}

TEST_CASE("a destructor that waits during unwinding: groups of tasks that run meanwhile skip nothing") {
  threadpool pool(1);
  int calls = 0;
  bool inner_is_skipped = false;
  std::future<void> outer = pool.post([&] {
    std::future<void> other = pool.post([&] {
      {
        task_group group(pool);
        for (int i = 0; i < 10; ++i) group.run([&calls] { ++calls; });
      }
      try {
        task_group group(pool);
        group.run([&inner_is_skipped] { inner_is_skipped = false; });
        inner_is_skipped = true;
        throw 2;
      } catch (int) {
      }
    });
    const struct waits {
      threadpool& pool;
      std::future<void>& other;
      ~waits() { pool.wait(other); }
    } at_end{pool, other};
    throw 1;
  });
  CHECK_THROWS_AS(outer.get(), int);
  CHECK(calls == 10);
  CHECK(inner_is_skipped);  // an exception has left its own scope
}
