// SPDX-License-Identifier: BSL-1.0
#include "async/detail/pool/run_queue.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

#include "async/detail/pool/backlog.hpp"
#include "support/scale.hpp"
#include "support/start_line.hpp"

using async::detail::backlog;
using async::detail::run_queue;

namespace {

/// An item: its content is written by the thread that pushes it and read and written by the one that takes it, without
/// atomics. A second taker is a data race, and finds another content.
struct item {
  std::uint64_t content = 0;
  std::uint32_t taken = 0;
  item* behind = nullptr;
};

constexpr std::uint64_t mark = 0x5eed'0000'0000ULL;

/// `count` items, of which the threads take each once.
struct ledger {
  explicit ledger(std::size_t count) : items(count) {}

  item& make(std::size_t number) {
    items[number].content = mark + number;
    return items[number];
  }
  /// What a taker does: 1 if the item is wrong.
  std::size_t use(item& taken) const {
    const auto number = static_cast<std::size_t>(&taken - items.data());
    const std::size_t wrong = taken.content == mark + number && taken.taken == 0 ? 0 : 1;
    taken.content = 0;
    ++taken.taken;
    return wrong;
  }
  std::size_t not_taken_once() const {
    std::size_t wrong = 0;
    for (const item& each : items) wrong += each.taken == 1 ? 0U : 1U;
    return wrong;
  }
  std::vector<item> items;
};

std::minstd_rand random_from(std::size_t seed) {
  return std::minstd_rand(static_cast<std::minstd_rand::result_type>(seed * 2654435761U + 1));
}

/// Owner: pushes `next`; what does not fit goes to the backlog.
template <class Queue>
void push_or_spill(Queue& queue, backlog<item>& rest, item& next) {
  while (!queue.push(next)) {
    item* first = nullptr;
    item* last = nullptr;
    std::size_t count = 0;
    queue.spill([&](item& spilled) {
      (first == nullptr ? first : last->behind) = &spilled;
      last = &spilled;
      ++count;
    });
    if (count != 0) rest.push_all(first, last, count);
  }
}

/// One owner pushes, takes and spills; three thieves steal halves of its queue and of each other's. All
/// take from all queues and from the backlog.
template <std::uint32_t Capacity>
void share(std::size_t count) {
  constexpr std::size_t threads = 4;
  ledger book(count);
  std::vector<run_queue<item, Capacity>> queues(threads);
  backlog<item> rest;
  std::atomic<std::size_t> left{count};
  std::atomic<std::size_t> wrong{0};

  testing::run_threads(threads, [&](std::size_t me) {
    std::minstd_rand random = random_from(me);
    run_queue<item, Capacity>& own = queues[me];
    const auto use = [&](item* taken) {
      if (taken == nullptr) return false;
      if (book.use(*taken) != 0) wrong.fetch_add(1, std::memory_order_relaxed);
      left.fetch_sub(1, std::memory_order_relaxed);
      return true;
    };
    const auto use_backlog = [&](std::size_t most) {
      for (item* next = rest.take(most); next != nullptr;) {
        item* const here = next;
        next = here->behind;
        use(here);
      }
    };
    if (me == 0) {
      for (std::size_t made = 0; made < count;) {
        for (std::size_t burst = 1 + random() % (2 * Capacity); burst != 0 && made < count; --burst) {
          push_or_spill(own, rest, book.make(made++));
        }
        for (std::size_t some = random() % Capacity; some != 0 && use(own.take()); --some) {
        }
        if (random() % 16 == 0) std::this_thread::yield();
      }
    }
    std::size_t newest_of_owner = 0;
    for (unsigned failed = 0; left.load(std::memory_order_relaxed) != 0;) {
      const std::size_t victim = random() % threads;
      const bool takes_one = me == 0 || victim == me || random() % 8 == 0;
      item* const taken = takes_one ? queues[victim].take() : own.steal_half(queues[victim]);
      if (taken != nullptr && victim == 0) {  // the owner does not steal: its items come in the order of their making
        const auto number = static_cast<std::size_t>(taken - book.items.data()) + 1;
        if (number <= newest_of_owner) wrong.fetch_add(1, std::memory_order_relaxed);
        newest_of_owner = number;
      }
      failed = use(taken) ? 0 : failed + 1;
      if (random() % 8 == 0) use_backlog(1 + random() % 3);
      if (failed % 64 == 63) std::this_thread::yield();
    }
  });

  CHECK(wrong.load() == 0);
  CHECK(book.not_taken_once() == 0);
  CHECK(rest.empty());
  for (const auto& queue : queues) CHECK(queue.empty());
}

}  // namespace

TEST_CASE("run queue: one owner and three thieves that steal from each other take each item once") {
  const std::size_t count = testing::rounds(600'000);
  SUBCASE("a ring of two") { share<2>(count); }
  SUBCASE("a ring of eight") { share<8>(count); }
  SUBCASE("the ring of a worker") { share<256>(count); }
}

TEST_CASE("backlog: two push items and chains, two take chains, each item once") {
  constexpr std::size_t threads = 4;
  const std::size_t half = testing::rounds(200'000);
  ledger book(2 * half);
  backlog<item> all;
  std::atomic<std::size_t> left{2 * half};
  std::atomic<std::size_t> wrong{0};

  testing::run_threads(threads, [&](std::size_t me) {
    std::minstd_rand random = random_from(me);
    if (me < 2) {
      const std::size_t end = (me + 1) * half;
      for (std::size_t made = me * half; made < end;) {
        item& first = book.make(made++);
        item* last = &first;
        std::size_t count = 1;
        for (std::size_t more = random() % 4; more != 0 && made < end; --more, ++count) {
          last->behind = &book.make(made++);
          last = last->behind;
        }
        if (count == 1) {
          all.push(first);
        } else {
          all.push_all(&first, last, count);
        }
      }
      return;
    }
    std::size_t last_of[2] = {0, 0};
    while (left.load(std::memory_order_relaxed) != 0) {
      item* next = all.take(1 + random() % 5);
      if (next == nullptr) std::this_thread::yield();
      while (next != nullptr) {
        item& here = *next;
        next = here.behind;
        const auto number = static_cast<std::size_t>(&here - book.items.data()) + 1;
        std::size_t& last = last_of[number > half ? 1 : 0];
        if (number <= last || book.use(here) != 0) wrong.fetch_add(1, std::memory_order_relaxed);
        last = number;
        left.fetch_sub(1, std::memory_order_relaxed);
      }
    }
  });

  CHECK(wrong.load() == 0);
  CHECK(book.not_taken_once() == 0);
  CHECK(all.empty());
}
