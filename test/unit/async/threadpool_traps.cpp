// SPDX-License-Identifier: BSL-1.0
//
// Known errors of thread pools, one test for each. More of them are in threadpool.cpp, task_group_waiting.cpp and
// async.cpp.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "async/task_group.hpp"
#include "async/threadpool.hpp"
#include "support/occupied.hpp"
#include "support/process_cpu_time.hpp"
#include "support/scale.hpp"

using async::task_group;
using async::threadpool;
using async::threadpool_options;
using namespace std::chrono_literals;

TEST_CASE("a post while a worker is being removed is run at once [trap: the removed worker swallows the wake-up]") {
  threadpool pool(2);
  for (std::size_t i = 0; i < 1000 * testing::scale(); ++i) {
    std::thread shrinks([&pool] { pool.configurepool(1); });
    auto ran = pool.post([] {});
    REQUIRE(ran.wait_for(60s) == std::future_status::ready);
    shrinks.join();
    pool.configurepool(2);
  }
}

TEST_CASE("every started thread has ended when the pool is destroyed [trap: detached threads]") {
  std::atomic<int> started{0};
  std::atomic<int> ended{0};
  {
    threadpool_options options;
    options.threads = 3;
    options.on_thread_start = [&](std::size_t) { ++started; };
    options.on_thread_stop = [&](std::size_t) { ++ended; };
    threadpool pool(std::move(options));
    for (std::size_t i = 0; i < 200; ++i) {
      pool.configurepool(i % 5);
      pool.execute([] {});
    }
  }
  CHECK(started >= 3);
  CHECK(started == ended);
}

TEST_CASE("resizing up and down while the workers are busy starts no more threads than the largest size") {
  std::atomic<int> started{0};
  threadpool_options options;
  options.threads = 2;
  options.on_thread_start = [&](std::size_t) { ++started; };
  threadpool pool(std::move(options));
  {
    const testing::occupied busy(pool, 2);
    for (int i = 0; i < 100; ++i) {
      pool.configurepool(0);
      pool.configurepool(2);
    }
    CHECK(pool.size() == 2);
  }
  CHECK(pool.post([] { return 1; }).get() == 1);
  CHECK(started == 2);
}

TEST_CASE("a paused pool with tasks uses no CPU [trap: it spins]") {
  threadpool pool(0);
  for (int i = 0; i < 100; ++i) pool.execute([] {});
  CHECK(testing::sleeps_for(200ms, 5ms));
}

TEST_CASE("workers without work sleep while another one works [trap: endless search with nothing to steal]") {
  threadpool pool(4);
  CHECK(pool.post([] { return testing::sleeps_for(500ms, 10ms); }).get());
}

TEST_CASE("the captures of all tasks are destroyed when the pool is idle [trap: the worker keeps its last task]") {
  threadpool pool(2);
  const auto token = std::make_shared<int>(0);
  for (int i = 0; i < 100; ++i) {
    pool.execute([token] {});
    pool.execute([&pool, token] { pool.execute([token] {}); });
    pool.wait_idle();
    REQUIRE(token.use_count() == 1);
  }
}

TEST_CASE("a resize to a smaller pool and back wakes the needed workers [trap: a resize without a wake-up]") {
  threadpool pool(0);
  for (std::size_t i = 0; i < 300 * testing::scale(); ++i) {
    auto ran = pool.post([] {});
    pool.configurepool(1 + i % 3);
    REQUIRE(ran.wait_for(60s) == std::future_status::ready);
    pool.configurepool(0);
  }
}

TEST_CASE("several waits inside tasks end, each as soon as its result is there [trap: only one is woken]") {
  threadpool pool(4);
  std::promise<int> outside[3];
  std::vector<std::future<int>> waits;
  for (std::promise<int>& p : outside) {
    waits.push_back(pool.post([&pool, f = p.get_future()]() mutable { return pool.wait(f); }));
  }
  for (int i = 2; i >= 0; --i) {
    CHECK(waits[static_cast<std::size_t>(i)].wait_for(5ms) == std::future_status::timeout);
    outside[i].set_value(i);
    CHECK(waits[static_cast<std::size_t>(i)].get() == i);
  }
}

TEST_CASE("a task that a waiting thread outside runs counts as the pool's") {
  std::mutex mutex;
  std::vector<std::string> unhandled;
  threadpool_options options;
  options.threads = 0;  // so that no other thread runs tasks
  options.max_queue = 2;
  options.on_unhandled = [&](std::exception_ptr e) {
    const std::lock_guard lock(mutex);
    try {
      std::rethrow_exception(e);
    } catch (const std::exception& error) {
      unhandled.push_back(error.what());
    }
  };
  threadpool pool(std::move(options));
  int ran = 0;
  task_group group(pool);
  group.run([&] {
    CHECK(threadpool::current() == &pool);
    CHECK_THROWS_AS(pool.stop(), std::system_error);
    CHECK_THROWS_AS(pool.wait_idle(), std::system_error);
    for (int i = 0; i < 10; ++i) pool.execute([&ran] { ++ran; });  // more than the queue holds: it must not block
    pool.execute([] { throw std::runtime_error("from outside"); });
    auto inner = pool.post([&pool] {
      auto deeper = pool.post([] { return 3; });
      return pool.wait(deeper);
    });
    CHECK(pool.wait(inner) == 3);
  });
  group.wait();
  pool.configurepool(1);
  pool.wait_idle();
  CHECK(ran == 10);
  CHECK(unhandled == std::vector<std::string>{"from outside"});
  CHECK(threadpool::current() == nullptr);
}

TEST_CASE("a stolen task's exception reaches the hook of its pool, also on a thread outside") {
  std::atomic<int> unhandled{0};
  threadpool_options options;
  options.threads = 1;
  options.on_unhandled = [&](std::exception_ptr) { ++unhandled; };
  threadpool pool(std::move(options));
  threadpool other(1);
  for (int i = 0; i < 200; ++i) {
    task_group group(pool);
    group.run([&] {
      for (int k = 0; k < 5; ++k) pool.execute([] { throw 1; });  // for others to steal from the worker's deque
      group.run([] {});
    });
    other.post([&group] { group.wait(); }).get();  // a worker of another pool helps
    group.wait();
  }
  pool.wait_idle();
  CHECK(unhandled == 1000);
}
