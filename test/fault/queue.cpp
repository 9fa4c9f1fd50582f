// SPDX-License-Identifier: BSL-1.0
//
// Every allocation of async::queue and async::bounded_queue fails once, and every constructor and assignment of their
// elements throws once: what has gone in comes out, once and in order, and the queue goes on.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdio>
#include <iterator>
#include <new>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "async/bounded_queue.hpp"
#include "async/queue.hpp"
#include "support/alloc_counter.hpp"
#include "support/live_count.hpp"
#include "support/stopped_thread.hpp"

using testing::fail_alloc;
using testing::stopped_thread;

namespace {

/// Segments of two slots, so that a few elements allocate often.
struct small : async::queue_traits {
  static constexpr unsigned slot_bits = 2;
  static constexpr std::size_t segment_bytes = 1;
  static constexpr unsigned stall_rounds = 1;
  static void claimed() noexcept { stopped_thread::stop_here(0); }
};

struct small_numbers : small {
  static constexpr unsigned index_bits = 8;
};

struct alignas(128) wide : testing::live_count<wide> {
  explicit wide(int v) noexcept : value(v) {}
  int value;
};

/// The how-manieth construction, or assignment, from here throws.
struct fragile : testing::live_count<fragile> {
  static inline int countdown = -1;
  static void step() {
    if (countdown >= 0 && countdown-- == 0) throw std::runtime_error("fragile");
  }
  explicit fragile(int v) : value(v) { step(); }
  fragile(fragile&& other) noexcept : value(other.value) {}
  fragile& operator=(fragile&& other) {
    step();
    value = other.value;
    return *this;
  }
  int value;
};
struct receiver {
  int* into;
  receiver& operator=(fragile&& from) {
    fragile::step();
    *into = from.value;
    return *this;
  }
};

template <class Queue>
std::vector<int> drain(Queue& q) {
  std::vector<int> out;
  while (const auto e = q.dequeue()) out.push_back(e->value);
  return out;
}

std::size_t injected = 0;

}  // namespace

TEST_CASE("a queue that cannot be made leaves nothing behind") {
  testing::alloc_counter counted;
  for (std::size_t k = 0;; ++k) {
    fail_alloc failing(k);
    try {
      async::queue<wide, small> q(20);
      failing.stop();
      q.enqueue(1);
    } catch (const std::bad_alloc&) {
      ++injected;
    }
    failing.stop();
    CHECK(counted.live() == 0);
    CHECK(wide::live() == 0);
    if (!failing.has_failed()) break;
  }
  CHECK(injected >= 4);  // slabs of 1, 2, 4 and 8 segments
}

TEST_CASE("enqueue without memory throws and changes nothing") {
  testing::alloc_counter counted;
  for (std::size_t k = 0;; ++k) {
    {
      async::queue<wide, small> q;
      std::vector<int> expected(500);
      std::iota(expected.begin(), expected.end(), 0);
      fail_alloc failing(k);
      for (int i = 0; i < 500; ++i) {
        for (bool done = false; !done;) {
          const std::size_t before = q.approx_size();
          try {
            q.enqueue(i);
            done = true;
          } catch (const std::bad_alloc&) {
            ++injected;
            REQUIRE(q.approx_size() == before);
          }
        }
      }
      failing.stop();
      REQUIRE(drain(q) == expected);
      if (!failing.has_failed()) break;
    }
    CHECK(counted.live() == 0);
  }
  CHECK(wide::live() == 0);
}

TEST_CASE("bulk_enqueue without memory has enqueued a first part") {
  std::vector<int> in(200);
  std::iota(in.begin(), in.end(), 0);
  for (std::size_t k = 0;; ++k) {
    async::queue<wide, small> q;
    std::size_t went_in = in.size();
    fail_alloc failing(k);
    try {
      q.bulk_enqueue(in.begin(), in.size());
    } catch (const std::bad_alloc&) {
      ++injected;
      went_in = q.approx_size();
      CHECK(went_in < in.size());
    }
    failing.stop();
    q.enqueue(-1);
    std::vector<int> expected(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(went_in));
    expected.push_back(-1);
    CHECK(drain(q) == expected);
    if (!failing.has_failed()) break;
  }
}

TEST_CASE("numbers of segments are not used up by allocations that fail") {
  async::queue<wide, small_numbers> q;
  for (int i = 0; i < 125; ++i) q.enqueue(i);
  std::size_t refused = 0;
  for (int i = 0; i < 10'000; ++i) {
    fail_alloc failing(i == 5000 ? 1 : 0);  // the table that the next segment does not fit in; from 5000 on its slab
    try {
      q.enqueue(-1);
      q.dequeue();
    } catch (const std::bad_alloc&) {
      ++refused;
    }
  }
  CHECK(refused > 9000);
  injected += refused;
  for (int i = 0; i < 200; ++i) q.enqueue(1000 + i);
  int last = 0;
  while (const auto e = q.dequeue()) last = e->value;
  CHECK(last == 1199);
}

TEST_CASE("trim needs no memory") {
  async::queue<wide, small> q;
  for (int i = 0; i < 100; ++i) q.enqueue(i);
  for (int i = 0; i < 90; ++i) q.dequeue();
  {
    fail_alloc failing(0);
    q.trim();
    CHECK_FALSE(failing.has_failed());
  }
  CHECK(drain(q).size() == 10);
  q.trim();
  q.enqueue(1);
  CHECK(drain(q) == std::vector<int>{1});
}

