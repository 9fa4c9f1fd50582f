// SPDX-License-Identifier: BSL-1.0
#include "async/detail/loop/ready_queue.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "support/scale.hpp"

using async::detail::ready_queue;
using async::detail::runnable;

namespace {

struct entry : runnable {
  explicit entry(int n) : runnable(nullptr), number(n) {}
  int number;
};

int pop(ready_queue& queue) {
  REQUIRE_FALSE(queue.empty());
  runnable* const r = queue.pop();
  REQUIRE(r != nullptr);
  CHECK_FALSE(r->queued());
  return static_cast<entry*>(r)->number;
}

}  // namespace

TEST_CASE("runnables come out in the order pushed, and may be pushed again") {
  ready_queue queue;
  entry a(1), b(2);
  queue.reserve(2);
  CHECK(queue.empty());
  for (int i = 0; i < 1000; ++i) {
    queue.push(a);
    queue.push(b);
    CHECK(a.queued());
    CHECK(queue.size() == 2);
    CHECK(pop(queue) == 1);
    CHECK(pop(queue) == 2);
    CHECK(queue.empty());
  }
}

TEST_CASE("the runnable that was popped last is known until it is pushed over") {
  ready_queue queue;
  CHECK(queue.last() == nullptr);
  entry a(1), b(2);
  queue.reserve(1);
  for (entry* const each : {&a, &b, &a}) {
    queue.push(*each);
    CHECK(queue.pop() == each);
    CHECK(queue.last() == each);
  }
  queue.reserve(1);  // more room
  queue.push(a);
  queue.push(b);
  CHECK(queue.pop() == &a);
  CHECK(queue.last() == &a);
}

TEST_CASE("an erased runnable does not come out, and erasing it twice returns false") {
  ready_queue queue;
  entry a(1), b(2), c(3);
  queue.reserve(3);
  queue.push(a);
  queue.push(b);
  queue.push(c);
  CHECK(queue.erase(b));
  CHECK_FALSE(queue.erase(b));
  CHECK_FALSE(b.queued());
  CHECK(pop(queue) == 1);
  queue.push(b);
  CHECK(pop(queue) == 3);
  CHECK(pop(queue) == 2);
  queue.push(a);
  CHECK(queue.erase(a));
  CHECK(queue.empty());
}

TEST_CASE("growing keeps order and places") {
  ready_queue queue;
  std::vector<std::unique_ptr<entry>> entries;
  for (int i = 0; i < 5000; ++i) {
    entries.push_back(std::make_unique<entry>(i));
    queue.reserve(1);
    queue.push(*entries.back());
    if (i % 7 == 3) CHECK(queue.erase(*entries[static_cast<std::size_t>(i / 2 * 2)]));
    if (i % 7 == 3 && entries[static_cast<std::size_t>(i / 2 * 2)] != nullptr) {
      queue.push(*entries[static_cast<std::size_t>(i / 2 * 2)]);
    }
  }
  int count = 0;
  while (!queue.empty()) {
    if (queue.pop() != nullptr) ++count;
  }
  CHECK(count == 5000);
}

TEST_CASE("erasing and pushing the same runnables again and again needs no more room than was reserved") {
  ready_queue queue;
  std::vector<std::unique_ptr<entry>> entries;
  queue.reserve(60);  // a ring of 64
  for (int i = 0; i < 60; ++i) queue.push(*entries.emplace_back(std::make_unique<entry>(i)));
  for (std::size_t i = 0; i < 10000; ++i) {
    entry& e = *entries[i * 7 % 59 + 1];  // all but the oldest
    CHECK(queue.erase(e));
    queue.push(e);
  }
  CHECK(pop(queue) == 0);
}

