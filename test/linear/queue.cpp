// SPDX-License-Identifier: BSL-1.0
//
// Linearizability of the queues: threads see what they would see if calls took effect one by one. Searches short
// histories for an order that explains them.
#include <doctest/doctest.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "async/bounded_queue.hpp"
#include "async/queue.hpp"
#include "support/fifo_history.hpp"
#include "support/scale.hpp"
#include "support/start_line.hpp"

using namespace testing;
using clock_type = std::chrono::steady_clock;

namespace {

unsigned next_random() {
  thread_local std::uint64_t state = testing::seed() + std::hash<std::thread::id>{}(std::this_thread::get_id());
  state = state * 6364136223846793005U + 1442695040888963407U;
  return static_cast<unsigned>(state >> 33);
}
/// Often yields in the middle of an operation.
void maybe_yield() noexcept {
  if (next_random() % 16 == 0) std::this_thread::yield();
}

struct unbounded_traits : async::queue_traits {
  static constexpr unsigned slot_bits = 2;
  static constexpr std::size_t segment_bytes = 1;
  static constexpr unsigned stall_rounds = 1;
  static void claimed() noexcept { maybe_yield(); }
  static void published() noexcept { maybe_yield(); }
  static void marking() noexcept { maybe_yield(); }
  static void passing() noexcept { maybe_yield(); }
};
struct bounded_traits : async::bounded_queue_traits {
  static constexpr std::uint64_t first_ticket = (std::uint64_t{1} << 30) - 3;
  static void claimed() noexcept { maybe_yield(); }
};

/// Too strictly aligned to share a cache line: a segment has two slots.
struct alignas(128) wide {
  char value;
};

struct unbounded {
  static constexpr std::size_t capacity = 0;
  bool enqueue(char value) {
    queue.enqueue(wide{value});
    return true;
  }
  bool dequeue(char& value) {
    const auto out = queue.dequeue();
    if (out) value = out->value;
    return out.has_value();
  }
  async::queue<wide, unbounded_traits> queue;
};
template <std::size_t Capacity>
struct bounded {
  static constexpr std::size_t capacity = Capacity;
  bool enqueue(char value) { return queue.enqueue(value); }
  bool dequeue(char& value) { return queue.dequeue(value); }
  async::bounded_queue<char, bounded_traits> queue{Capacity};
};
/// Occasionally hands out the second element.
struct out_of_order {
  static constexpr std::size_t capacity = 0;
  bool enqueue(char value) {
    const std::lock_guard hold(mutex);
    elements.push_back(value);
    return true;
  }
  bool dequeue(char& value) {
    const std::lock_guard hold(mutex);
    if (elements.empty()) return false;
    const auto at = elements.begin() + (elements.size() > 1 && next_random() % 4 == 0 ? 1 : 0);
    value = *at;
    elements.erase(at);
    return true;
  }
  std::mutex mutex;
  std::deque<char> elements;
};
/// Reports "empty" when it is only busy.
struct busy_is_empty : out_of_order {
  bool dequeue(char& value) {
    if (next_random() % 8 == 0) return false;
    const std::lock_guard hold(mutex);
    if (elements.empty()) return false;
    value = elements.front();
    elements.pop_front();
    return true;
  }
};

struct findings {
  std::size_t histories = 0;
  std::size_t overlapping = 0;  // have calls of different threads at the same time
  std::size_t empty = 0;        // have a dequeue that found nothing
  std::size_t full = 0;
  std::size_t broken = 0;  // explained by no order
  std::string first_broken;

