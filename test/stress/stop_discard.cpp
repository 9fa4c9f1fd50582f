// SPDX-License-Identifier: BSL-1.0
//
// stop(discard) at any moment: each task that was accepted is called or counted as dropped, and none is lost.
#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <random>
#include <thread>
#include <vector>

#include "async/async.hpp"
#include "support/live_count.hpp"
#include "support/scale.hpp"

using async::blocking_pool;
using async::discard;
using async::threadpool;

namespace {

struct counted : testing::live_count<counted> {};

/// What the tasks of a round have done.
struct ledger {
  std::atomic<std::uint64_t> accepted{0};
  std::atomic<std::uint64_t> called{0};
};

/// Posts a task by one of the ways; it posts `depth` generations of two tasks each. Inside the pool this cannot fail.
template <class Pool>
void post_tree(Pool& pool, ledger& book, unsigned way, unsigned depth) {
  const auto body = [&pool, &book, way, depth, c = counted()] {
    ++book.called;
    if (depth == 0) return;
    post_tree(pool, book, way + 1, depth - 1);
    post_tree(pool, book, way + 2, depth - 1);
  };
  ++book.accepted;
  try {
    if (way % 3 == 0) {
      static_cast<void>(pool.post(body));
    } else {
      pool.execute(body);
    }
  } catch (const async::stopped&) {
    --book.accepted;
    throw;
  }
}

/// Runs groups in groups.
void fork(threadpool& pool, ledger& book, unsigned depth) {
  async::task_group group(pool);
  for (int i = 0; i < 8; ++i) {
    ++book.accepted;
    group.run([&pool, &book, depth, c = counted()] {
      ++book.called;
      if (depth != 0) fork(pool, book, depth - 1);
    });
  }
  static_cast<void>(group.wait());
}

/// Futures that are waited for inside tasks.
void wait_for_calls(threadpool& pool, ledger& book) {
  std::vector<async::future<int>> calls;
  for (int i = 0; i < 8; ++i) {
    ++book.accepted;
    calls.push_back(pool.post([&book] {
      ++book.called;
      return 1;
    }));
  }
  for (auto& call : calls) {
    try {
      call.get();
    } catch (const async::dropped_call&) {  // counted by the pool
    }
  }
}

}  // namespace

TEST_CASE("threadpool::stop(discard) while tasks post, wait, fork and join, and the pool is resized") {
  const std::size_t count = testing::rounds(300);
  std::mt19937 random(static_cast<std::mt19937::result_type>(testing::seed()));
  std::uint64_t tasks = 0, dropped = 0;
  for (std::size_t round = 0; round < count; ++round) {
    ledger book;
    threadpool pool(1 + random() % 4);
    std::atomic<bool> end{false};
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 3; ++i) {
      threads.emplace_back([&, i] {
        try {
          for (unsigned way = i; way != 3'000; ++way) {
            if (way % 4 == 0) {
              ++book.accepted;
              try {
                pool.execute([&, way] {
                  ++book.called;
                  way % 8 == 0 ? wait_for_calls(pool, book) : fork(pool, book, way % 3);
                });
              } catch (const async::stopped&) {
                --book.accepted;
                throw;
              }
            } else {
              post_tree(pool, book, way, 3);
            }
          }
        } catch (const async::stopped&) {
        }
      });
    }
    threads.emplace_back([&, wanted = random()]() mutable {
      try {
        while (!end) pool.configurepool(wanted++ % 4);
      } catch (const async::stopped&) {
      }
    });
    for (auto spins = random() % 20; spins != 0; --spins) std::this_thread::yield();
    const std::size_t now = pool.stop(discard);
    end = true;
    for (auto& each : threads) each.join();
    REQUIRE(book.called + now == book.accepted);
    REQUIRE(counted::live() == 0);
    tasks += book.accepted;
    dropped += now;
  }
  std::printf("count: %llu tasks\n", static_cast<unsigned long long>(tasks));
  CHECK(dropped != 0);
}

TEST_CASE("threadpool::stop(discard) by several threads and beside stop(): all get the same count") {
  for (std::size_t round = testing::rounds(200); round != 0; --round) {
    ledger book;
    threadpool pool(2);
    for (unsigned i = 0; i < 200; ++i) post_tree(pool, book, i, 2);
    std::size_t counts[2] = {};
    std::thread one([&] { counts[0] = pool.stop(discard); });
    std::thread two([&] { counts[1] = pool.stop(discard); });
    pool.stop();
    one.join();
    two.join();
    REQUIRE(counts[0] == counts[1]);
    REQUIRE(book.called + counts[0] == book.accepted);
  }
}

TEST_CASE("blocking_pool::stop(discard) while calls post calls") {
  for (std::size_t round = testing::rounds(200); round != 0; --round) {
    ledger book;
    blocking_pool pool({.max_threads = 3});
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 3; ++i) {
      threads.emplace_back([&, i] {
        try {
          for (unsigned way = i; way != 3'000; ++way) post_tree(pool, book, way, 2);
        } catch (const async::stopped&) {
        }
      });
    }
    for (std::size_t spins = round * 7 % 50; spins != 0; --spins) std::this_thread::yield();
    const std::size_t now = pool.stop(discard);
    for (auto& each : threads) each.join();
    REQUIRE(book.called + now == book.accepted);
    REQUIRE(counted::live() == 0);
  }
}