TEST_CASE("a dequeue that has no memory to pass over a stalled producer waits for it") {
  async::queue<wide, small> q;
  std::optional<stopped_thread> producer;
  producer.emplace(0, [&q] { q.enqueue(1); });
  REQUIRE(producer->is_stopped());
  std::optional<wide> got;
  const auto failures = [] { return testing::alloc::failures.load(); };
  const std::size_t before = failures();
  std::thread consumer([&] {
    const testing::no_memory here;
    got = q.dequeue();
  });
  while (failures() < before + 3) std::this_thread::yield();  // it asks again and again, and returns nothing
  producer->release();
  consumer.join();
  REQUIRE(got);
  CHECK(got->value == 1);
  ++injected;
}

TEST_CASE("a constructor that throws enqueues nothing, wherever it happens") {
  for (int k = 0; k < 300; ++k) {
    async::queue<fragile> q;
    async::bounded_queue<fragile> b(512);
    std::vector<int> expected;
    fragile::countdown = k;
    for (int i = 0; i < 300; ++i) {
      try {
        q.enqueue(i);
        expected.push_back(i);
      } catch (const std::runtime_error&) {
        ++injected;
      }
    }
    CHECK(expected.size() == 299);
    CHECK(drain(q) == expected);
    fragile::countdown = k;
    for (int i = 0; i < 300; ++i) {
      try {
        const bool is_in = b.enqueue(i);
        CHECK(is_in);
      } catch (const std::runtime_error&) {
        ++injected;
      }
    }
    CHECK(drain(b) == expected);
    for (int i = 0; i < 512; ++i) CHECK(b.enqueue(i));
    CHECK_FALSE(b.enqueue(0));
  }
  fragile::countdown = -1;
  CHECK(fragile::live() == 0);
}

TEST_CASE("a constructor that throws in a bulk leaves the elements before it") {
  std::vector<int> in(60);
  std::iota(in.begin(), in.end(), 0);
  for (int k = 0; k < 60; ++k) {
    const std::vector<int> expected(in.begin(), in.begin() + k);
    async::queue<fragile> q;
    async::bounded_queue<fragile> b(64);
    fragile::countdown = k;
    CHECK_THROWS_AS(q.bulk_enqueue(in.begin(), 60), std::runtime_error);
    CHECK(drain(q) == expected);
    fragile::countdown = k;
    CHECK_THROWS_AS(b.bulk_enqueue(in.begin(), 60), std::runtime_error);
    CHECK(drain(b) == expected);
    CHECK(b.bulk_enqueue(in.begin(), 60) == 60);
    CHECK(b.approx_size() == 60);
    injected += 2;
  }
  CHECK(fragile::live() == 0);
}

TEST_CASE("an assignment that throws costs its element and no other") {
  for (int k = 0; k < 60; ++k) {
    async::queue<fragile> q;
    async::bounded_queue<fragile> b(64);
    for (int i = 0; i < 60; ++i) {
      q.enqueue(i);
      b.enqueue(i);
    }
    const auto take_all = [&](auto& queue) {
      std::vector<int> out;
      fragile::countdown = k;
      for (int value = -1;;) {
        receiver to{&value};
        try {
          if (!queue.dequeue(to)) break;
          out.push_back(value);
        } catch (const std::runtime_error&) {
          ++injected;
          out.push_back(-1);
        }
      }
      return out;
    };
    std::vector<int> expected(60);
    std::iota(expected.begin(), expected.end(), 0);
    expected[static_cast<std::size_t>(k)] = -1;
    CHECK(take_all(q) == expected);
    CHECK(take_all(b) == expected);
  }
  fragile::countdown = -1;
  CHECK(fragile::live() == 0);
}

TEST_CASE("an assignment that throws in a bulk ends it after the elements before") {
  for (int k = 0; k < 30; ++k) {
    async::queue<fragile> q;
    async::bounded_queue<fragile> b(32);
    for (int i = 0; i < 30; ++i) {
      q.enqueue(i);
      b.enqueue(i);
    }
    const auto take = [&](auto& queue) {
      std::vector<int> values(30, -1);
      std::vector<receiver> to;
      for (int& v : values) to.push_back({&v});
      fragile::countdown = k;
      CHECK_THROWS_AS(queue.bulk_dequeue(to.begin(), 30), std::runtime_error);
      ++injected;
      CHECK(queue.approx_size() == static_cast<std::size_t>(29 - k));
      for (int i = 0; i < 30; ++i) CHECK(values[static_cast<std::size_t>(i)] == (i < k ? i : -1));
      CHECK(drain(queue).size() == static_cast<std::size_t>(29 - k));
    };
    take(q);
    take(b);
  }
  CHECK(fragile::live() == 0);
}

TEST_CASE("a bounded_queue that cannot be made leaves nothing behind, and one that is made needs no more memory") {
  testing::alloc_counter counted;
  {
    fail_alloc failing(0);
    CHECK_THROWS_AS(async::bounded_queue<wide>(8), std::bad_alloc);
    ++injected;
  }
  CHECK(counted.live() == 0);
  async::bounded_queue<wide> b(8);
  counted.reset();
  for (int i = 0; i < 100; ++i) {
    b.blocking_enqueue(i);
    CHECK(b.dequeue()->value == i);
  }
  b.close();
  CHECK(counted.calls() == 0);
}

TEST_CASE("failures enough have been injected") {
  CHECK(injected >= 1500);
  std::printf("count: %zu injected failures\n", injected);
}
