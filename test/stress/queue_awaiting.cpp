// SPDX-License-Identifier: BSL-1.0
//
// Coroutines that wait for queues on several threads, beside threads that sleep in them or poll, while some coroutines
// are destroyed: each element comes out once, and nobody waits for ever.
#include <doctest/doctest.h>

#include <atomic>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "async/bounded_queue.hpp"
#include "async/queue.hpp"
#include "support/detached.hpp"
#include "support/scale.hpp"

namespace {

using testing::detached;

struct totals {
  // relaxed, all: sums, read when the threads have ended
  std::atomic<std::uint64_t> in{0}, out{0}, ended{0};
  void add(std::atomic<std::uint64_t>& to, std::uint64_t x) { to.fetch_add(x, std::memory_order_relaxed); }
};

template <class Queue>
detached consume(Queue& q, totals& t) {
  while (const std::optional<std::uint64_t> x = co_await q.pop()) t.add(t.out, *x);
  t.add(t.ended, 1);
}
template <class Queue>
detached produce(Queue& q, totals& t, std::uint64_t from, std::uint64_t count) {
  for (std::uint64_t x = from; x != from + count; ++x) {
    if (!co_await q.push(x)) break;
    t.add(t.in, x);
  }
  t.add(t.ended, 1);
}

template <class Queue>
void run_on_threads(Queue& q, std::uint64_t count) {
  totals t;
  std::vector<std::thread> threads;
  std::atomic<unsigned> producing{2};
  for (unsigned i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      if (i < 2) {  // half of it by coroutines, which go on where consumers make room
        produce(q, t, 1, count);
        for (std::uint64_t x = 1; x <= count; ++x) {
          if constexpr (requires { q.capacity(); }) {
            q.blocking_enqueue(x);
          } else {
            q.enqueue(x);
          }
          t.add(t.in, x);
        }
        if (producing.fetch_sub(1, std::memory_order_acq_rel) == 1) {
          while (t.ended.load(std::memory_order_relaxed) != 2) std::this_thread::yield();  // the producing coroutines
          q.close();
        }
      } else if (i == 2) {
        consume(q, t);
        consume(q, t);
        consume(q, t);
      } else {
        for (std::uint64_t x = 0; q.blocking_dequeue(x);) t.add(t.out, x);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(t.in.load() == 2 * count * (count + 1));
  CHECK(t.out.load() == t.in.load());
  CHECK(t.ended.load() == 5);
  CHECK(q.empty());
}

}  // namespace

TEST_CASE("producers and consumers that wait as coroutines and as threads exchange all elements") {
  const std::size_t rounds = testing::rounds(200);
  constexpr std::uint64_t count = 2'000;
  for (std::size_t round = 0; round < rounds; ++round) {
    async::queue<std::uint64_t> wide;
    run_on_threads(wide, count);
    async::bounded_queue<std::uint64_t> narrow(1 + round % 5);
    run_on_threads(narrow, count);
  }
  std::printf("count: %llu elements awaited\n", static_cast<unsigned long long>(rounds * 8 * count));
}

TEST_CASE("coroutines that are destroyed while they wait take no element with them, and no wake-up") {
  const std::size_t rounds = testing::rounds(300);
  for (std::size_t round = 0; round < rounds; ++round) {
    async::queue<std::uint64_t> q;
    totals t;
    std::mutex turn;  // of threads that enqueue, close, and begin or destroy coroutines
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 3; ++i) {
      threads.emplace_back([&, i] {
        std::minstd_rand random(static_cast<std::minstd_rand::result_type>(testing::seed() + 3 * round + i));
        std::vector<detached> mine;
        for (std::uint64_t x = 1; x <= 2'000; ++x) {
          const std::lock_guard here(turn);
          if (mine.size() < 4) mine.push_back(consume(q, t));
          switch (random() % 4) {
            case 0: {
              const std::size_t which = random() % mine.size();
              mine[which].handle.destroy();
              mine[which] = mine.back();
              mine.pop_back();
              break;
            }
            case 1: {
              const std::uint64_t some[] = {x, x, x};
              t.add(t.in, 3 * x);
              q.bulk_enqueue(some, 3);
              break;
            }
            default:
              t.add(t.in, x);
              q.enqueue(x);
          }
        }
        const std::lock_guard here(turn);
        for (detached& each : mine) each.handle.destroy();
      });
    }
    std::thread sleeper([&] {  // beside them, without their lock
      for (std::uint64_t x = 0; q.blocking_dequeue(x);) t.add(t.out, x);
    });
    for (std::thread& thread : threads) thread.join();
    q.close();
    sleeper.join();
    CHECK(t.out.load() == t.in.load());
    CHECK(t.ended.load() == 0);
  }
}
