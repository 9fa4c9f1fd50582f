// SPDX-License-Identifier: BSL-1.0
//
// The blocking and timed calls of async::queue, closing, and their cost while they wait.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <ratio>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "async/queue.hpp"
#include "support/live_count.hpp"
#include "support/process_cpu_time.hpp"
#include "support/stopped_thread.hpp"
#include "support/watched_thread.hpp"

using async::queue;
using testing::stopped_thread;
using namespace std::chrono_literals;
using clock_type = std::chrono::steady_clock;

using testing::watched_thread;

namespace {

/// Segments of two slots, in which a test can stop producers between the claim of a slot and its use.
struct stops : async::queue_traits {
  static constexpr unsigned slot_bits = 2;
  static constexpr std::size_t segment_bytes = 1;
  static constexpr unsigned stall_rounds = 1;
  static void claimed() noexcept { stopped_thread::stop_here(0); }
};
struct alignas(128) item : testing::live_count<item> {
  explicit item(int v) noexcept(false) : value(v) {
    if (v < 0) throw std::runtime_error("negative");
  }
  item(item&&) noexcept = default;
  item& operator=(item&&) noexcept = default;
  int value;
};

/// Words that leave no bit for "closed", were the version not shortened.
struct full_words : async::queue_traits {
  static constexpr unsigned version_bits = 31, index_bits = 20, slot_bits = 12;
};

template <class Queue>
std::vector<int> drain(Queue& q) {
  std::vector<int> out;
  while (const auto i = q.dequeue()) out.push_back(i->value);
  return out;
}
using words = std::vector<int>;

}  // namespace

TEST_CASE("blocking_dequeue waits for an element") {
  queue<int> q;
  int value = 0;
  bool result = false;
  watched_thread consumer([&] { result = q.blocking_dequeue(value); });
  std::this_thread::sleep_for(20ms);
  CHECK_FALSE(consumer.is_done());
  CHECK(q.enqueue(7));
  consumer.join();
  CHECK(result);
  CHECK(value == 7);
}

TEST_CASE("calls that may wait return at once when there is an element, in order") {
  queue<std::unique_ptr<int>> q;
  for (int i = 0; i < 6000; ++i) q.enqueue(std::make_unique<int>(i));
  for (int i = 0; i < 6000; i += 2) {
    std::unique_ptr<int> value;
    REQUIRE(q.blocking_dequeue(value));
    REQUIRE(*value == i);
    std::shared_ptr<int> shared;  // any type that an element can be assigned to
    REQUIRE(q.dequeue_for(shared, i % 4 == 0 ? 0s : -1s));
    REQUIRE(*shared == i + 1);
  }
}

TEST_CASE("dequeue_for gives up after its limit, never before, and leaves its argument alone") {
  queue<int> q;
  for (const auto limit : {0ms, 1ms, 30ms}) {
    int value = 42;
    const auto start = clock_type::now();
    CHECK_FALSE(q.dequeue_for(value, limit));
    CHECK(clock_type::now() - start >= limit);
    CHECK(value == 42);
  }
}

TEST_CASE("dequeue_until gives up at a moment of any clock, or when the queue is closed") {
  async::queue<int> q;
  int value = 42;
  const auto moment = std::chrono::system_clock::now() + 20ms;
  CHECK_FALSE(q.dequeue_until(value, moment));
  CHECK(std::chrono::system_clock::now() >= moment);
  CHECK(value == 42);
  bool result = true;
  watched_thread consumer([&] { result = q.dequeue_until(value, (std::chrono::steady_clock::time_point::max)()); });
  std::this_thread::sleep_for(5ms);
  q.enqueue(1);
  consumer.join();
  CHECK(result);
  CHECK(value == 1);
  watched_thread waiting([&] { result = q.dequeue_until(value, std::chrono::system_clock::now() + 24h); });
  std::this_thread::sleep_for(5ms);
  q.close();
  waiting.join();
  CHECK_FALSE(result);
}

TEST_CASE("dequeue_for returns with an element that comes in time") {
  queue<int> q;
  int value = 0;
  bool result = false;
  watched_thread consumer([&] { result = q.dequeue_for(value, 60s); });
  std::this_thread::sleep_for(10ms);
  q.enqueue(7);
  consumer.join();
  CHECK(result);
  CHECK(value == 7);
}

TEST_CASE("limits that are negative, not a number, or beyond the end of time are understood") {
  queue<int> q;
  int value = 0;
  CHECK_FALSE(q.dequeue_for(value, -1h));
  CHECK_FALSE(q.dequeue_for(value, (std::chrono::nanoseconds::min)()));
  CHECK_FALSE(q.dequeue_for(value, std::chrono::duration<double>(std::numeric_limits<double>::quiet_NaN())));
  CHECK_FALSE(q.dequeue_for(value, std::chrono::duration<long long, std::pico>(1)));
  const auto wait = [&](auto limit) {
    watched_thread consumer([&q, limit] {
      int got = 0;
      CHECK(q.dequeue_for(got, limit));
    });
    std::this_thread::sleep_for(5ms);
    CHECK_FALSE(consumer.is_done());
    q.enqueue(1);
    consumer.join();
  };
  wait((std::chrono::nanoseconds::max)());
  wait((std::chrono::hours::max)());
  wait(std::chrono::duration<double>(std::numeric_limits<double>::infinity()));
}