  void add(std::vector<queue_call> calls, std::size_t capacity) {
    ++histories;
    const auto some = [&calls](auto is) { return std::any_of(calls.begin(), calls.end(), is) ? 1U : 0U; };
    empty += some([](const queue_call& c) { return c.what == queue_call::dequeue && !c.succeeded; });
    full += some([](const queue_call& c) { return c.what == queue_call::enqueue && !c.succeeded; });
    overlapping += some([&](const queue_call& a) {
      return some([&a](const queue_call& b) { return a.thread != b.thread && a.start <= b.end && b.start <= a.end; });
    });
    fifo_history history(std::move(calls), capacity);
    if (!history.is_linearizable() && broken++ == 0) first_broken = history.explanation();
  }
};

/// Histories of random calls by some threads on a new queue each.
template <class Queue>
findings study(std::size_t threads, std::size_t calls, std::size_t histories) {
  findings found;
  std::vector<std::vector<queue_call>> seen(threads);
  std::optional<Queue> queue;
  queue.emplace();
  const auto between = [&]() noexcept {
    std::vector<queue_call> all;
    for (auto& part : seen) {
      all.insert(all.end(), part.begin(), part.end());
      part.clear();
    }
    found.add(std::move(all), Queue::capacity);
    queue.emplace();
  };
  std::barrier round(static_cast<std::ptrdiff_t>(threads), between);
  run_threads(threads, [&](std::size_t thread) {
    for (std::size_t i = 0; i < histories; ++i) {
      for (std::size_t call = 0; call < calls; ++call) {
        char value = static_cast<char>('a' + thread * calls + call);
        const bool enqueues = next_random() % 2 == 0;
        const auto start = clock_type::now();
        const bool succeeded = enqueues ? queue->enqueue(value) : queue->dequeue(value);
        const auto end = clock_type::now();
        seen[thread].push_back(
            {enqueues ? queue_call::enqueue : queue_call::dequeue, succeeded, value, start, end, thread});
      }
      round.arrive_and_wait();
    }
  });
  return found;
}

template <class Queue>
void check_histories(std::size_t histories) {
  const std::size_t each = rounds(histories);
  for (const findings& found : {study<Queue>(3, 6, each), study<Queue>(4, 4, each / 4 + 1)}) {
    CHECK_MESSAGE(found.broken == 0, found.broken << " histories that no order explains, the first:\n"
                                                  << found.first_broken);
    CHECK(found.empty > found.histories / 10);
    CHECK((found.full > found.histories / 10 || Queue::capacity == 0));
    std::printf("count: %zu histories\ncount: %zu with calls that overlap\n", found.histories, found.overlapping);
    std::printf("count: %zu where it is empty\ncount: %zu where it is full\n", found.empty, found.full);
  }
}

/// Calls one after another, then what they would be if all overlapped.
bool explains(std::vector<queue_call> calls, std::size_t capacity, bool overlap) {
  for (std::size_t i = 0; i < calls.size(); ++i) {
    calls[i].start = moment(std::chrono::seconds(overlap ? 0 : 2 * i));
    calls[i].end = moment(std::chrono::seconds(overlap ? 1 : 2 * i + 1));
  }
  return fifo_history(calls, capacity).is_linearizable();
}
queue_call in(char value, bool succeeded = true) { return {queue_call::enqueue, succeeded, value, {}, {}}; }
queue_call out(char value, bool succeeded = true) { return {queue_call::dequeue, succeeded, value, {}, {}}; }

}  // namespace

TEST_CASE("the search accepts exactly what a queue may do") {
  CHECK(explains({in('a'), in('b'), out('a'), out('b'), out('-', false)}, 0, false));
  CHECK(explains({in('a'), in('b'), in('c', false), out('a'), in('c')}, 2, false));
  CHECK_FALSE(explains({in('a'), in('b'), out('b'), out('a')}, 0, false));
  CHECK(explains({in('a'), in('b'), out('b'), out('a')}, 0, true));
  CHECK_FALSE(explains({in('a'), out('-', false), out('a')}, 0, false));
  CHECK(explains({in('a'), out('-', false), out('a')}, 0, true));
  CHECK_FALSE(explains({in('a'), out('a'), out('a')}, 0, true));
  CHECK_FALSE(explains({in('a'), in('b', false)}, 2, true));
  CHECK_FALSE(explains({out('a')}, 0, true));
}

TEST_CASE("the search detects broken queues") {
  CHECK(study<out_of_order>(3, 6, 2000).broken > 0);
  CHECK(study<busy_is_empty>(3, 6, 2000).broken > 0);
}

TEST_CASE("a history that no order explains is shown on a line for each thread") {
  const auto at = [](int seconds) { return moment(std::chrono::seconds(seconds)); };
  fifo_history history({{queue_call::enqueue, true, 'a', at(1), at(4), 0},
                        {queue_call::dequeue, false, '-', at(2), at(3), 1},
                        {queue_call::dequeue, false, '-', at(5), at(6), 1},
                        {queue_call::enqueue, false, 'b', at(6), at(6), 0}});
  CHECK_FALSE(history.is_linearizable());
  CHECK(history.explanation() ==
        "thread 0  |in a--------| |in b: full|\n"
        "thread 1   |out: empty| |out: empty|\n"
        "an order explains 2 of 4 calls: (out: empty) (in a)\n");
}

TEST_CASE("histories of the queue are linearizable") { check_histories<unbounded>(40'000); }
TEST_CASE("histories of a bounded queue are linearizable") { check_histories<bounded<2>>(40'000); }
TEST_CASE("histories of a bounded queue of one slot are linearizable") { check_histories<bounded<1>>(10'000); }
