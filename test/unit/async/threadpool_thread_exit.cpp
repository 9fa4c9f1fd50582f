// SPDX-License-Identifier: BSL-1.0
//
// Tasks that end their thread with pthread_exit(), which unwinds the stack like an exception that must not be stopped.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "async/blocking_pool.hpp"
#include "async/event_loop.hpp"
#include "async/parallel_invoke.hpp"
#include "async/task_group.hpp"
#include "async/threadpool.hpp"
#include "support/scale.hpp"
#include "support/thrown.hpp"

#if defined(__GLIBC__)
#include <pthread.h>

using async::event_loop;
using async::threadpool;
using testing::is_broken;
using namespace std::chrono_literals;

namespace {

[[noreturn]] void end_thread() { pthread_exit(nullptr); }

}  // namespace

TEST_CASE("a task with a future breaks its promise and destroys its captures; others run on a new thread") {
  threadpool pool(1);
  const auto token = std::make_shared<int>(0);
  for (std::size_t i = 0; i < testing::rounds(50); ++i) {
    CHECK(is_broken(pool.post([token]() -> int { end_thread(); })));
    CHECK(pool.post([] { return 7; }).get() == 7);
  }
  CHECK(token.use_count() == 1);
  CHECK(pool.size() == 1);
}

TEST_CASE("a task without a future ends; tasks that it has posted before run") {
  std::atomic<int> ran{0};
  {
    threadpool pool(2);
    for (int i = 0; i < 100; ++i) {
      pool.execute([&] {
        for (int j = 0; j < 10; ++j) pool.execute([&ran] { ++ran; });
        end_thread();
      });
    }
    pool.wait_idle();
    CHECK(ran == 1'000);
    pool.execute([] { end_thread(); });
  }
  CHECK(ran == 1'000);
}

TEST_CASE("a pool that ends while the thread of its only worker is replaced runs its tasks on the next one") {
  for (std::size_t i = 0; i < testing::rounds(300); ++i) {
    std::atomic<bool> has_begun{false};
    std::atomic<int> ran{0}, on_this_thread{0};
    {
      threadpool pool(1);
      pool.execute([&has_begun] {
        has_begun = true;
        end_thread();
      });
      pool.execute([] { end_thread(); });  // on this thread it would end the program
      for (int k = 0; k < 3; ++k) {
        pool.execute([&, here = std::this_thread::get_id()] {
          ++ran;
          if (std::this_thread::get_id() == here) ++on_this_thread;
        });
      }
      while (!has_begun) std::this_thread::yield();
    }
    CHECK(ran == 3);
    CHECK(on_this_thread == 0);
  }
}

TEST_CASE("hooks are called for each thread that ends and for its successor, with the same index") {
  std::atomic<int> started{0};
  std::atomic<int> stopped{0};
  {
    async::threadpool_options options;
    options.threads = 1;
    options.on_thread_start = [&](std::size_t index) { started += index == 0 ? 1 : 100; };
    options.on_thread_stop = [&](std::size_t index) { stopped += index == 0 ? 1 : 100; };
    threadpool pool(std::move(options));
    for (int i = 0; i < 10; ++i) CHECK(is_broken(pool.post([]() -> int { end_thread(); })));
    pool.post([] {}).get();
  }
  CHECK(started == 11);
  CHECK(stopped == 11);
}

TEST_CASE("a thread that ends when fewer are wanted is the last that keeps its pool from being idle") {
  for (const bool stops : {false, true}) {
    CAPTURE(stops);
    thread_local std::size_t index = 0;
    std::atomic<int> inside{0};
    std::atomic<bool> may_look{false}, may_end{false};
    async::threadpool_options options;
    options.threads = 2;
    options.on_thread_start = [](std::size_t i) { index = i; };
    options.on_thread_stop = [](std::size_t) { std::this_thread::sleep_for(20ms); };
    threadpool pool(std::move(options));
    for (int i = 0; i < 2; ++i) {
      pool.execute([&] {
        ++inside;
        while (!may_look) std::this_thread::yield();
        if (index == 0) return;
        while (!may_end) std::this_thread::sleep_for(1ms);
        end_thread();
      });
    }
    while (inside != 2) std::this_thread::yield();
    pool.configurepool(1);  // the second worker is to end
    may_look = true;
    std::thread waiter([&] { stops ? static_cast<void>(pool.stop()) : pool.wait_idle(); });
    std::this_thread::sleep_for(20ms);  // so that it waits
    may_end = true;
    waiter.join();
    CHECK(pool.size() == (stops ? 0U : 1U));
  }
}

TEST_CASE("a group's task that ends its thread cancels the group, and wait throws a broken promise") {
  threadpool pool(1);
  for (int i = 0; i < 20; ++i) {
    async::task_group group(pool);
    std::promise<void> taken;
    group.run([&] {
      taken.set_value();
      end_thread();
    });
    taken.get_future().wait();  // a thread of the pool has taken it: this one does not wait for the group yet
    CHECK_THROWS_AS(group.wait(), std::future_error);
    CHECK(group.wait());
  }
  CHECK(pool.post([] { return 1; }).get() == 1);
}

TEST_CASE("a thread that ends inside a wait leaves the awaited tasks to others") {
  threadpool pool(2);
  for (int i = 0; i < 20; ++i) {
    std::atomic<int> ran{0};
    auto outer = pool.post([&]() -> int {
      async::task_group group(pool);
      for (int j = 0; j < 10; ++j) group.run([&ran] { ++ran; });
      end_thread();  // the group's destructor waits, and skips tasks that have not begun
    });
    CHECK(is_broken(std::move(outer)));
    CHECK(ran <= 10);
    int second = 0;
    pool.post([&] { async::parallel_invoke(pool, [] {}, [&second] { second = 1; }); }).get();
    CHECK(second == 1);
  }
}

TEST_CASE("blocking_pool: a call that ends its thread breaks its promise; the others are made on new threads") {
  async::blocking_pool pool({.max_threads = 2});
  const auto token = std::make_shared<int>(0);
  std::atomic<std::size_t> ran{0};
  const std::size_t calls = testing::rounds(200);
  for (std::size_t i = 0; i < calls; ++i) {
    pool.execute([token] { end_thread(); });
    pool.execute([&ran] { ++ran; });
  }
  CHECK(is_broken(pool.post([token]() -> int { end_thread(); })));
  CHECK(pool.post([] { return 7; }).get() == 7);
  pool.wait_idle();
  CHECK(ran == calls);
  CHECK(token.use_count() == 1);
}

TEST_CASE("the loop of a worker whose thread has ended goes on") {
  threadpool pool(1);
  std::promise<void> fired;
  pool.post([&] { pool.loop(0).deferred(20ms, [&fired] { fired.set_value(); }); }).get();
  CHECK(is_broken(pool.post([]() -> int { end_thread(); })));
  CHECK(fired.get_future().wait_for(60s) == std::future_status::ready);
}

TEST_CASE("a callback ends the thread that runs its loop, and is destroyed; the loop goes on with another one") {
  event_loop loop;
  bool hook_was_called = false;
  loop.on_unhandled([&hook_was_called](std::exception_ptr) { hook_was_called = true; });
  const auto token = std::make_shared<int>(0);
  loop.post([token] { end_thread(); });
  int ran = 0;
  loop.post([&ran] { ++ran; });
  std::thread([&loop] { loop.run(); }).join();
  CHECK(token.use_count() == 1);
  CHECK_FALSE(hook_was_called);
  loop.run_for(0s);
  CHECK(ran == 1);
}

#endif
