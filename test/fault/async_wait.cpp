// SPDX-License-Identifier: BSL-1.0
//
// The future of async::async() waits in its destructor, also without memory.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <thread>
#include <utility>

#include "async/async.hpp"
#include "support/alloc_counter.hpp"

using namespace std::chrono_literals;

TEST_CASE("a task that is dropped destroys a future of another pool's call, without memory") {
  async::threadpool pool(1);
  std::atomic<bool> is_busy{false}, may_end{false}, may_return{false}, has_returned{false};
  pool.execute([&] {
    is_busy = true;
    while (!may_end) std::this_thread::sleep_for(1ms);
  });
  while (!is_busy) std::this_thread::yield();
  std::future<void> call = async::async([&] {
    while (!may_return) std::this_thread::sleep_for(1ms);
    has_returned = true;
  });
  pool.execute([call = std::move(call)] {});  // waits behind the first task
  std::thread later([&] {
    std::this_thread::sleep_for(5ms);  // so that stop() has begun
    may_end = true;
    std::this_thread::sleep_for(5ms);  // so that the destructor waits
    may_return = true;
  });
  std::size_t dropped = 0;
  {
    const testing::no_memory here;
    dropped = pool.stop(async::discard);
  }
  later.join();
  CHECK(dropped == 1);
  CHECK(has_returned);
}

TEST_CASE("a dropped task destroys a future of its own pool's call, which runs, or waits behind it, without memory") {
  async::threadpool& pool = async::threadpool::shared();
  pool.configurepool(1);
  std::atomic<bool> is_busy{false}, may_return{false}, has_returned{false}, was_called{false};
  std::future<void> running = async::async([&] {
    is_busy = true;
    while (!may_return) std::this_thread::sleep_for(1ms);
    has_returned = true;
  });
  while (!is_busy) std::this_thread::yield();
  std::future<void> queued = async::async([&] { was_called = true; });
  pool.execute([a = std::move(queued)] {});
  pool.execute([a = std::move(running)] {});
  std::thread later([&] {
    std::this_thread::sleep_for(5ms);  // so that the destructor waits
    may_return = true;
  });
  std::size_t dropped = 0;
  std::thread([&] {  // which has had no place in the pool
    const testing::no_memory here;
    dropped = pool.stop(async::discard);
  })
      .join();
  later.join();
  CHECK(dropped == 3);
  CHECK(has_returned);
  CHECK_FALSE(was_called);
}