TEST_CASE("waiting uses no CPU") {
  queue<int> q;
  std::vector<std::thread> waiting;
  for (int i = 0; i < 8; ++i) {
    waiting.emplace_back([&q, i] {
      int value = 0;
      CHECK_FALSE((i % 2 == 0 ? q.blocking_dequeue(value) : q.dequeue_for(value, 60s)));
    });
  }
  CHECK(testing::sleeps_for(500ms, 25ms));
  q.close();
  for (std::thread& t : waiting) t.join();
}

TEST_CASE("each element wakes a sleeper, also in a bulk of quick, slow or throwing iterators") {
  for (int round = 0; round < 60; ++round) {
    queue<int> q;
    std::atomic<int> sum{0};
    std::vector<std::thread> consumers;
    for (int i = 0; i < 5; ++i) {
      consumers.emplace_back([&] {
        int value = 0;
        if (q.blocking_dequeue(value)) sum += value;
      });
    }
    if (round % 2 == 0) std::this_thread::sleep_for(1ms);
    const int values[] = {1, 2};
    CHECK(q.enqueue(10));
    CHECK(q.bulk_enqueue(values, 2) == 2);
    std::istringstream text("100 200");
    CHECK(q.bulk_enqueue(std::istream_iterator<int>(text), 2) == 2);
    for (std::thread& t : consumers) t.join();
    CHECK(sum == 313);
  }
}

TEST_CASE("the elements before one whose constructor throws wake sleepers") {
  queue<item, stops> q;
  std::atomic<int> sum{0};
  std::vector<std::thread> consumers;
  for (int i = 0; i < 2; ++i) {
    consumers.emplace_back([&] {
      item value(0);
      if (q.blocking_dequeue(value)) sum += value.value;
    });
  }
  const int values[] = {1, 2, -1, 4};
  CHECK_THROWS_AS(q.bulk_enqueue(values, 4), std::runtime_error);
  for (std::thread& t : consumers) t.join();
  CHECK(sum == 3);
  CHECK_THROWS_AS(q.enqueue(-1), std::runtime_error);
  item value(0);
  CHECK_FALSE(q.dequeue_for(value, 1ms));
  q.close();
  CHECK_FALSE(q.blocking_dequeue(value));
}

TEST_CASE("an assignment that throws after a wait costs its element and no other") {
  struct fragile {
    fragile& operator=(int v) {
      if (v == 1) throw std::runtime_error("assignment");
      value = v;
      return *this;
    }
    int value = 0;
  };
  queue<int> q;
  fragile out;
  watched_thread consumer([&] {
    CHECK_THROWS_AS(q.blocking_dequeue(out), std::runtime_error);
    CHECK(q.blocking_dequeue(out));
  });
  q.enqueue(1);
  q.enqueue(2);
  consumer.join();
  CHECK(out.value == 2);
}

TEST_CASE("hundreds of sleepers each get an element") {
  queue<int> q;
  std::atomic<int> sum{0};
  std::vector<std::thread> consumers;
  for (int i = 0; i < 200; ++i) {
    consumers.emplace_back([&] {
      int value = 0;
      if (q.blocking_dequeue(value)) sum += value;
    });
  }
  std::vector<int> values(100);
  std::iota(values.begin(), values.end(), 0);
  for (int i = 100; i < 200; ++i) q.enqueue(i);
  q.bulk_enqueue(values.begin(), values.size());
  for (std::thread& t : consumers) t.join();
  CHECK(sum == 199 * 100);
}

TEST_CASE("close refuses further elements and leaves them to their owners; those inside come out") {
  queue<std::unique_ptr<int>> q;
  CHECK_FALSE(q.is_closed());
  CHECK(q.enqueue(std::make_unique<int>(1)));
  q.close();
  q.close();
  CHECK(q.is_closed());
  auto late = std::make_unique<int>(2);
  CHECK_FALSE(q.enqueue(std::move(late)));
  CHECK(late != nullptr);
  std::unique_ptr<int> several[2] = {std::make_unique<int>(3), std::make_unique<int>(4)};
  CHECK(q.bulk_enqueue(std::make_move_iterator(several), 2) == 0);
  CHECK(several[0] != nullptr);
  CHECK(q.approx_size() == 1);
  std::unique_ptr<int> out;
  CHECK(q.blocking_dequeue(out));
  CHECK(*out == 1);
  CHECK(q.empty());
  CHECK_FALSE(q.blocking_dequeue(out));
  CHECK_FALSE(q.dequeue_for(out, 60s));
  CHECK_FALSE(q.dequeue(out));
  CHECK_FALSE(q.dequeue());
  CHECK(q.bulk_dequeue(several, 2) == 0);
  q.trim();
  CHECK(q.is_closed());
}

