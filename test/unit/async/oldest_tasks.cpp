// SPDX-License-Identifier: BSL-1.0
//
// A task that posts itself again for ever keeps no other task of its pool waiting for ever.
#include <doctest/doctest.h>

#include <algorithm>   // for max
#include <atomic>      // for atomic
#include <chrono>      // for steady_clock, seconds, milliseconds, microseconds
#include <functional>  // for function, cref
#include <thread>      // for yield, sleep_for

#include "async/event.hpp"
#include "async/future.hpp"
#include "async/task_group.hpp"
#include "async/threadpool.hpp"

using async::task_group;
using async::threadpool;

namespace {

/// Posts itself again until `count` reaches `wanted`; fails after 20 s.
struct endless {
  threadpool* pool;
  const std::atomic<int>* count;
  int wanted;
  std::chrono::steady_clock::time_point latest = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  void operator()() const {
    if (*count >= wanted) return;
    if (std::chrono::steady_clock::now() < latest) return pool->execute(endless(*this));
    CHECK(*count >= wanted);
  }
};

}  // namespace

TEST_CASE("older tasks of the same worker run beside a task that posts itself again") {
  threadpool pool(1);
  std::atomic<int> ran{0};
  async::future<int> result;
  pool.post([&] {
        for (int i = 0; i < 100; ++i) pool.execute([&ran] { ++ran; });
        result = pool.post([&ran] { return ++ran; });
        pool.execute(endless{&pool, &ran, 101});
      })
      .get();
  pool.wait_idle();
  CHECK(ran == 101);
  CHECK(result.is_ready());
}

TEST_CASE("so do tasks that a thread outside the pool has forked") {
  threadpool pool(1);
  std::atomic<int> ran{0};
  task_group group(pool);
  for (int i = 0; i < 3; ++i) {
    pool.execute(endless{&pool, &ran, i + 1});
    group.run([&ran] { ++ran; });
    pool.wait_idle();
    CHECK(ran == i + 1);
  }
  CHECK(group.wait());
}

TEST_CASE("so do tasks of a stand-in, and tasks that wait for it in the queue from outside") {
  threadpool pool(1);
  std::atomic<int> ran{0};
  async::event is_waiting;
  async::promise<void> promise;
  pool.execute([&, awaited = promise.get_future()]() mutable {
    is_waiting.set();
    awaited.get();
  });
  is_waiting.wait();
  async::event is_working;
  pool.execute([&] {
    is_working.set();
    pool.execute([&ran] { ++ran; });
    pool.execute(endless{&pool, &ran, 2});
  });
  is_working.wait();
  pool.execute([&ran] { ++ran; });
  const auto latest = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (ran < 2 && std::chrono::steady_clock::now() < latest) std::this_thread::yield();
  CHECK(ran == 2);
  promise.set_value();
  pool.wait_idle();
}

TEST_CASE("a task of a worker that blocks runs soon beside long tasks from outside") {
  int between = 0;  // long tasks from outside that ran before it
  std::atomic<bool> done{false};
  std::atomic<int> outside{0};
  threadpool pool(2);
  std::atomic<bool> is_posted{false};
  pool.execute([&] {  // keeps the other worker until all is posted
    while (!is_posted) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  async::event is_blocked;
  pool.execute([&] {
    pool.execute([&] {
      between = outside;
      done = true;
    });
    is_blocked.set();
    while (!done && outside != 400) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  is_blocked.wait();
  for (int i = 0; i < 400; ++i) {
    pool.execute([&] {
      if (!done) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      ++outside;
    });
  }
  is_posted = true;
  pool.wait_idle();
  CHECK(done);
  CHECK(between < 16);
}

TEST_CASE("older tasks keep pace beside a loop that is always busy, and long tasks") {
  int older = 0;  // one thread's, like all of these
  int newer = 0;
  std::function<void()> chain, turn;
  threadpool pool(1);
  chain = [&] {
    ++newer;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (older != 100 && newer != 2'000) pool.execute(std::cref(chain));
  };
  turn = [&] {
    if (older != 100 && newer != 2'000) pool.loop(0).immediate(std::cref(turn));
  };
  pool.execute([&] {
    for (int i = 0; i < 100; ++i) {
      pool.execute([&older] {
        ++older;
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      });
    }
    pool.execute(std::cref(chain));
    pool.loop(0).immediate(std::cref(turn));
  });
  pool.wait_idle();
  CHECK(older == 100);
  CHECK(newer < 1'000);
}

TEST_CASE("tasks from outside run soon beside tasks of high priority and tasks that post themselves") {
  std::atomic<int> high{0}, ran{0};
  int most_between = 0;
  std::function<void()> first, newer;
  threadpool pool(1);
  first = [&] {
    ++high;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (ran != 5 && high != 5'000) pool.execute(async::priority::high, std::cref(first));
  };
  newer = [&] {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    if (ran != 5 && high != 5'000) pool.execute(std::cref(newer));
  };
  pool.execute([&] {
    pool.execute(async::priority::high, std::cref(first));
    for (int i = 0; i < 2; ++i) pool.execute(std::cref(newer));
  });
  for (int i = 0; i < 5; ++i) {
    const int before = high;
    pool.post([&] {
          ++ran;
          most_between = std::max(most_between, high - before);
        })
        .get();
  }
  pool.wait_idle();
  CHECK(ran == 5);
  CHECK(most_between < 150);
}

TEST_CASE("a task pauses the pool: its worker begins no other one, also where it runs the oldest ones in a row") {
  for (int pausing = 40; pausing != 120; pausing += 4) {
    CAPTURE(pausing);
    threadpool pool(0);
    std::atomic<int> begun{0};
    for (int i = 0; i != 140; ++i) {
      pool.execute([&] {
        const bool pauses = ++begun == pausing;
        std::this_thread::sleep_for(std::chrono::microseconds(300));
        if (pauses) pool.configurepool(0);
      });
    }
    pool.configurepool(1);
    const auto latest = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (pool.size() != 0 && std::chrono::steady_clock::now() < latest) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    pool.stop(async::discard);
    CHECK(begun == pausing);
  }
}
