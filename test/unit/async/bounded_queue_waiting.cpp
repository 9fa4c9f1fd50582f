// SPDX-License-Identifier: BSL-1.0
//
// The blocking and timed calls of async::bounded_queue, and their cost while they wait.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <limits>
#include <memory>
#include <optional>
#include <ratio>
#include <stdexcept>
#include <thread>
#include <vector>

#include "async/bounded_queue.hpp"
#include "support/process_cpu_time.hpp"
#include "support/wait_while.hpp"
#include "support/watched_thread.hpp"

using async::bounded_queue;
using namespace std::chrono_literals;
using clock_type = std::chrono::steady_clock;

using testing::watched_thread;

namespace {

/// Lets a test stop one thread between the claim of a slot and its use.
struct stoppable : async::bounded_queue_traits {
  static inline thread_local std::atomic<int>* gate = nullptr;  // 1: stopped here; 2: go on
  static void claimed() noexcept {
    if (gate == nullptr) return;
    gate->store(1);
    testing::wait_while(*gate, 1);
  }
};

/// A thread that is stopped within `call` until it is released.
template <class Call>
class stopped_within {
 public:
  explicit stopped_within(Call call)
      : thread_([this, call] {
          stoppable::gate = &gate_;
          call();
        }) {
    testing::wait_while(gate_, 0);
  }
  void release() {
    gate_.store(2);
    thread_.join();
  }

 private:
  std::atomic<int> gate_{0};
  std::thread thread_;
};

}  // namespace

TEST_CASE("blocking_dequeue waits for an element") {
  bounded_queue<int> q(4);
  int value = 0;
  bool result = false;
  watched_thread consumer([&] { result = q.blocking_dequeue(value); });
  std::this_thread::sleep_for(20ms);
  CHECK_FALSE(consumer.is_done());
  q.enqueue(7);
  consumer.join();
  CHECK(result);
  CHECK(value == 7);
}

TEST_CASE("blocking_enqueue waits for room") {
  bounded_queue<std::unique_ptr<int>> q(1);
  q.enqueue(std::make_unique<int>(1));
  bool result = false;
  watched_thread producer([&] { result = q.blocking_enqueue(std::make_unique<int>(2)); });
  std::this_thread::sleep_for(20ms);
  CHECK_FALSE(producer.is_done());
  CHECK(**q.dequeue() == 1);
  producer.join();
  CHECK(result);
  CHECK(**q.dequeue() == 2);
}

TEST_CASE("blocking calls return at once when they need not wait") {
  bounded_queue<int> q(2);
  CHECK(q.blocking_enqueue(1));
  CHECK(q.enqueue_for(0s, 2));
  int value = 0;
  CHECK(q.blocking_dequeue(value));
  CHECK(q.dequeue_for(value, 0s));
  CHECK(value == 2);
}

TEST_CASE("dequeue_for gives up after its limit, never before, and leaves its argument alone") {
  bounded_queue<int> q(4);
  for (const auto limit : {0ms, 1ms, 30ms}) {
    int value = 42;
    const auto start = clock_type::now();
    CHECK_FALSE(q.dequeue_for(value, limit));
    CHECK(clock_type::now() - start >= limit);
    CHECK(value == 42);
  }
}

TEST_CASE("enqueue_for gives up after its limit, never before, and leaves its arguments alone") {
  bounded_queue<std::unique_ptr<int>> q(1);
  q.enqueue(nullptr);
  for (const auto limit : {0ms, 1ms, 30ms}) {
    auto element = std::make_unique<int>(1);
    const auto start = clock_type::now();
    CHECK_FALSE(q.enqueue_for(limit, std::move(element)));
    CHECK(clock_type::now() - start >= limit);
    CHECK(element != nullptr);
  }
}

TEST_CASE("dequeue_until and enqueue_until give up at a moment of any clock, never before") {
  bounded_queue<std::unique_ptr<int>> q(1);
  const auto gives_up = [&q](auto moment, auto call) {
    CHECK_FALSE(call(q, moment));
    CHECK(decltype(moment)::clock::now() >= moment);
  };
  const auto dequeue = [](auto& from, auto moment) {
    std::unique_ptr<int> out;
    return from.dequeue_until(out, moment);
  };
  gives_up(clock_type::now() + 20ms, dequeue);
  gives_up(std::chrono::system_clock::now() + 20ms, dequeue);
  gives_up(clock_type::now() - 1h, dequeue);
  gives_up((std::chrono::system_clock::time_point::min)(), dequeue);
  auto element = std::make_unique<int>(1);
  const auto enqueue = [&element](auto& to, auto moment) { return to.enqueue_until(moment, std::move(element)); };
  CHECK(enqueue(q, clock_type::now()));
  element = std::make_unique<int>(2);
  gives_up(std::chrono::time_point_cast<std::chrono::duration<double>>(std::chrono::system_clock::now() + 20ms),
           enqueue);
  REQUIRE(element != nullptr);
  CHECK(*element == 2);
}