TEST_CASE("a queue can be closed wherever its tail stands in a segment, however its words are divided") {
  const auto check = [](auto& q, int elements) {
    for (int i = 0; i < elements; ++i) REQUIRE(q.enqueue(i));
    q.close();
    REQUIRE_FALSE(q.enqueue(0));
    REQUIRE(q.approx_size() == static_cast<std::size_t>(elements));
    for (int i = 0; i < elements; ++i) REQUIRE(q.dequeue()->value == i);
    item out(0);
    REQUIRE_FALSE(q.blocking_dequeue(out));
    REQUIRE(q.approx_size() == 0);
  };
  for (int elements = 0; elements < 9; ++elements) {
    queue<item, stops> q;
    check(q, elements);
    queue<item, full_words> other;
    check(other, elements * 100);
  }
  CHECK(item::live() == 0);
}

TEST_CASE("a stream loses nothing to a bulk_enqueue that ends early") {
  queue<int> q;
  q.close();
  std::istringstream text("1 2 3");
  CHECK(q.bulk_enqueue(std::istream_iterator<int>(text), 2) == 0);
  int next = 0;
  text >> next;
  CHECK(next == 2);  // the iterator has read 1 itself
}

TEST_CASE("close ends the waiting of all consumers: false, once the queue is drained") {
  queue<int> q;
  std::atomic<int> got{0};
  std::atomic<int> ended{0};
  std::vector<std::thread> consumers;
  for (int i = 0; i < 6; ++i) {
    consumers.emplace_back([&, i] {
      for (int value = 0; i < 3 ? q.blocking_dequeue(value) : q.dequeue_for(value, 60s);) got += value;
      ++ended;
    });
  }
  for (int i = 1; i <= 100; ++i) q.enqueue(i);
  std::this_thread::sleep_for(10ms);
  CHECK(ended == 0);
  q.close();
  for (std::thread& t : consumers) t.join();
  CHECK(got == 5050);
}

TEST_CASE("an element under way when the queue is closed still comes out") {
  queue<item, stops> q;
  stopped_thread slow(0, [&] { CHECK(q.enqueue(1)); });
  REQUIRE(slow.is_stopped());
  q.close();
  item value(0);
  watched_thread consumer([&] {
    CHECK(q.blocking_dequeue(value));
    CHECK_FALSE(q.blocking_dequeue(value));
  });
  std::this_thread::sleep_for(10ms);
  CHECK_FALSE(consumer.is_done());
  slow.release();
  consumer.join();
  CHECK(value.value == 1);
}

TEST_CASE("the end comes after elements that consumers have passed over, also for calls that do not wait") {
  for (int before = 0; before < 4; ++before) {  // at each place in a segment
    queue<item, stops> q;
    for (int i = 0; i < before; ++i) {
      q.enqueue(0);
      q.dequeue();
    }
    stopped_thread slow(0, [&] { CHECK(q.enqueue(1)); });
    stopped_thread bulk(0, [&] {
      const int values[] = {2, 3, 4};
      CHECK(q.bulk_enqueue(values, 3) >= 1);  // what is claimed after the close is refused
    });
    CHECK_FALSE(q.dequeue());  // passes over both
    q.close();
    words got;
    watched_thread consumer([&] { got = drain(q); });
    std::this_thread::sleep_for(5ms);
    CHECK_FALSE(consumer.is_done());
    slow.release();
    bulk.release();
    consumer.join();
    CHECK(got == words{1, 2});
    CHECK(q.empty());
    CHECK_FALSE(q.dequeue());
  }
  CHECK(item::live() == 0);
}

TEST_CASE("no consumer waits for an element that was passed over and then could not be made") {
  queue<item, stops> q;
  stopped_thread slow(0, [&] { CHECK_THROWS_AS(q.enqueue(-1), std::runtime_error); });
  CHECK_FALSE(q.dequeue());  // passes over it
  q.close();
  item value(0);
  watched_thread consumer([&] { CHECK_FALSE(q.blocking_dequeue(value)); });
  std::this_thread::sleep_for(5ms);
  CHECK_FALSE(consumer.is_done());
  slow.release();
  consumer.join();
}

TEST_CASE("programs that ignore what enqueue returns still compile") {
  queue<int> q;
  q.enqueue(1);
  const int values[] = {2, 3};
  q.bulk_enqueue(values, 2);
  static_assert(std::is_same_v<decltype(q.enqueue(1)), bool>);
  CHECK(q.approx_size() == 3);
}
