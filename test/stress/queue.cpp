// SPDX-License-Identifier: BSL-1.0
#include "async/queue.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <stdexcept>
#include <thread>
#include <vector>

#include "support/alloc_counter.hpp"
#include "support/fragile.hpp"
#include "support/scale.hpp"
#include "support/traffic.hpp"

namespace {

/// Segments of a few slots, and threads that occasionally yield in the worst places.
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

template <class Queue, bool Bulk>
void run_all(std::uint64_t each) {
  for (const auto& [producers, consumers] : testing::team_sizes) {
    Queue q;
    const auto put = [&q](const std::vector<std::uint64_t>& batch) {
      if (Bulk) {
        q.bulk_enqueue(batch.begin(), batch.size());
      } else {
        for (const std::uint64_t value : batch) q.enqueue(value);
      }
    };
    const auto take = [&q](std::vector<std::uint64_t>& out) {
      std::uint64_t value = 0;
      if (Bulk) {
        q.bulk_dequeue(std::back_inserter(out), 32);
      } else if (q.dequeue(value)) {
        out.push_back(value);
      }
    };
    testing::run_traffic(producers, consumers, each, Bulk ? 40 : 1, put, take, [] {});
    CHECK_FALSE(q.dequeue());
    std::printf("count: %llu elements\n", static_cast<unsigned long long>(producers * each));
  }
}

/// Consumers that wait, by turns without a limit and with one so short that it often passes.
template <class Queue>
void run_waiting(std::uint64_t each) {
  for (const auto& [producers, consumers] : testing::team_sizes) {
    Queue q;
    const auto put = [&q](const std::vector<std::uint64_t>& batch) { q.bulk_enqueue(batch.begin(), batch.size()); };
    const auto take = [&q](std::vector<std::uint64_t>& out) {
      thread_local unsigned turn = 0;
      std::uint64_t value = 0;
      const bool found =
          ++turn % 2 == 0 ? q.blocking_dequeue(value) : q.dequeue_for(value, std::chrono::microseconds(20));
      if (found) out.push_back(value);
    };
    testing::run_traffic(producers, consumers, each, 3, put, take, [&q] { q.close(); });
    CHECK_FALSE(q.dequeue());
    std::printf("count: %llu elements\n", static_cast<unsigned long long>(producers * each));
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

namespace {

/// Segments of a page, so that many become free.
struct of_a_page : disturbed {
  static constexpr unsigned slot_bits = 12;
  static constexpr std::size_t segment_bytes = 4096;
};

/// Producers, consumers, and a thread that trims all the time.
template <class Queue>
std::uint64_t run_trimmed(std::uint64_t each) {
  Queue q;
  std::atomic<bool> is_over{false};
  std::uint64_t discarded = 0;
  std::thread trimmer([&] {
    while (!is_over) {
      discarded += q.trim();
      std::this_thread::yield();
    }
  });
  testing::run_traffic(
      4, 4, each, 1, [&q](const std::vector<std::uint64_t>& batch) { q.enqueue(batch.front()); },
      [&q](std::vector<std::uint64_t>& out) {
        std::uint64_t value = 0;
        if (q.dequeue(value)) out.push_back(value);
      },
      [] {});
  is_over = true;
  trimmer.join();
  CHECK_FALSE(q.dequeue());
  std::printf("count: %llu elements\n", static_cast<unsigned long long>(4 * each));
  return discarded;
}

}  // namespace

TEST_CASE("every element arrives exactly once and in order while another thread trims") {
  const std::uint64_t discarded = run_trimmed<async::queue<std::uint64_t>>(testing::rounds(300000)) +
                                  run_trimmed<async::queue<std::uint64_t, of_a_page>>(testing::rounds(200000)) +
                                  run_trimmed<async::queue<std::uint64_t, disturbed>>(testing::rounds(100000));
  if (async::detail::can_discard_pages) CHECK(discarded > 100'000);
  std::printf("count: %llu MB trimmed beside traffic\n", static_cast<unsigned long long>(discarded >> 20));
}

TEST_CASE("so does every element of consumers that sleep, with and without a limit, and close ends them all") {
  run_waiting<async::queue<std::uint64_t>>(testing::rounds(30'000));
  run_waiting<async::queue<std::uint64_t, disturbed>>(testing::rounds(10'000));
}

TEST_CASE("exactly the elements that were accepted before a close come out, whenever the close comes") {
  const std::size_t closes = testing::rounds(1000);
  std::size_t refused_at_once = 0;
  for (std::size_t round = 0; round < closes; ++round) {
    async::queue<std::uint64_t, disturbed> q;
    std::atomic<std::uint64_t> in{0};
    std::atomic<std::uint64_t> out{0};
    testing::run_threads(7, [&](std::size_t thread) {
      if (thread < 3) {
        const std::uint64_t batch[] = {1, 2, 3, 4, 5};
        for (std::uint64_t i = 1;; ++i) {
          if (thread == 0) {
            const std::size_t accepted = q.bulk_enqueue(batch, 5);
            in += accepted * (accepted + 1) / 2;
            if (accepted != 5) break;
          } else {
            if (!q.enqueue(i)) break;
            in += i;
          }
          if (i % 64 == 0) std::this_thread::yield();
        }
      } else if (thread < 6) {
        unsigned random = static_cast<unsigned>(round * 8 + thread);
        for (std::uint64_t value = 0;;) {
          random = random * 1664525U + 1013904223U;
          const auto limit = std::chrono::microseconds((random >> 16) % 50);
          const bool is_last = thread == 3 || q.is_closed();
          if (thread == 3 ? q.blocking_dequeue(value) : thread == 4 ? q.dequeue_for(value, limit) : q.dequeue(value)) {
            out += value;
          } else if (is_last) {
            break;  // what comes later is missing in `out`
          }
        }
      } else {
        for (std::size_t i = 0; i < round % 20; ++i) std::this_thread::yield();
        q.close();
      }
    });
    REQUIRE(in == out);
    REQUIRE(q.empty());
    REQUIRE_FALSE(q.dequeue());
    refused_at_once += in == 0 ? 1U : 0U;
  }
  CHECK(refused_at_once < closes);
  std::printf("count: %zu closes\n", closes);
}

TEST_CASE("elements whose constructor throws are passed over") {
  using fragile = testing::fragile<3>;
  const std::uint64_t each = testing::rounds(10'000);
  async::queue<fragile, disturbed> q;
  std::atomic<std::uint64_t> in{0};
  std::atomic<std::uint64_t> out{0};
  std::atomic<int> producing{2};
  testing::run_threads(4, [&](std::size_t thread) {
    if (thread < 2) {
      for (std::uint64_t i = 0; i < each; ++i) {
        try {
          const std::uint64_t batch[] = {i, i, 3};
          if (i % 2 == 0) q.enqueue(i);
          if (i % 2 == 1) q.bulk_enqueue(batch, 2);
          in += i % 2 == 0 ? i : 2 * i;
          q.bulk_enqueue(batch + 1, 2);  // fails at the second
        } catch (const std::runtime_error&) {
          in += i % 3 == 0 ? 0 : i;
        }
      }
      --producing;
    } else {
      fragile value(1);
      for (bool last = false; !last;) {
        last = producing == 0;
        while (q.dequeue(value)) out += value.value;
      }
    }
  });
  CHECK(in == out);
  CHECK(q.empty());
  CHECK(fragile::live() == 0);
}

TEST_CASE("memory stays flat over cycles of a million elements, and trim gives it back once") {
  testing::alloc_counter counted;
  async::queue<std::uint64_t> q;
  const std::ptrdiff_t at_start = counted.live();
  std::ptrdiff_t after_first = 0;
  const std::uint64_t elements = testing::rounds(1'000'000);
  for (int cycle = 0; cycle < 10; ++cycle) {
    for (std::uint64_t i = 0; i < elements; ++i) q.enqueue(i);
    std::uint64_t out = 0;
    std::uint64_t wrong = 0;
    for (std::uint64_t i = 0; i < elements; ++i) wrong += q.dequeue(out) && out == i ? 0U : 1U;
    REQUIRE(wrong == 0);
    if (cycle == 0) after_first = counted.live();
    CHECK(counted.live() <= after_first + after_first / 50);
  }
  CHECK(counted.live() <= at_start + 40);  // slabs and tables
  if (async::detail::can_discard_pages) CHECK(q.trim() > elements * 8);
  CHECK(q.trim() == 0);
}
