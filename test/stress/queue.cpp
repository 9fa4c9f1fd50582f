// SPDX-License-Identifier: BSL-1.0
#include "async/queue.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <thread>
#include <utility>
#include <vector>

#include "../support/scale.hpp"
#include "../support/start_line.hpp"

namespace {

/// Segments of a few slots, and threads that lose their processor in the worst places, now and then.
struct disturbed : async::queue_traits {
  static constexpr unsigned slot_bits = 6;
  static constexpr std::size_t segment_bytes = 128;
  static constexpr unsigned stall_rounds = 1;
  static inline std::atomic<unsigned> stalls{0};
  static void sometimes_yield() noexcept {
    thread_local unsigned random = 1;
    random = random * 1664525U + 1013904223U;
    if ((random >> 16) % 512 != 0) return;
    stalls.fetch_add(1, std::memory_order_relaxed);
    for (int i = 0; i < 3; ++i) std::this_thread::yield();
  }
  static void claimed() noexcept { sometimes_yield(); }
  static void published() noexcept { sometimes_yield(); }
};

/// Every element arrives exactly once, and each consumer sees each producer's elements in order.
template <class Queue, bool Bulk>
void run(std::size_t producers, std::size_t consumers, std::uint64_t each) {
  Queue q;
  std::atomic<std::uint64_t> taken{0};
  std::atomic<std::uint64_t> disorder{0};
  std::vector<std::vector<unsigned char>> seen(producers, std::vector<unsigned char>(static_cast<std::size_t>(each)));
  testing::start_line line(producers + consumers);
  std::vector<std::thread> threads;
  for (std::size_t p = 0; p < producers; ++p) {
    threads.emplace_back([&, p] {
      line.wait();
      std::vector<std::uint64_t> batch;
      for (std::uint64_t i = 0; i < each; ++i) {
        const std::uint64_t v = static_cast<std::uint64_t>(p) << 32 | i;
        if (!Bulk) {
          q.enqueue(v);
          continue;
        }
        batch.push_back(v);
        if (batch.size() == 1 + i % 40 || i + 1 == each) {
          q.bulk_enqueue(batch.begin(), batch.size());
          batch.clear();
        }
      }
      if (!batch.empty()) q.bulk_enqueue(batch.begin(), batch.size());
    });
  }
  for (std::size_t c = 0; c < consumers; ++c) {
    threads.emplace_back([&] {
      std::vector<std::uint64_t> next(producers);
      std::vector<std::uint64_t> got;
      line.wait();
      while (taken.load(std::memory_order_relaxed) != producers * each) {
        got.clear();
        std::uint64_t v = 0;
        if (Bulk) {
          q.bulk_dequeue(std::back_inserter(got), 32);
        } else if (q.dequeue(v)) {
          got.push_back(v);
        }
        for (const std::uint64_t g : got) {
          const auto p = static_cast<std::size_t>(g >> 32);
          const auto i = static_cast<std::size_t>(g & 0xffffffffU);
          if (i < next[p]) disorder.fetch_add(1);
          next[p] = i + 1;
          ++seen[p][i];  // an element that two threads took is a race, too
        }
        if (got.empty()) std::this_thread::yield();
        taken.fetch_add(got.size(), std::memory_order_relaxed);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK(disorder == 0);
  CHECK_FALSE(q.dequeue());
  std::uint64_t wrong = 0;
  for (const auto& row : seen) {
    for (const unsigned char times : row) wrong += times != 1 ? 1U : 0U;
  }
  CHECK(wrong == 0);
}

template <class Queue, bool Bulk>
void run_all(std::uint64_t each) {
  for (const auto& [p, c] : {std::pair{1, 1}, {2, 2}, {1, 3}, {3, 1}, {4, 4}}) {
    run<Queue, Bulk>(static_cast<std::size_t>(p), static_cast<std::size_t>(c), each);
  }
}

}  // namespace

TEST_CASE("every element arrives exactly once and in its producer's order") {
  run_all<async::queue<std::uint64_t>, false>(testing::rounds(300000));
}

TEST_CASE("so does every element of bulk operations") {
  run_all<async::queue<std::uint64_t>, true>(testing::rounds(300000));
}

TEST_CASE("so does every element when threads stall in the middle of operations and are skipped") {
  run_all<async::queue<std::uint64_t, disturbed>, false>(testing::rounds(100000));
  run_all<async::queue<std::uint64_t, disturbed>, true>(testing::rounds(100000));
  CHECK(disturbed::stalls > 100);
  std::printf("count: %u forced stalls\n", disturbed::stalls.load());
}
