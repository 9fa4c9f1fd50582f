// SPDX-License-Identifier: BSL-1.0
//
// Tasks of all priorities under resizes, waits and stops: each task that was accepted is called once, or counted as
// dropped.
#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <future>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "async/async.hpp"
#include "support/live_count.hpp"
#include "support/scale.hpp"

using async::priority;
using async::threadpool;
using async::threadpool_options;

namespace {

struct counted : testing::live_count<counted> {};

struct ledger {
  std::atomic<std::uint64_t> accepted{0};
  std::atomic<std::uint64_t> called{0};
};

priority level(unsigned way) { return static_cast<priority>(way % 3); }

/// Posts a task by one of the ways; it posts `depth` generations of two tasks each, with other priorities. Inside the
/// pool this cannot fail. False: the queue is full.
bool post_tree(threadpool& pool, ledger& book, unsigned way, unsigned depth) {
  const auto body = [&pool, &book, way, depth, c = counted()] {
    ++book.called;
    if (depth == 0) return;
    post_tree(pool, book, way + 1, depth - 1);
    post_tree(pool, book, way + 5, depth - 1);
  };
  ++book.accepted;
  try {
    if (way % 4 == 0) {
      static_cast<void>(pool.post(level(way), body));
    } else {
      pool.execute(level(way), body);
    }
    return true;
  } catch (const async::queue_full&) {
    --book.accepted;
    return false;
  } catch (const async::stopped&) {
    --book.accepted;
    throw;
  }
}

/// Waits inside a task for calls of all priorities, by futures of both kinds.
void wait_for_calls(threadpool& pool, ledger& book) {
  std::vector<async::future<void>> calls;
  for (unsigned i = 0; i < 6; ++i) {
    ++book.accepted;
    calls.push_back(pool.post(level(i), [&book, c = counted()] { ++book.called; }));
  }
  for (auto& call : calls) {
    try {
      call.get();
    } catch (const async::dropped_call&) {  // counted by the pool
    }
  }
}

/// Posts from several threads while one resizes the pool, until all is posted or end(pool) stops it.
template <class End>
void run(unsigned round, std::size_t max_queue, ledger& book, End end) {
  threadpool_options options;
  options.threads = 1 + round % 4;
  options.max_queue = max_queue;
  options.when_full = round % 2 == 0 ? threadpool_options::overflow::block : threadpool_options::overflow::reject;
  threadpool pool(std::move(options));
  std::atomic<bool> is_over{false};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      try {
        for (unsigned way = i; way < 1'500; ++way) {
          if (way % 16 != 0) {
            post_tree(pool, book, way, way % 4);
            continue;
          }
          ++book.accepted;
          try {
            pool.execute(level(way / 16), [&pool, &book, c = counted()] {
              ++book.called;
              wait_for_calls(pool, book);
            });
          } catch (const async::queue_full&) {
            --book.accepted;
          } catch (const async::stopped&) {
            --book.accepted;
            throw;
          }
        }
      } catch (const async::stopped&) {
      }
    });
  }
  std::thread resizer([&, wanted = round]() mutable {
    try {
      while (!is_over) {
        pool.configurepool(wanted++ % 4);
        std::this_thread::yield();
      }
    } catch (const async::stopped&) {
    }
  });
  end(pool, threads);
  is_over = true;
  resizer.join();
}

void join(std::vector<std::thread>& threads) {
  for (std::thread& each : threads) each.join();
}

}  // namespace

TEST_CASE("each task of any priority runs once, while the pool is resized, and wait_idle() waits for all") {
  std::uint64_t tasks = 0;
  const std::size_t count = testing::rounds(60);
  for (std::size_t round = 0; round < count; ++round) {
    ledger book;
    run(static_cast<unsigned>(round), round % 3 == 0 ? 64 : 0, book, [&book](threadpool& pool, auto& threads) {
      join(threads);
      pool.wait_idle();
      CHECK(book.called == book.accepted);
    });
    REQUIRE(book.called == book.accepted);
    REQUIRE(counted::live() == 0);
    tasks += book.called;
  }
  std::printf("count: %llu tasks\n", static_cast<unsigned long long>(tasks));
}

TEST_CASE("stop() at any moment runs the tasks of all priorities that were accepted") {
  std::uint64_t tasks = 0;
  std::mt19937 random(static_cast<std::mt19937::result_type>(testing::seed()));
  const std::size_t count = testing::rounds(300);
  for (std::size_t round = 0; round < count; ++round) {
    ledger book;
    run(static_cast<unsigned>(round), round % 3 == 0 ? 16 : 0, book, [&random](threadpool& pool, auto& threads) {
      for (auto spins = random() % 30; spins != 0; --spins) std::this_thread::yield();
      pool.stop();
      join(threads);
    });
    REQUIRE(book.called == book.accepted);
    REQUIRE(counted::live() == 0);
    tasks += book.called;
  }
  std::printf("count: %llu tasks\n", static_cast<unsigned long long>(tasks));
}

TEST_CASE("stop(discard) at any moment calls or counts the tasks of all priorities that were accepted") {
  std::uint64_t tasks = 0, all_dropped = 0;
  std::mt19937 random(static_cast<std::mt19937::result_type>(testing::seed()));
  const std::size_t count = testing::rounds(300);
  for (std::size_t round = 0; round < count; ++round) {
    ledger book;
    std::size_t dropped = 0;
    run(static_cast<unsigned>(round), round % 3 == 0 ? 16 : 0, book, [&](threadpool& pool, auto& threads) {
      for (auto spins = random() % 30; spins != 0; --spins) std::this_thread::yield();
      dropped = pool.stop(async::discard);
      join(threads);
    });
    REQUIRE(book.called + dropped == book.accepted);
    REQUIRE(counted::live() == 0);
    tasks += book.accepted;
    all_dropped += dropped;
  }
  std::printf("count: %llu tasks\n", static_cast<unsigned long long>(tasks));
  CHECK(all_dropped != 0);
}

TEST_CASE("a pool that sleeps takes each task of any priority") {
  threadpool pool(4);
  const std::size_t count = testing::rounds(20'000);
  for (std::size_t i = 0; i < count; ++i) pool.post(level(static_cast<unsigned>(i)), [] {}).get();
  std::printf("count: %zu tasks\n", count);
}