TEST_CASE("a call until a moment far away returns with an element, and when the queue is closed") {
  bounded_queue<int> q(1);
  int value = 0;
  bool result = false;
  watched_thread consumer([&] { result = q.dequeue_until(value, (std::chrono::system_clock::time_point::max)()); });
  std::this_thread::sleep_for(5ms);
  q.enqueue(7);
  consumer.join();
  CHECK(result);
  CHECK(value == 7);
  q.enqueue(8);
  watched_thread producer([&] { result = q.enqueue_until(clock_type::now() + 24h, 9); });
  std::this_thread::sleep_for(5ms);
  q.close();
  producer.join();
  CHECK_FALSE(result);
  CHECK_FALSE(q.enqueue_until(clock_type::now() + 24h, 9));
  CHECK(q.dequeue_until(value, clock_type::now() + 24h));
  CHECK(value == 8);
  CHECK_FALSE(q.dequeue_until(value, clock_type::now() + 24h));
}

TEST_CASE("a call that timed out leaves nothing behind: all places can be used, in order") {
  bounded_queue<int> q(2);
  int value = 0;
  for (int i = 0; i < 20; ++i) CHECK_FALSE(q.dequeue_for(value, 100us));
  CHECK(q.enqueue(1));
  CHECK(q.enqueue(2));
  for (int i = 0; i < 20; ++i) CHECK_FALSE(q.enqueue_for(100us, 3));
  CHECK(q.approx_size() == 2);
  CHECK(q.dequeue() == 1);
  CHECK(q.dequeue() == 2);
  CHECK_FALSE(q.dequeue().has_value());
}

TEST_CASE("a timed call returns with an element that comes in time") {
  bounded_queue<int> q(1);
  int value = 0;
  bool result = false;
  watched_thread consumer([&] { result = q.dequeue_for(value, 60s); });
  std::this_thread::sleep_for(10ms);
  q.enqueue(7);
  consumer.join();
  CHECK(result);
  CHECK(value == 7);
  q.enqueue(8);
  watched_thread producer([&] { result = q.enqueue_for(60s, 9); });
  std::this_thread::sleep_for(10ms);
  CHECK(q.dequeue() == 8);
  producer.join();
  CHECK(result);
  CHECK(q.dequeue() == 9);
}

TEST_CASE("limits that are negative, not a number, or beyond the end of time are understood") {
  bounded_queue<int> q(1);
  int value = 0;
  CHECK_FALSE(q.dequeue_for(value, -1h));
  CHECK_FALSE(q.dequeue_for(value, (std::chrono::nanoseconds::min)()));
  CHECK_FALSE(q.dequeue_for(value, std::chrono::duration<double>(std::numeric_limits<double>::quiet_NaN())));
  CHECK_FALSE(q.dequeue_for(value, std::chrono::duration<float>(0.001F)));
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
  wait(std::chrono::duration<long long, std::ratio<1, 1193182>>(1193182LL * 3600 * 6));
}

TEST_CASE("close ends the waiting of consumers: false, once the queue is drained") {
  bounded_queue<int> q(8);
  std::atomic<int> got{0};
  std::atomic<int> ended{0};
  std::vector<std::thread> consumers;
  for (int i = 0; i < 4; ++i) {
    consumers.emplace_back([&] {
      for (int value = 0; q.blocking_dequeue(value);) got += value;
      ++ended;
    });
  }
  for (int i = 1; i <= 100; ++i) q.blocking_enqueue(i);
  std::this_thread::sleep_for(10ms);
  CHECK(ended == 0);
  q.close();
  for (std::thread& t : consumers) t.join();
  CHECK(got == 5050);
  int value = 0;
  CHECK_FALSE(q.blocking_dequeue(value));
  CHECK_FALSE(q.dequeue_for(value, 60s));
}

TEST_CASE("close ends the waiting of producers: false, and their elements stay with them") {
  bounded_queue<std::unique_ptr<int>> q(1);
  q.enqueue(std::make_unique<int>(1));
  std::atomic<int> kept{0};
  std::vector<std::thread> producers;
  for (int i = 0; i < 3; ++i) {
    producers.emplace_back([&, i] {
      auto element = std::make_unique<int>(i);
      const bool result = i == 0 ? q.enqueue_for(60s, std::move(element)) : q.blocking_enqueue(std::move(element));
      kept += !result && element != nullptr ? 1 : 0;
    });
  }
  std::this_thread::sleep_for(10ms);
  q.close();
  for (std::thread& t : producers) t.join();
  CHECK(kept == 3);
  CHECK(**q.dequeue() == 1);
  CHECK_FALSE(q.blocking_enqueue(nullptr));
  CHECK_FALSE(q.enqueue_for(60s, nullptr));
}

TEST_CASE("waiting uses no CPU") {
  bounded_queue<int> empty(1);
  bounded_queue<int> full(1);
  full.enqueue(1);
  std::vector<std::thread> waiting;
  for (int i = 0; i < 4; ++i) {
    waiting.emplace_back([&empty] {
      int value = 0;
      empty.blocking_dequeue(value);
    });
    waiting.emplace_back([&full] { full.enqueue_for(60s, 2); });
  }
  CHECK(testing::sleeps_for(500ms, 25ms));
  empty.close();
  full.close();
  for (std::thread& t : waiting) t.join();
}

