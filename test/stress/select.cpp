// SPDX-License-Identifier: BSL-1.0
#include "async/select.hpp"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <thread>
#include <vector>

#include "async/bounded_queue.hpp"
#include "async/future.hpp"
#include "async/queue.hpp"
#include "support/scale.hpp"
#include "support/traffic.hpp"

namespace {

using namespace std::chrono_literals;
using batch_type = std::vector<std::uint64_t>;

unsigned random_number() {
  thread_local unsigned random = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(&random));
  random = random * 1664525U + 1013904223U;
  return random >> 16;
}

/// Four queues. A producer's numbers go through one of them.
struct channels {
  async::queue<std::uint64_t> a, b;
  async::bounded_queue<std::uint64_t> c{1}, d{8};

  void put(std::uint64_t value) {
    switch ((value >> 32) % 4) {
      case 0:
        a.enqueue(value);
        return;
      case 1:
        b.enqueue(value);
        return;
      case 2:
        push(c, value);
        return;
      default:
        push(d, value);
    }
  }
  static void push(async::bounded_queue<std::uint64_t>& q, std::uint64_t value) {
    if (value % 2 == 0) {
      q.blocking_enqueue(value);
      return;
    }
    while (async::select(async::on_push(q, value), async::after(std::chrono::microseconds(random_number() % 64))) !=
           0) {
    }
  }
  void take(batch_type& out) {
    const auto keep = [&out](std::uint64_t value) { out.push_back(value); };
    std::uint64_t value = 0;
    switch (random_number() % 8) {
      case 0:
        async::select(async::on_pop(d, keep), async::on_pop(c, keep), async::on_pop(b, keep), async::on_pop(a, keep));
        return;
      case 1:
        async::select(async::on_pop(a, keep), async::on_pop(d, keep), async::otherwise());
        return;
      case 2:
        if (a.dequeue_for(value, 20us)) keep(value);
        return;
      case 3:
        if (c.dequeue_for(value, 20us)) keep(value);
        return;
      default:
        async::select(async::on_pop(a, keep), async::on_pop(b, keep), async::on_pop(c, keep), async::on_pop(d, keep),
                      async::after(std::chrono::microseconds(random_number() % 128)));
    }
  }
  void close() {
    a.close();
    c.close();
    b.close();
    d.close();
  }
};

}  // namespace

TEST_CASE("each element of four queues arrives exactly once, while threads select on them beside plain consumers") {
  const std::uint64_t each = testing::rounds(10'000);
  for (const auto& [producers, consumers] : {std::pair<std::size_t, std::size_t>{4, 1}, {4, 4}, {1, 4}, {8, 3}}) {
    channels all;
    testing::run_traffic(
        producers, consumers, each, 1, [&all](const batch_type& values) { all.put(values.front()); },
        [&all](batch_type& out) { all.take(out); }, [&all] { all.close(); });
    std::printf("count: %llu elements\n", static_cast<unsigned long long>(producers * each));
  }
}

TEST_CASE("threads that only wait, without limits, miss no element and no closing") {
  for (std::size_t round = 0; round != testing::rounds(300); ++round) {
    async::queue<int> a;
    async::bounded_queue<int> b(1 + round % 3), c(1);
    std::atomic<int> sum{0};
    const auto add = [&sum](int n) { sum += n; };
    std::atomic<int> producing{3};
    testing::run_threads(8, [&](std::size_t i) {
      if (i < 3) {  // select on all
        while (async::select(async::on_pop(a, add), async::on_pop(b, add), async::on_pop(c, add)) !=
               async::nothing_left) {
        }
      } else if (i == 3) {  // consumers of one
        for (int n = 0; a.blocking_dequeue(n);) sum += n;
      } else if (i == 4) {
        for (int n = 0; b.blocking_dequeue(n);) sum += n;
      } else {
        for (int n = 1; n <= 20; ++n) {
          if (i == 5) a.enqueue(n);
          if (i == 6) b.blocking_enqueue(n);
          if (i == 7) async::select(async::on_push(b, n), async::on_push(c, n));
        }
        if (--producing == 0) a.close(), b.close(), c.close();
      }
    });
    REQUIRE(sum == 630);
  }
  std::printf("count: %zu closes\n", 3 * testing::rounds(300));
}

TEST_CASE("results that come while threads take elements end each wait exactly once") {
  const std::size_t count = testing::rounds(3'000);
  for (std::size_t round = 0; round != count; ++round) {
    async::queue<int> q;
    async::promise<int> p;
    const async::shared_future<int> f = p.get_future();
    std::atomic<int> elements{0}, results{0};
    testing::run_threads(4, [&](std::size_t i) {
      if (i == 0) p.set_value(1);
      if (i == 1) q.enqueue(1);
      if (i >= 2) {
        async::select(async::on_pop(q, [&](int) { ++elements; }), async::on_ready(f, [&](const auto&) { ++results; }));
      }
    });
    REQUIRE(elements + results == 2);
    REQUIRE(elements + static_cast<int>(q.approx_size()) == 1);
  }
  std::printf("count: %zu results beside elements\n", count);
}
