// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <doctest/doctest.h>

#include <array>    // for array
#include <atomic>   // for atomic
#include <cstddef>  // for size_t
#include <cstdint>  // for uint64_t
#include <thread>   // for yield
#include <utility>  // for pair
#include <vector>   // for vector

#include "support/start_line.hpp"  // for run_threads

namespace testing {

/// Producers and consumers that tests of queues use.
inline constexpr std::array<std::pair<std::size_t, std::size_t>, 5> team_sizes{
    {{1, 1}, {2, 2}, {1, 3}, {3, 1}, {4, 4}}};

/// Sends `each` numbers from each producer through a queue, and checks that every one arrives exactly once and that
/// each consumer sees each producer's in order.
///
///   put(batch)    enqueues all of a vector<uint64_t>; batches hold up to `batch_limit`
///   take(out)     appends to a vector<uint64_t> what it dequeues; nothing: try again
///   all_in()      called once, by the last producer
template <class Put, class Take, class AllIn>
void run_traffic(std::size_t producers, std::size_t consumers, std::uint64_t each, std::size_t batch_limit, Put put,
                 Take take, AllIn all_in) {
  std::atomic<std::uint64_t> taken{0};
  std::atomic<std::uint64_t> disorder{0};
  std::atomic<std::size_t> producing{producers};
  std::vector<std::vector<unsigned char>> seen(producers, std::vector<unsigned char>(static_cast<std::size_t>(each)));
  const auto produce = [&](std::size_t p) {
    std::vector<std::uint64_t> batch;
    for (std::uint64_t i = 0; i < each; ++i) {
      batch.push_back(static_cast<std::uint64_t>(p) << 32 | i);
      if (batch.size() >= 1 + i % batch_limit || i + 1 == each) {
        put(batch);
        batch.clear();
      }
    }
    if (--producing == 0) all_in();
  };
  const auto consume = [&] {
    std::vector<std::uint64_t> next(producers);
    std::vector<std::uint64_t> got;
    while (taken.load(std::memory_order_relaxed) != producers * each) {
      got.clear();
      take(got);
      for (const std::uint64_t value : got) {
        const auto p = static_cast<std::size_t>(value >> 32);
        const auto i = static_cast<std::size_t>(value & 0xffffffffU);
        if (i < next[p]) disorder.fetch_add(1);
        next[p] = i + 1;
        ++seen[p][i];  // an element that two threads took is a race, too
      }
      if (got.empty()) std::this_thread::yield();
      taken.fetch_add(got.size(), std::memory_order_relaxed);
    }
  };
  run_threads(producers + consumers, [&](std::size_t i) { i < producers ? produce(i) : consume(); });
  CHECK(disorder == 0);
  std::uint64_t wrong = 0;
  for (const auto& row : seen) {
    for (const unsigned char times : row) wrong += times != 1 ? 1U : 0U;
  }
  CHECK(wrong == 0);
}

}  // namespace testing
