// SPDX-License-Identifier: BSL-1.0
//
// The element types of async::queue, its memory, and the limits of its counters.
#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <stdexcept>
#include <thread>
#include <type_traits>
#include <vector>

#include "async/queue.hpp"
#include "support/alloc_counter.hpp"
#include "support/live_count.hpp"

namespace {

/// Segments of two slots, fifteen of them at most.
struct few : async::queue_traits {
  static constexpr unsigned index_bits = 4, slot_bits = 2;
  static constexpr std::size_t segment_bytes = 1;
};
struct many : few {
  static constexpr unsigned index_bits = 20;
};
/// Segments of two slots, with versions that wrap at sixteen.
struct soon_over : async::queue_traits {
  static constexpr unsigned version_bits = 4, slot_bits = 2;
  static constexpr std::size_t segment_bytes = 1;
};
struct alignas(128) wide {
  int value;
};

template <class Queue>
concept can_dequeue = requires(Queue& q) { q.dequeue(); };
template <class Queue, class Out>
concept gives = requires(Queue& q, Out& out) { q.dequeue(out); };
template <class Queue, class... Args>
concept takes = requires(Queue& q, Args&&... args) { q.enqueue(std::forward<Args>(args)...); };

}  // namespace

TEST_CASE("a queue that has run out of segment indices throws bad_alloc, keeps its elements, and goes on") {
  async::queue<wide, few> q;
  for (int round = 0; round < 20; ++round) {
    int in = 0;
    try {
      for (;; ++in) q.enqueue(wide{in});
    } catch (const std::bad_alloc&) {
    }
    REQUIRE(in >= 28);
    REQUIRE(q.approx_size() == static_cast<std::size_t>(in));
    for (int i = 0; i < in; ++i) REQUIRE(q.dequeue()->value == i);
    REQUIRE_FALSE(q.dequeue());
    if (round % 2 == 0) q.trim();
  }
}

TEST_CASE("nothing changes when versions wrap") {
  async::queue<wide, soon_over> q;
  int in = 0;
  int out = 0;
  for (int round = 0; round < 200; ++round) {
    for (int i = 0; i < 1 + round % 5; ++i) q.enqueue(wide{in++});
    CHECK(q.approx_size() == static_cast<std::size_t>(in - out));
    for (int i = 0; i < round % 4 && out != in; ++i) REQUIRE(q.dequeue()->value == out++);
    while (in - out > 4) REQUIRE(q.dequeue()->value == out++);
  }
  while (const auto w = q.dequeue()) REQUIRE(w->value == out++);
  CHECK(in == out);
}

TEST_CASE("hundreds of segments are found, reused, trimmed, and freed") {
  testing::alloc_counter counted;
  {
    async::queue<wide, many> q;
    const std::ptrdiff_t empty = counted.live();
    for (int round = 0; round < 3; ++round) {
      for (int i = 0; i < 3000; ++i) q.enqueue(wide{i});
      for (int i = 0; i < 3000; ++i) REQUIRE(q.dequeue()->value == i);
    }
    CHECK(counted.live() <= empty + 30);  // slabs and tables
    for (int round = 0; round < 3; ++round) {
      if (async::detail::can_discard_pages) CHECK(q.trim() > std::size_t{1400} * 2 * sizeof(wide));
      CHECK(q.trim() == 0);
      for (int i = 0; i < 3000; ++i) q.enqueue(wide{i});
      q.trim();
      for (int i = 0; i < 3000; ++i) REQUIRE(q.dequeue()->value == i);
    }
  }
  CHECK(counted.live() == 0);
}

TEST_CASE("trim on a queue that was never used, or twice, changes nothing") {
  async::queue<int> q;
  q.trim();
  q.enqueue(1);
  q.trim();
  q.trim();
  CHECK(q.dequeue() == 1);
  CHECK_FALSE(q.dequeue());
}

TEST_CASE("a reserved queue allocates nothing until it holds as many elements") {
  for (const std::size_t reserve : {std::size_t{1}, std::size_t{10'000}, std::size_t{100'000}}) {
    async::queue<std::uint64_t> q(reserve);
    testing::alloc_counter counted;
    for (std::size_t i = 0; i < reserve; ++i) q.enqueue(i);
    CHECK(counted.calls() == 0);
  }
}

TEST_CASE("reserving more elements than a queue can hold throws without allocating") {
  constexpr std::size_t most = (std::numeric_limits<std::size_t>::max)();
  testing::alloc_counter counted;
  CHECK_THROWS_AS((async::queue<wide, few>(31)), std::bad_alloc);
  CHECK_THROWS_AS(async::queue<int>{most}, std::bad_alloc);
  CHECK(counted.calls() < 20);
  CHECK(counted.live() == 0);
  async::queue<wide, few> fits(28);
}

TEST_CASE("a small element takes one byte more than its size, except in the last segment") {
  testing::alloc_counter counted;
  async::queue<std::uint64_t> q;
  constexpr std::size_t elements = 1'000'000;
  for (std::size_t i = 0; i < elements; ++i) q.enqueue(i);
  CHECK(counted.calls() <= elements * 10 / async::queue_traits::segment_bytes + 10);
}

TEST_CASE("an element that is neither copyable nor movable goes in, is handed to its receiver, and is destroyed") {
  struct fixed : testing::live_count<fixed> {
    explicit fixed(int v) : value(v) {}
    fixed(const fixed&) = delete;
    fixed& operator=(const fixed&) = delete;
    int value;
  };
  struct reader {
    reader& operator=(fixed&& from) {
      value = from.value;
      return *this;
    }
    int value = 0;
  };
  {
    async::queue<fixed> q;
    q.enqueue(1);
    q.enqueue(2);
    reader out;
    CHECK(q.dequeue(out));
    CHECK(out.value == 1);
    CHECK(fixed::live() == 1);
  }
  CHECK(fixed::live() == 0);
}

TEST_CASE("an iterator that throws ends a bulk_enqueue; the elements before are enqueued") {
  struct broken {
    using value_type = int;
    using difference_type = std::ptrdiff_t;
    int operator*() const { return at; }
    broken& operator++() {
      if (at == 3) throw std::runtime_error("iterator");
      ++at;
      return *this;
    }
    void operator++(int) { ++*this; }
    int at;
  };
  async::queue<int> q;
  CHECK_THROWS_AS(q.bulk_enqueue(broken{1}, 10), std::runtime_error);
  q.enqueue(9);
  for (const int expected : {1, 2, 3, 9}) CHECK(q.dequeue() == expected);
  CHECK_FALSE(q.dequeue());
}

TEST_CASE("unsupported element types and arguments are rejected at compile time") {
  using q = async::queue<std::unique_ptr<int>>;
  static_assert(!std::is_copy_constructible_v<q> && !std::is_move_constructible_v<q> && !std::is_copy_assignable_v<q>);
  static_assert(std::is_same_v<q::value_type, std::unique_ptr<int>> && q::is_always_lock_free);
  static_assert(takes<q, std::unique_ptr<int>> && takes<q, int*> && !takes<q, const std::unique_ptr<int>&>);
  static_assert(gives<q, std::unique_ptr<int>> && gives<q, std::shared_ptr<int>> && !gives<q, int>);
  struct fixed {
    fixed(fixed&&) = delete;
  };
  static_assert(can_dequeue<q> && !can_dequeue<async::queue<fixed>>);
}
