// SPDX-License-Identifier: BSL-1.0
#include "steps/asynctool.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "async/threadpool.hpp"
#include "support/process_cpu_time.hpp"

using steps::AsyncTool;
using namespace std::chrono_literals;

TEST_CASE("a tool with its own thread runs callbacks of any thread") {
  AsyncTool tool;
  std::promise<std::thread::id> where;
  CHECK_FALSE(tool.is_same_thread());
  tool.immediate([&] {
    CHECK(tool.is_same_thread());
    CHECK(async::event_loop::current() == &tool.loop());
    where.set_value(std::this_thread::get_id());
  });
  CHECK(where.get_future().get() != std::this_thread::get_id());
}

TEST_CASE("immediates of one thread run in the order made") {
  AsyncTool tool;
  std::vector<int> ran;
  std::promise<void> done;
  for (int i = 0; i < 1000; ++i) {
    tool.immediate([&ran, i] { ran.push_back(i); });
  }
  tool.post([&] { done.set_value(); });
  done.get_future().get();
  REQUIRE(ran.size() == 1000);
  for (int i = 0; i < 1000; ++i) CHECK(ran[static_cast<std::size_t>(i)] == i);
}

TEST_CASE("deferred callbacks run in time, of any length, and not early") {
  AsyncTool tool;
  for (const auto delay : {0ms, 1ms, 15ms}) {
    std::promise<std::chrono::steady_clock::time_point> fired;
    const auto begin = std::chrono::steady_clock::now();
    tool.deferred(delay, [&] { fired.set_value(std::chrono::steady_clock::now()); });
    CHECK(fired.get_future().get() - begin >= delay);
  }
}

TEST_CASE("a sooner callback is not delayed by the sleep until a later one") {
  AsyncTool tool;
  auto later = tool.deferred(1h, [] {});
  std::promise<void> fired;
  std::promise<void> asleep;
  tool.post([&] { asleep.set_value(); });
  asleep.get_future().get();
  tool.deferred(1ms, [&] { fired.set_value(); });
  CHECK(fired.get_future().wait_for(60s) == std::future_status::ready);
}

TEST_CASE("cancel of another thread tells whether the callback will run") {
  AsyncTool tool;
  for (int i = 0; i < 500; ++i) {
    int ran = 0;
    auto h = tool.deferred(std::chrono::microseconds(i % 200), [&] { ++ran; });
    if (i % 3 == 0) std::this_thread::yield();
    const bool cancelled = h.cancel();
    std::promise<void> done;
    tool.post([&] { done.set_value(); });
    done.get_future().get();
    CHECK(ran == (cancelled ? 0 : 1));
  }
}

TEST_CASE("destruction waits for the running callback and destroys those that wait") {
  std::atomic<bool> ended{false};
  const auto captured = std::make_shared<int>(1);
  AsyncTool::Handle handle;
  {
    AsyncTool tool;
    std::promise<void> started;
    tool.immediate([&, captured] {
      tool.immediate([captured] {});
      started.set_value();
      std::this_thread::sleep_for(5ms);
      ended = true;
    });
    handle = tool.deferred(1h, [captured] { FAIL("ran"); });
    started.get_future().get();
  }
  CHECK(ended);
  CHECK(captured.use_count() == 1);
  CHECK_FALSE(handle);
  handle.cancel();
}

TEST_CASE("a task of a pool that destroys a tool lets other tasks run, for which the tool's callback may wait") {
  async::threadpool pool(1);
  std::atomic<bool> has_run{false};
  pool.post([&] {
        auto tool = std::make_unique<AsyncTool>();
        std::atomic<bool> is_running{false};
        tool->post([&] {
          is_running = true;
          pool.execute([&] { has_run = true; });
          while (!has_run) std::this_thread::yield();
        });
        while (!is_running) std::this_thread::yield();
        tool.reset();
      })
      .get();
  CHECK(has_run);
}

TEST_CASE("tools come and go without anything to do") {
  for (int i = 0; i < 200; ++i) {
    AsyncTool tool;
    if (i % 2 == 0) tool.post([] {});
  }
}

TEST_CASE("an idle tool burns no processor time") {
  AsyncTool tool;
  auto h = tool.deferred(1h, [] {});
  std::promise<void> started;
  tool.post([&] { started.set_value(); });
  started.get_future().get();
  CHECK(testing::sleeps_for(200ms, 20ms));
}

TEST_CASE("iterate() of a tool with its own thread is refused") {
  AsyncTool tool;
  CHECK_THROWS_AS(tool.iterate(), std::logic_error);
}

TEST_CASE("an embedded tool runs on the thread that iterates, and wakes it") {
  int woken = 0;
  AsyncTool tool([&] { ++woken; });
  CHECK(tool.is_same_thread());
  int ran = 0;
  tool.immediate([&] { ++ran; });
  AsyncTool::CycleResult result = tool.iterate();
  CHECK_FALSE(result.have_work);
  CHECK(ran == 1);
  std::thread([&] { tool.immediate([&] { ++ran; }); }).join();
  CHECK(woken == 1);
  CHECK(ran == 1);
  tool.iterate();
  CHECK(ran == 2);
  tool.deferred(10s, [] {});
  result = tool.iterate();
  CHECK(result.have_work);
  CHECK(result.delay > 9s);
  CHECK(result.delay <= 10s + 100us);
}

TEST_CASE("an embedded tool without work wakes its embedder, also for a post of the same thread") {
  int woken = 0;
  int ran = 0;
  AsyncTool tool([&] { ++woken; });
  AsyncTool::Handle handle = tool.deferred(10s, [] {});
  CHECK(woken == 0);  // iterate() has not been called
  tool.iterate();
  tool.immediate([&] { ++ran; });
  CHECK(woken == 1);
  tool.deferred(1s, [] {});
  CHECK(woken == 1);  // once is enough
  tool.iterate();
  CHECK(ran == 1);
  tool.deferred(1ms, [&] { ++ran; });
  CHECK(woken == 2);
  tool.iterate();
  std::thread([&] { tool.post([&] { ++ran; }); }).join();
  tool.immediate([&] { ++ran; });
  CHECK(woken == 3);
}

TEST_CASE("exceptions of callbacks reach the tool's hook") {
  AsyncTool tool;
  std::promise<void> caught;
  tool.on_unhandled([&](std::exception_ptr) { caught.set_value(); });
  tool.immediate([] { throw std::runtime_error("x"); });
  caught.get_future().get();
  std::promise<void> alive;
  tool.release_memory();
  tool.post([&] { alive.set_value(); });
  alive.get_future().get();
}
