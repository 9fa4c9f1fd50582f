// SPDX-License-Identifier: BSL-1.0
//
// Exact numbers of calls of operator new per task, and memory that is given back.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <future>
#include <thread>
#include <vector>

#include "async/task_group.hpp"
#include "async/threadpool.hpp"
#include "support/alloc_counter.hpp"
#include "support/held_workers.hpp"
#include "support/occupied.hpp"
#include "support/wait_while.hpp"

using async::threadpool;

namespace {

/// Repeats a round of work until three rounds in a row have not called operator new.
template <class Round>
bool settles(Round round) {
  int quiet = 0;
  for (int i = 0; i < 100 && quiet != 3; ++i) {
    const testing::alloc_counter counter;
    round();
    quiet = counter.calls() == 0 ? quiet + 1 : 0;
  }
  return quiet == 3;
}

/// Waits in a pool inside a wait in the one before, on this thread.
void wait_in(std::deque<threadpool>& pools, std::size_t i) {
  if (i == pools.size()) return;
  async::task_group group(pools[i]);
  group.run([&] { wait_in(pools, i + 1); });
  group.wait();
}

}  // namespace

TEST_CASE("in the steady state execute and post never call operator new, with and without a backlog") {
  threadpool pool(1);
  std::atomic<int> ran{0};
  CHECK(settles([&] {
    for (int i = 0; i < 1000; ++i) pool.execute([&ran] { ++ran; });
    pool.wait_idle();
  }));
  CHECK(settles([&] {
    for (int i = 0; i < 1000; ++i) CHECK(pool.post([i] { return i; }).get() == i);
  }));
  std::vector<std::future<int>> futures;
  futures.reserve(1000);
  CHECK(settles([&] {
    for (int i = 0; i < 1000; ++i) futures.push_back(pool.post([](int a, int b) { return a + b; }, i, 1));
    for (std::future<int>& f : futures) f.get();
    futures.clear();
  }));
}

TEST_CASE("in the steady state a post inside a task never calls operator new") {
  threadpool pool(1);
  std::atomic<int> ran{0};
  CHECK(settles([&] {
    pool.execute([&] {
      for (int i = 0; i < 1000; ++i) pool.execute([&ran] { ++ran; });
    });
    pool.wait_idle();
  }));
}

TEST_CASE("a thread that waits in many pools at the same time keeps no memory in them") {
  std::deque<threadpool> pools;
  for (int i = 0; i < 8; ++i) pools.emplace_back(0);
  CHECK(settles([&] { wait_in(pools, 0); }));
}

TEST_CASE("trim gives back the memory of a peak of waiting tasks") {
  testing::alloc_counter counter;
  {
    threadpool pool(1);
    {
      std::vector<std::future<int>> futures;
      futures.reserve(20'000);
      const testing::occupied busy(pool, 1);
      for (int i = 0; i < 20'000; ++i) futures.push_back(pool.post([i] { return i; }));
      CHECK(counter.live() > 1000);
    }
    pool.wait_idle();
  }
  CHECK(threadpool::trim() >= 20'000 * 64);
  CHECK(counter.live() < 500);
  CHECK(threadpool::trim() == 0);
}

TEST_CASE("trim gives back the memory of a worker's deque when its thread has ended") {
  std::atomic<bool> has_ended{false};
  threadpool pool({.threads = 1, .on_thread_stop = [&has_ended](std::size_t) { has_ended = true; }});
  std::atomic<int> ran{0};
  pool.execute([&] {
    for (int i = 0; i < 100'000; ++i) pool.execute([&ran] { ++ran; });
  });
  pool.wait_idle();
  pool.configurepool(0);
  testing::wait_while(has_ended, false);
  constexpr std::size_t least = 100'000 * sizeof(void*);
  std::size_t freed = 0;
  const auto deadline = std::chrono::steady_clock::now() + testing::patience;
  while (freed < least && std::chrono::steady_clock::now() < deadline) {  // the thread is about to go
    async::detail::pool_registry::instance().for_each([&freed](async::detail::pool_core& p) { freed += p.trim(); });
    std::this_thread::yield();
  }
  CHECK(freed >= least);
}
