// SPDX-License-Identifier: BSL-1.0
#include "async/detail/pool/run_queue.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "async/detail/pool/backlog.hpp"

using async::detail::backlog;
using async::detail::run_queue;

namespace {

struct numbered {
  std::uint32_t number = 0;
  numbered* behind = nullptr;
};
using numbers = std::vector<std::uint32_t>;
using small_queue = run_queue<numbered, 8>;

/// Items 0, 1, 2, ..., and what comes out of queues.
struct source {
  source() {
    for (std::uint32_t i = 0; i < items.size(); ++i) items[i].number = i;
  }
  template <class Queue>
  void fill(Queue& queue, std::uint32_t from, std::uint32_t to) {
    for (std::uint32_t i = from; i < to; ++i) REQUIRE(queue.push(items[i]));
  }
  std::array<numbered, 600> items{};
};

numbers from_to(std::uint32_t from, std::uint32_t to) {
  numbers all;
  for (std::uint32_t i = from; i < to; ++i) all.push_back(i);
  return all;
}
template <class Queue>
numbers drained(Queue& queue) {
  numbers all;
  while (const numbered* const next = queue.take()) all.push_back(next->number);
  CHECK(queue.empty());
  CHECK(queue.size() == 0);
  return all;
}
numbers in_chain(const numbered* first) {
  numbers all;
  for (; first != nullptr; first = first->behind) all.push_back(first->number);
  return all;
}

static_assert(run_queue<numbered>::capacity == 256);
static_assert(!std::is_copy_constructible_v<run_queue<numbered>> && !std::is_copy_constructible_v<backlog<numbered>>);

}  // namespace

TEST_CASE("run queue: gives what it was given, oldest first") {
  source from;
  run_queue<numbered> queue;
  CHECK(queue.empty());
  CHECK(queue.take() == nullptr);
  from.fill(queue, 0, 3);
  CHECK_FALSE(queue.empty());
  CHECK(queue.size() == 3);
  CHECK(queue.take() == &from.items[0]);
  CHECK(queue.size() == 2);
  CHECK(drained(queue) == from_to(1, 3));
  CHECK(queue.take() == nullptr);
}

TEST_CASE("run queue: the owner can look ahead of what it takes next") {
  source from;
  small_queue queue;
  CHECK(queue.look(0) == nullptr);
  for (std::uint32_t round = 0; round < 20; ++round) {  // also across the end of the ring
    from.fill(queue, 0, 3);
    CHECK(queue.look(0) == &from.items[0]);
    CHECK(queue.look(2) == &from.items[2]);
    CHECK(queue.look(3) == nullptr);
    CHECK(queue.take() == &from.items[0]);
    CHECK(queue.look(0) == &from.items[1]);
    CHECK(queue.look(2) == nullptr);
    CHECK(drained(queue) == from_to(1, 3));
    CHECK(queue.look(0) == nullptr);
  }
}

TEST_CASE("run queue: the owner can count what is left of the elements that were there at a time") {
  source from;
  small_queue queue;
  for (std::uint32_t round = 0; round < 20; ++round) {
    CHECK(queue.count_before(queue.end()) == 0);
    from.fill(queue, 0, 2);
    const std::uint64_t end = queue.end();
    from.fill(queue, 2, 3);
    CHECK(queue.count_before(end) == 2);
    CHECK(queue.take() == &from.items[0]);
    CHECK(queue.count_before(end) == 1);
    CHECK(drained(queue) == from_to(1, 3));
    CHECK(queue.count_before(end) == 0);
  }
}

TEST_CASE("run queue: is full at its capacity, wherever it starts in its ring") {
  source from;
  run_queue<numbered> queue;
  for (std::uint32_t start = 0; start < 600; start += 37) {
    CAPTURE(start);
    from.fill(queue, 0, 256);
    CHECK(queue.size() == 256);
    CHECK_FALSE(queue.push(from.items[256]));
    CHECK(queue.size() == 256);
    CHECK(queue.take() == &from.items[0]);
    CHECK(queue.push(from.items[256]));
    CHECK_FALSE(queue.push(from.items[257]));
    CHECK(drained(queue) == from_to(1, 257));
    for (int i = 0; i < 37; ++i) {  // the next round starts elsewhere
      REQUIRE(queue.push(from.items[0]));
      REQUIRE(queue.take() == &from.items[0]);
    }
  }
}

TEST_CASE("run queue: keeps the order through many rounds of its ring") {
  source from;
  small_queue queue;
  std::uint32_t pushed = 0;
  std::uint32_t taken = 0;
  while (pushed < 600) {
    while (pushed < 600 && queue.push(from.items[pushed])) ++pushed;
    for (std::uint32_t i = 0; i < 1 + taken % 7; ++i) {
      const numbered* const next = queue.take();
      if (next == nullptr) break;
      REQUIRE(next->number == taken);
      ++taken;
    }
    REQUIRE(queue.size() == pushed - taken);
  }
  CHECK(drained(queue) == from_to(taken, 600));
}