TEST_CASE("each element wakes a sleeper, also in a bulk") {
  for (int round = 0; round < 50; ++round) {
    bounded_queue<int> q(4);
    std::atomic<int> sum{0};
    std::vector<std::thread> consumers;
    for (int i = 0; i < 4; ++i) {
      consumers.emplace_back([&] {
        int value = 0;
        if (q.blocking_dequeue(value)) sum += value;
      });
    }
    if (round % 2 == 0) std::this_thread::sleep_for(1ms);
    const int values[] = {1, 2, 3};
    CHECK(q.enqueue(10));
    CHECK(q.bulk_enqueue(values, 3) == 3);
    for (std::thread& t : consumers) t.join();
    CHECK(sum == 16);
  }
}

TEST_CASE("each place that a bulk frees wakes a producer") {
  for (int round = 0; round < 50; ++round) {
    bounded_queue<int> q(4);
    for (int i = 0; i < 4; ++i) q.enqueue(i);
    std::vector<std::thread> producers;
    for (int i = 0; i < 4; ++i) producers.emplace_back([&] { CHECK(q.blocking_enqueue(1)); });
    if (round % 2 == 0) std::this_thread::sleep_for(1ms);
    int out[4] = {};
    CHECK(q.bulk_dequeue(out, 3) == 3);
    CHECK(q.dequeue().has_value());
    for (std::thread& t : producers) t.join();
    CHECK(q.approx_size() == 4);
  }
}

TEST_CASE("empty is not reported behind a producer that has not finished, when later elements are in") {
  bounded_queue<int, stoppable> q(4);
  stopped_within slow([&] { q.enqueue(1); });
  CHECK(q.enqueue(2));
  int value = 0;
  watched_thread consumer([&] {
    CHECK(q.dequeue(value));  // waits for the first: 2 is in, so "empty" would be untrue
    CHECK(value == 1);
  });
  std::this_thread::sleep_for(10ms);
  CHECK_FALSE(consumer.is_done());
  CHECK_FALSE(q.empty());
  slow.release();
  consumer.join();
  CHECK(q.dequeue() == 2);
}

TEST_CASE("a timed dequeue waits for an unfinished element beyond its limit, also when the queue is closed") {
  for (const bool is_closed : {false, true}) {
    bounded_queue<int, stoppable> q(4);
    stopped_within slow([&] { q.enqueue(1); });
    CHECK(q.enqueue(2));
    if (is_closed) q.close();
    int value = 0;
    watched_thread consumer([&] { CHECK(q.dequeue_for(value, 0ms)); });
    std::this_thread::sleep_for(10ms);
    CHECK_FALSE(consumer.is_done());
    slow.release();
    consumer.join();
    CHECK(value == 1);
    CHECK(q.dequeue_for(value, 0ms));
    CHECK_FALSE(q.dequeue_for(value, 0ms));
  }
}

TEST_CASE("full is not reported behind a consumer that has not finished, when later elements are out") {
  bounded_queue<int, stoppable> q(2);
  q.enqueue(1);
  q.enqueue(2);
  stopped_within slow([&] { CHECK(q.dequeue() == 1); });
  CHECK(q.dequeue() == 2);
  watched_thread producer([&] { CHECK(q.enqueue(3)); });
  std::this_thread::sleep_for(10ms);
  CHECK_FALSE(producer.is_done());
  slow.release();
  producer.join();
  CHECK(q.dequeue() == 3);
}

TEST_CASE("elements under way when the queue is closed still come out") {
  bounded_queue<int, stoppable> q(2);
  stopped_within slow([&] { CHECK(q.enqueue(1)); });
  q.close();
  int value = 0;
  watched_thread consumer([&] {
    CHECK(q.blocking_dequeue(value));
    CHECK_FALSE(q.blocking_dequeue(value));
  });
  std::this_thread::sleep_for(10ms);
  CHECK_FALSE(consumer.is_done());
  slow.release();
  consumer.join();
  CHECK(value == 1);
}

TEST_CASE("a producer whose element's copy throws when there is room leaves the room to the next one") {
  struct fragile {
    explicit fragile(bool throws) : throws_when_copied(throws) {}
    fragile(const fragile& other) : throws_when_copied(other.throws_when_copied) {
      if (throws_when_copied) throw std::runtime_error("copy");
    }
    fragile(fragile&&) noexcept = default;
    fragile& operator=(fragile&&) noexcept = default;
    bool throws_when_copied;
  };
  async::bounded_queue<fragile> queue(1);
  CHECK(queue.enqueue(fragile(false)));
  const fragile bad(true), good(false);
  std::atomic<int> thrown{0};
  std::thread first([&] {
    try {
      queue.blocking_enqueue(bad);
    } catch (const std::runtime_error&) {
      ++thrown;
    }
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // so that it is the first to wait
  std::thread second([&] { CHECK(queue.blocking_enqueue(good)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  fragile out(false);
  CHECK(queue.dequeue(out));
  CHECK(queue.dequeue_for(out, std::chrono::seconds(20)));
  second.join();
  first.join();
  CHECK(thrown == 1);
}