TEST_CASE("random use gives the results of a deque, and a batch has the runnables that were there when it began") {
  std::mt19937_64 random(testing::seed());
  ready_queue queue;
  std::vector<std::unique_ptr<entry>> entries;
  std::deque<int> expected;
  std::size_t of_batch = 0;  // of those expected
  bool in_batch = false;
  for (std::size_t i = 0; i < testing::rounds(200000); ++i) {
    const std::uint64_t what = random() % 16;
    if (what == 0 && entries.size() < 3000) {
      queue.reserve(1);
      entries.push_back(std::make_unique<entry>(static_cast<int>(entries.size())));
    } else if (what < 8 && !entries.empty()) {
      entry& e = *entries[static_cast<std::size_t>(random() % entries.size())];
      if (e.queued()) continue;
      queue.push(e);
      expected.push_back(e.number);
    } else if (what < 10 && !expected.empty()) {
      const auto victim = expected.begin() + static_cast<std::ptrdiff_t>(random() % expected.size());
      REQUIRE(queue.erase(*entries[static_cast<std::size_t>(*victim)]));
      if (victim < expected.begin() + static_cast<std::ptrdiff_t>(of_batch)) --of_batch;
      expected.erase(victim);
    } else if (what < 14) {
      if (in_batch) {
        in_batch = queue.next_of_batch();
      } else {
        of_batch = expected.size();
        in_batch = queue.begin_batch((std::numeric_limits<std::uint32_t>::max)()) != 0;
      }
      if (!in_batch) {
        REQUIRE(of_batch == 0);
      } else if (runnable* const r = queue.pop(); r != nullptr) {
        REQUIRE(of_batch-- != 0);
        REQUIRE(static_cast<entry*>(r)->number == expected.front());
        expected.pop_front();
      }
    } else if (what == 14) {
      REQUIRE(queue.empty() == expected.empty());
    } else if (expected.empty()) {
      queue.trim();
    }
  }
}

TEST_CASE("a small ring has as many places as are reserved, whatever is pushed, erased and popped") {
  std::mt19937_64 random(testing::seed());
  for (std::size_t count = 1; count <= 70; ++count) {
    ready_queue queue;
    std::vector<std::unique_ptr<entry>> entries;
    std::deque<int> expected;
    for (std::size_t i = 0; i < count; ++i) {
      queue.reserve(1);
      entries.push_back(std::make_unique<entry>(static_cast<int>(i)));
    }
    for (std::size_t i = 0; i < testing::rounds(2000); ++i) {
      entry& e = *entries[static_cast<std::size_t>(random() % count)];
      if (!e.queued()) {
        queue.push(e);
        expected.push_back(e.number);
      } else if (random() % 3 != 0) {
        REQUIRE(queue.erase(e));
        expected.erase(std::find(expected.begin(), expected.end(), e.number));
      } else {
        REQUIRE(pop(queue) == expected.front());
        expected.pop_front();
      }
      REQUIRE(queue.empty() == expected.empty());
    }
  }
}

TEST_CASE("one runnable needs no memory; the first ring has four places and serves four runnables") {
  ready_queue queue;
  queue.reserve(1);
  CHECK_FALSE(queue.try_reserve());
  CHECK(queue.trim() == 0);
  entry a(1);
  entry b(2);
  for (int round = 0; round != 3; ++round) {
    queue.push(a);
    CHECK(queue.erase(a));
    queue.push(a);
    CHECK(pop(queue) == 1);
    CHECK(queue.empty());
  }
  queue.push(a);
  queue.reserve(1);
  queue.push(b);
  CHECK(pop(queue) == 1);
  CHECK(pop(queue) == 2);
  queue.unreserve(1);
  for (int i = 0; i < 3; ++i) CHECK(queue.try_reserve());
  CHECK_FALSE(queue.try_reserve());
  CHECK(queue.trim() == 0);
  queue.unreserve(4);
  CHECK(queue.trim() == 4 * sizeof(void*));
}

TEST_CASE("trim frees places that are not reserved") {
  ready_queue queue;
  CHECK(queue.trim() == 0);
  queue.reserve(10000);
  queue.unreserve(9990);
  CHECK(queue.trim() > 9000 * sizeof(void*));
  entry a(1);
  queue.push(a);
  CHECK(pop(queue) == 1);
  queue.unreserve(10);
  CHECK(queue.trim() > 0);
  CHECK(queue.trim() == 0);
  queue.reserve(1);
  queue.push(a);
  CHECK(pop(queue) == 1);
}