TEST_CASE("run queue: spills the oldest half of a full queue, and nothing of another") {
  source from;
  small_queue queue;
  from.fill(queue, 0, 3);
  CHECK(drained(queue) == from_to(0, 3));
  numbers spilled;
  const auto note = [&](numbered& item) { spilled.push_back(item.number); };
  from.fill(queue, 0, 7);
  queue.spill(note);
  CHECK(spilled.empty());
  CHECK(queue.size() == 7);
  from.fill(queue, 7, 8);
  REQUIRE_FALSE(queue.push(from.items[8]));
  queue.spill(note);
  CHECK(spilled == from_to(0, 4));
  CHECK(queue.size() == 4);
  from.fill(queue, 8, 12);
  CHECK_FALSE(queue.push(from.items[12]));
  CHECK(drained(queue) == from_to(4, 12));
}

TEST_CASE("run queue: a thief gets half, rounded up: the oldest at once, the others in its queue") {
  for (std::uint32_t size = 0; size <= 8; ++size) {
    for (std::uint32_t start = 0; start < 8; ++start) {
      CAPTURE(size);
      CAPTURE(start);
      source from;
      small_queue victim;
      small_queue thief;
      for (std::uint32_t i = 0; i < start; ++i) {
        REQUIRE(victim.push(from.items[0]));
        REQUIRE(victim.take() == &from.items[0]);
        REQUIRE((thief.push(from.items[0]) && thief.push(from.items[0])));
        REQUIRE((thief.take() != nullptr && thief.take() != nullptr));
      }
      from.fill(victim, 0, size);
      const std::uint32_t half = (size + 1) / 2;
      const numbered* const got = thief.steal_half(victim);
      CHECK(got == (size == 0 ? nullptr : &from.items[0]));
      CHECK(victim.size() == size - half);
      CHECK(drained(victim) == from_to(half, size));
      CHECK(drained(thief) == from_to(size == 0 ? 0 : 1, half));
    }
  }
}

TEST_CASE("run queue: a thief takes as many as fit behind its own") {
  for (std::uint32_t own = 0; own <= 8; ++own) {
    CAPTURE(own);
    source from;
    small_queue victim;
    small_queue thief;
    from.fill(victim, 100, 108);
    from.fill(thief, 0, own);
    CHECK(thief.steal_half(victim) == &from.items[100]);
    const std::uint32_t moved = own <= 5 ? 3 : 8 - own;
    CHECK(thief.size() == own + moved);
    CHECK(drained(victim) == from_to(101 + moved, 108));
    numbers expected = from_to(0, own);
    for (std::uint32_t i = 0; i < moved; ++i) expected.push_back(101 + i);
    CHECK(drained(thief) == expected);
  }
}

TEST_CASE("run queue: what was stolen can be stolen again") {
  source from;
  small_queue first;
  small_queue second;
  small_queue third;
  from.fill(first, 0, 8);
  CHECK(second.steal_half(first) == &from.items[0]);
  CHECK(third.steal_half(second) == &from.items[1]);
  CHECK(drained(third) == from_to(2, 3));
  CHECK(drained(second) == from_to(3, 4));
  CHECK(drained(first) == from_to(4, 8));
}

TEST_CASE("backlog: gives what it was given, oldest first, in chains of the size asked for") {
  source from;
  backlog<numbered> all;
  CHECK(all.empty());
  CHECK(all.take(4) == nullptr);
  for (std::uint32_t i = 0; i < 5; ++i) all.push(from.items[i]);
  CHECK(all.size() == 5);
  CHECK_FALSE(all.empty());
  CHECK(in_chain(all.take(1)) == from_to(0, 1));
  CHECK(in_chain(all.take(2)) == from_to(1, 3));
  CHECK(all.size() == 2);
  all.push(from.items[5]);
  CHECK(in_chain(all.take(3)) == from_to(3, 6));
  CHECK(all.empty());
  CHECK(all.take(1) == nullptr);
  all.push(from.items[6]);
  CHECK(in_chain(all.take(10)) == from_to(6, 7));
  CHECK(all.size() == 0);
}

TEST_CASE("backlog: a chain keeps its order behind what is there, whatever follows its last element") {
  source from;
  backlog<numbered> all;
  const auto chain = [&](std::uint32_t first, std::uint32_t count) {
    for (std::uint32_t i = first; i + 1 < first + count; ++i) from.items[i].behind = &from.items[i + 1];
    from.items[first + count - 1].behind = &from.items[599];  // left from an earlier use
    all.push_all(&from.items[first], &from.items[first + count - 1], count);
  };
  chain(0, 3);
  CHECK(all.size() == 3);
  all.push(from.items[3]);
  chain(4, 1);
  chain(5, 4);
  CHECK(all.size() == 9);
  CHECK(in_chain(all.take(4)) == from_to(0, 4));
  CHECK(in_chain(all.take(3)) == from_to(4, 7));
  CHECK(in_chain(all.take(3)) == from_to(7, 9));
  CHECK(all.empty());
}

TEST_CASE("backlog: takes in what a run queue spills") {
  source from;
  small_queue queue;
  backlog<numbered> all;
  for (std::uint32_t i = 0; i < 100; ++i) {
    while (!queue.push(from.items[i])) {
      numbered* first = nullptr;
      numbered* last = nullptr;
      std::size_t count = 0;
      queue.spill([&](numbered& item) {
        (first == nullptr ? first : last->behind) = &item;
        last = &item;
        ++count;
      });
      REQUIRE(count == 4);
      all.push_all(first, last, count);
    }
  }
  CHECK(in_chain(all.take(1000)) == from_to(0, 92));
  CHECK(drained(queue) == from_to(92, 100));
}
