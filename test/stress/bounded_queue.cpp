// SPDX-License-Identifier: BSL-1.0
#include "async/bounded_queue.hpp"

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

#include "support/fragile.hpp"
#include "support/scale.hpp"
#include "support/traffic.hpp"

namespace {

using namespace std::chrono_literals;
using batch_type = std::vector<std::uint64_t>;

/// Threads occasionally yield between claim and use of a slot; turns wrap early.
struct disturbed : async::bounded_queue_traits {
  static constexpr std::uint64_t first_ticket = (std::uint64_t{1} << 30) - 1000;
  static inline std::atomic<unsigned> stalls{0};
  static void claimed() noexcept {
    thread_local unsigned random = 1;
    random = random * 1664525U + 1013904223U;
    if ((random >> 16) % 512 != 0) return;
    stalls.fetch_add(1, std::memory_order_relaxed);
    for (int i = 0; i < 3; ++i) std::this_thread::yield();
  }
};

/// Calls that return at once, repeated until they succeed.
struct trying {
  static constexpr std::size_t batch = 1;
  static void put(auto& q, const batch_type& values) {
    while (!q.enqueue(values.front())) std::this_thread::yield();
  }
  static void take(auto& q, batch_type& out) {
    std::uint64_t value = 0;
    if (q.dequeue(value)) out.push_back(value);
  }
};
struct in_bulk {
  static constexpr std::size_t batch = 40;
  static void put(auto& q, const batch_type& values) {
    for (std::size_t done = 0; done != values.size();) {
      const std::size_t more = q.bulk_enqueue(values.begin() + static_cast<std::ptrdiff_t>(done), values.size() - done);
      if (more == 0) std::this_thread::yield();
      done += more;
    }
  }
  static void take(auto& q, batch_type& out) { q.bulk_dequeue(std::back_inserter(out), 32); }
};
struct waiting {
  static constexpr std::size_t batch = 1;
  static void put(auto& q, const batch_type& values) { q.blocking_enqueue(values.front()); }
  static void take(auto& q, batch_type& out) {
    std::uint64_t value = 0;
    if (q.blocking_dequeue(value)) out.push_back(value);
  }
};
/// With limits so short that many of them pass.
struct waiting_in_time {
  static constexpr std::size_t batch = 1;
  static void put(auto& q, const batch_type& values) {
    while (!q.enqueue_for(20us, values.front())) {
    }
  }
  static void take(auto& q, batch_type& out) {
    std::uint64_t value = 0;
    if (q.dequeue_for(value, 20us)) out.push_back(value);
  }
};
/// Each producer and consumer uses another kind of call.
struct mixed {
  static constexpr std::size_t batch = 7;
  static void put(auto& q, const batch_type& values) {
    for (const std::uint64_t value : values) {
      const batch_type one{value};
      value % 3 == 0 ? waiting::put(q, one) : value % 3 == 1 ? trying::put(q, one) : waiting_in_time::put(q, one);
    }
  }
  static void take(auto& q, batch_type& out) {
    thread_local unsigned turn = 0;
    ++turn % 3 == 0 ? waiting::take(q, out) : turn % 3 == 1 ? in_bulk::take(q, out) : waiting_in_time::take(q, out);
  }
};

template <class Way, class Traits = async::bounded_queue_traits>
void run_all(std::size_t each) {
  const std::uint64_t elements = testing::rounds(each);
  for (const std::size_t capacity : {1U, 2U, 64U, 1024U}) {
    // One slot hands over an element at a time, with a switch of threads for each on a busy machine.
    const std::uint64_t share = capacity <= 2 ? elements / 40 + 1 : elements;
    for (const auto& [producers, consumers] : testing::team_sizes) {
      async::bounded_queue<std::uint64_t, Traits> q(capacity);
      testing::run_traffic(
          producers, consumers, share, Way::batch, [&q](const batch_type& values) { Way::put(q, values); },
          [&q](batch_type& out) { Way::take(q, out); }, [&q] { q.close(); });
      CHECK_FALSE(q.dequeue());
      CHECK(q.empty());
      std::printf("count: %llu elements\n", static_cast<unsigned long long>(producers * share));
    }
  }
}

}  // namespace

TEST_CASE("every element arrives exactly once and in its producer's order") { run_all<trying>(40'000); }
TEST_CASE("so does every element of bulk operations") { run_all<in_bulk>(60'000); }
TEST_CASE("so does every element of calls that wait, and close ends them all") { run_all<waiting>(20'000); }
TEST_CASE("so does every element of calls that time out again and again") { run_all<waiting_in_time>(10'000); }
TEST_CASE("so does every element of all kinds of calls at once") { run_all<mixed>(10'000); }

TEST_CASE("so does every element when threads stall in the middle of operations and turns wrap") {
  run_all<trying, disturbed>(10'000);
  run_all<mixed, disturbed>(5'000);
  CHECK(disturbed::stalls > 50);
  std::printf("count: %u forced stalls\n", disturbed::stalls.load());
}

TEST_CASE("exactly the elements that were accepted before a close come out, whenever the close comes") {
  const std::size_t closes = testing::rounds(300);
  for (std::size_t round = 0; round < closes; ++round) {
    async::bounded_queue<std::uint64_t> q(1 + round % 4);
    std::atomic<std::uint64_t> in{0};
    std::atomic<std::uint64_t> out{0};
    testing::run_threads(5, [&](std::size_t thread) {
      if (thread < 2) {
        for (std::uint64_t i = 1; q.blocking_enqueue(i); ++i) in += i;
      } else if (thread < 4) {
        for (std::uint64_t value = 0; q.blocking_dequeue(value);) out += value;
      } else {
        for (std::size_t i = 0; i < round % 20; ++i) std::this_thread::yield();
        q.close();
      }
    });
    REQUIRE(in == out);
    REQUIRE(q.empty());
  }
  std::printf("count: %zu closes\n", closes);
}

TEST_CASE("elements whose constructor throws cost no thread a slot or a wake-up") {
  using fragile = testing::fragile<5>;
  const std::uint64_t each = testing::rounds(10'000);
  for (const std::size_t capacity : {1U, 2U, 8U}) {
    async::bounded_queue<fragile> q(capacity);
    std::atomic<std::uint64_t> in{0};
    std::atomic<std::uint64_t> out{0};
    std::atomic<int> producing{2};
    testing::run_threads(4, [&](std::size_t thread) {
      if (thread < 2) {
        for (std::uint64_t i = 0; i < each; ++i) {
          try {
            if (q.blocking_enqueue(i)) in += i;
          } catch (const std::runtime_error&) {
          }
        }
        if (--producing == 0) q.close();
      } else {
        for (fragile value(1); q.blocking_dequeue(value);) out += value.value;
      }
    });
    CHECK(in == out);
    CHECK(in > 0);
  }
  CHECK(fragile::live() == 0);
}
