// SPDX-License-Identifier: BSL-1.0
//
// Groups whose tasks other threads run are waited for without memory.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "async/task_group.hpp"
#include "async/threadpool.hpp"
#include "support/alloc_counter.hpp"

using async::task_group;
using async::threadpool;
using namespace std::chrono_literals;

namespace {

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

TEST_CASE("wait() of a group that has no memory for the thread's place in the pool") { wait_without_memory(false); }

TEST_CASE("the destructor of a group that has no memory for the thread's place in the pool") {
  wait_without_memory(true);
}
