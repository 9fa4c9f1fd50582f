// SPDX-License-Identifier: BSL-1.0
//
// Every allocation of a group, of a loop and of an asynchronous call fails once; groups are waited for without memory.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <new>
#include <thread>

#include "async/async.hpp"
#include "support/alloc_counter.hpp"

using async::task_group;
using async::threadpool;
using testing::fail_alloc;
using namespace std::chrono_literals;

namespace {

/// Too large for recycled blocks, so that each one calls operator new.
struct large {
  std::array<unsigned char, 2000> bytes{};
};

/// A new thread waits, by wait() or by the destructor, for a task that another thread has run() and runs.
void wait_without_memory(bool by_destructor) {
  threadpool pool(2);
  std::atomic<bool> may_end{false}, has_ended{false}, waits{false};
  std::thread waiter([&] {
    {
      task_group group(pool);
      std::atomic<bool> has_begun{false};
      pool.execute([&] {
        group.run([&] {
          has_begun = true;
          while (!may_end) std::this_thread::sleep_for(1ms);
          has_ended = true;
        });
      });
      while (!has_begun) std::this_thread::yield();
      waits = true;
      if (!by_destructor) {
        const testing::no_memory here;
        CHECK(group.wait());
        CHECK(has_ended);
        return;
      }
      testing::alloc::none_for_thread = true;
    }
    testing::alloc::none_for_thread = false;
    CHECK(has_ended);
  });
  while (!waits) std::this_thread::yield();
  std::this_thread::sleep_for(5ms);  // so that it waits
  may_end = true;
  waiter.join();
}

}  // namespace

TEST_CASE("run without memory throws, the group has no such task, and the others run") {
  threadpool pool(2);
  const auto token = std::make_shared<int>(0);
  std::size_t failures = 0;
  for (std::size_t k = 0;; ++k) {
    std::atomic<int> ran{0};
    int accepted = 0;
    task_group group(pool);
    fail_alloc failing(k);
    for (int i = 0; i < 20; ++i) {
      try {
        group.run([&ran, token, padding = large{}] { ran += 1 + padding.bytes[0]; });
        ++accepted;
      } catch (const std::bad_alloc&) {
        ++failures;
      }
    }
    failing.stop();
    CHECK(accepted >= 19);
    CHECK(group.wait());
    CHECK(ran == accepted);
    CHECK(token.use_count() == 1);
    if (!failing.has_failed()) break;
  }
  CHECK(failures >= 20);
}

TEST_CASE("run inside a task of the pool without memory throws, and the group goes on") {
  std::size_t failures = 0;
  for (std::size_t k = 0;; ++k) {
    threadpool pool(1);  // whose deque has to grow
    bool has_failed = false;
    int ran = 0;
    int accepted = 0;
    pool.post([&] {
          task_group group(pool);
          fail_alloc failing(k);
          for (int i = 0; i < 300; ++i) {
            try {
              group.run([&ran] { ++ran; });
              ++accepted;
            } catch (const std::bad_alloc&) {
              ++failures;
            }
          }
          has_failed = failing.has_failed();
          failing.stop();
          group.wait();
        })
        .get();
    CHECK(ran == accepted);
    if (!has_failed) break;
    CHECK(accepted >= 299);
  }
  CHECK(failures > 0);
}

TEST_CASE("a loop without memory throws before the first call, or makes all calls with fewer threads") {
  threadpool pool(2);
  std::size_t refused = 0;
  for (std::size_t k = 0;; ++k) {
    std::atomic<int> calls{0};
    fail_alloc failing(k);
    try {
      async::parallel_for(pool, 0, 1000, [&calls, padding = large{}](int) { calls += 1 + padding.bytes[0]; }, 10);
      failing.stop();
      CHECK(calls == 1000);
    } catch (const std::bad_alloc&) {
      failing.stop();
      ++refused;
      CHECK(calls == 0);
    }
    if (!failing.has_failed()) break;
    async::detail::trim_blocks();
  }
  CHECK(refused <= 10);  // the first loop of a thread outside makes its place in the pool
}

TEST_CASE("async without memory throws and calls nothing") {
  threadpool::shared().wait_idle();  // that it starts is not what is tested here
  const auto token = std::make_shared<int>(0);
  std::size_t failures = 0;
  for (std::size_t k = 0;; ++k) {
    std::atomic<int> calls{0};
    fail_alloc failing(k);
    std::future<int> result;
    try {
      result = async::async([&calls, token, padding = large{}] { return ++calls + padding.bytes[0]; });
    } catch (const std::bad_alloc&) {
      ++failures;
    }
    failing.stop();
    if (result.valid()) {
      CHECK(result.get() == 1);
    } else {
      threadpool::shared().wait_idle();
      CHECK(calls == 0);
    }
    CHECK(token.use_count() == 1);
    if (!failing.has_failed()) break;
  }
  CHECK(failures >= 1);
}

TEST_CASE("an asynchronous call made inside a task without memory throws before anything is called") {
  bool has_failed = true;
  int failures = 0;
  for (std::size_t k = 0; has_failed; ++k) {
    std::atomic<int> called{0};
    bool threw = false;
    async::async([&] {
      async::async([] {}).get();
      fail_alloc failing(k);
      try {
        auto result = async::async([&called, padding = large{}] { called += 1 + padding.bytes[0]; });
        failing.stop();
        result.get();
      } catch (const std::bad_alloc&) {
        threw = true;
      }
      failing.stop();
      has_failed = failing.has_failed();
    }).get();
    threadpool::shared().wait_idle();
    REQUIRE(called == (threw ? 0 : 1));
    failures += threw ? 1 : 0;
  }
  CHECK(failures >= 1);
}

TEST_CASE("wait() of a group that has no memory for the thread's place in the pool") { wait_without_memory(false); }

TEST_CASE("the destructor of a group that has no memory for the thread's place in the pool") {
  wait_without_memory(true);
}

TEST_CASE("parallel_invoke finds its call below others without memory, on a paused pool too") {
  for (const std::size_t others : {1U, 2U, 500U}) {
    for (const bool throws : {false, true}) {
      threadpool pool(0);
      std::atomic<std::size_t> others_ran{0};
      bool ran = false;
      const auto work = [&] {
        async::parallel_invoke(
            pool,
            [&] {
              for (std::size_t i = 0; i != others; ++i) pool.execute([&others_ran] { ++others_ran; });
              testing::alloc::none_for_thread = true;
              if (throws) throw 1;
            },
            [&] { ran = true; });
      };
      if (throws) {
        CHECK_THROWS_AS(work(), int);
      } else {
        work();
      }
      testing::alloc::none_for_thread = false;
      CHECK(ran == !throws);
      CHECK(others_ran == 0);
      pool.configurepool(1);
      pool.wait_idle();
      CHECK(others_ran == others);
    }
  }
}

TEST_CASE("parallel_invoke without memory skips the second function in a group that the first one has cancelled") {
  threadpool pool(1);
  bool has_failed = false;
  bool all = false;
  int skipped = 0;
  pool.post([&] {
        task_group others(pool);
        for (int i = 0; i < 300; ++i) {  // so that the worker's deque has to grow
          task_group group(pool);
          CHECK_FALSE(group.run_and_wait([&] {
            const fail_alloc failing(0);
            all = async::parallel_invoke(pool, [&] { group.cancel(); }, [&] { ++skipped; }) || all;
            has_failed = failing.has_failed() || has_failed;
          }));
          others.run([] {});
        }
      })
      .get();
  CHECK(has_failed);
  CHECK(skipped == 0);
  CHECK_FALSE(all);
}
