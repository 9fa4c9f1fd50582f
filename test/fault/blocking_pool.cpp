// SPDX-License-Identifier: BSL-1.0
//
// async::blocking_pool when memory or threads run out: each failure is reported, no call is lost, the pool goes on.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "async/blocking_pool.hpp"
#include "support/alloc_counter.hpp"
#include "support/live_count.hpp"
#include "support/thread_failure.hpp"

using async::blocking_pool;
using testing::fail_alloc;
using testing::fail_thread;

namespace {

/// Too large for recycled blocks, so that each one calls operator new.
struct large : testing::live_count<large> {
  std::array<unsigned char, 2000> bytes{};
};

}  // namespace

TEST_CASE("each allocation of a post fails once: it throws, and nothing was called, or the call is made") {
  std::size_t failures = 0;
  for (const bool has_thread : {false, true}) {
    for (std::size_t k = 0;; ++k) {
      blocking_pool pool({.max_threads = 2});
      if (has_thread) pool.post([] {}).get();
      std::atomic<int> made{0};
      int accepted = 0;
      fail_alloc failing(k);
      // enough calls for a new block of the queue
      for (int i = 0; i < 20; ++i) {
        try {
          auto future = pool.post([&made, held = large()] { ++made; });
          ++accepted;
        } catch (const std::bad_alloc&) {
        } catch (const std::system_error&) {  // a std::thread that got no memory may say so in this way
        }
      }
      failing.stop();
      pool.wait_idle();
      CHECK(made == accepted);
      CHECK(accepted >= 19);
      pool.stop();
      CHECK(large::live() == 0);
      if (!failing.has_failed()) break;
      ++failures;
    }
  }
  CHECK(failures >= 10);
}

TEST_CASE("a pool without a thread, and none can start: the call is refused and destroyed, the next one is made") {
  blocking_pool pool;
  {
    const fail_thread failing(0);
    CHECK_THROWS_AS(pool.execute([held = large()] {}), std::system_error);
    CHECK_THROWS_AS(pool.post([held = large()] {}), std::system_error);
    CHECK(large::live() == 0);
    CHECK(pool.queued() == 0);
  }
  pool.wait_idle();
  CHECK(pool.post([] { return 1; }).get() == 1);
}

TEST_CASE("a pool that gets no further thread makes its calls on those it has") {
  blocking_pool pool;
  std::promise<void> go;
  pool.execute([until = go.get_future()]() mutable { until.wait(); });
  std::atomic<int> made{0};
  {
    const fail_thread failing(0);
    for (int i = 0; i < 100; ++i) pool.execute([&made] { ++made; });
    CHECK(pool.size() == 1);
  }
  go.set_value();
  pool.wait_idle();
  CHECK(made == 100);
}

TEST_CASE(
    "a pool that gets no further thread takes no more calls than max_queue; where one starts, it takes the next") {
  blocking_pool pool({.max_threads = 2, .max_queue = 3});
  std::promise<void> go;
  const auto until = go.get_future().share();
  pool.execute([until] { until.wait(); });
  while (pool.queued() != 0) std::this_thread::yield();
  std::atomic<int> made{0};
  const auto call = [&made, until, held = large()] { ++made, until.wait(); };
  {
    const fail_thread failing(0);
    for (int i = 0; i < 3; ++i) pool.execute(call);
    CHECK_THROWS_AS(pool.execute(call), async::queue_full);
    CHECK_THROWS_AS(pool.post(call), async::queue_full);
    CHECK(pool.queued() == 3);
    CHECK(large::live() == 4);
  }
  pool.execute(call);
  while (made == 0) std::this_thread::yield();
  CHECK(pool.queued() == 3);
  go.set_value();
  pool.wait_idle();
  CHECK(made == 4);
}

TEST_CASE("a thread that ends makes the calls that no other can start for; stop() waits for threads that those start") {
  std::optional<fail_thread> failing;
  std::thread::id ending;
  std::thread::id by;
  std::atomic<bool> has_ended{false};
  std::optional<blocking_pool> pool;
  const auto slow = [&has_ended] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    has_ended = true;
  };
  bool is_first = true;
  pool.emplace(async::blocking_pool_options{.max_threads = 1, .on_thread_stop = [&](std::size_t) {
                                              if (!std::exchange(is_first, false)) return;
                                              ending = std::this_thread::get_id();
                                              failing.emplace(0);
                                              pool->execute([&] {
                                                by = std::this_thread::get_id();
                                                failing.reset();
                                                pool->execute(slow);
                                              });
                                            }});
  pool->execute([] {});
  pool->stop();
  CHECK(by == ending);
  CHECK(has_ended);
  CHECK(pool->size() == 0);
  pool.reset();
}

TEST_CASE("stop(discard) needs no memory") {
  blocking_pool pool({.max_threads = 1});
  std::atomic<bool> is_busy{false}, may_end{false};
  pool.execute([&] {
    is_busy = true;
    while (!may_end) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  while (!is_busy) std::this_thread::yield();
  for (int i = 0; i != 100; ++i) pool.execute([held = large(), &may_end] { may_end = true; });
  std::thread later([&] {
    while (large::live() != 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    may_end = true;
  });
  std::size_t dropped = 0;
  std::size_t again = 0;
  {
    const testing::no_memory here;
    dropped = pool.stop(async::discard);
    again = pool.stop(async::discard);
  }
  later.join();
  CHECK(dropped == 100);
  CHECK(again == 100);
}
