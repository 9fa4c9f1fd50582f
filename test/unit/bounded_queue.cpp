// SPDX-License-Identifier: BSL-1.0
#include "async/bounded_queue.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

using async::bounded_queue;
using namespace std::chrono_literals;

TEST_CASE("the capacity is rounded up to a power of two, and none is refused") {
  CHECK(bounded_queue<int>(1).capacity() == 1);
  CHECK(bounded_queue<int>(3).capacity() == 4);
  CHECK(bounded_queue<int>(1024).capacity() == 1024);
  CHECK_THROWS_AS(bounded_queue<int>(0), std::invalid_argument);
}

TEST_CASE("elements come out in order; full and empty are told") {
  bounded_queue<std::unique_ptr<int>> q(4);
  for (int round = 0; round < 1000; ++round) {
    for (int i = 0; i < 4; ++i) REQUIRE(q.enqueue(std::make_unique<int>(i)));
    auto fifth = std::make_unique<int>(5);
    REQUIRE_FALSE(q.enqueue(std::move(fifth)));
    REQUIRE(fifth != nullptr);
    REQUIRE(q.approx_size() == 4);
    for (int i = 0; i < 4; ++i) REQUIRE(**q.dequeue() == i);
    REQUIRE_FALSE(q.dequeue());
    REQUIRE(q.empty());
  }
}

TEST_CASE("after close nothing goes in, and what is in comes out") {
  bounded_queue<int> q(2);
  q.enqueue(1);
  q.close();
  CHECK(q.is_closed());
  CHECK_FALSE(q.enqueue(2));
  CHECK_FALSE(q.blocking_enqueue(2));
  int out = 0;
  CHECK(q.blocking_dequeue(out));
  CHECK(out == 1);
  CHECK_FALSE(q.blocking_dequeue(out));
}

TEST_CASE("close wakes every waiting thread") {
  bounded_queue<int> empty(2);
  bounded_queue<int> full(1);
  full.enqueue(1);
  std::atomic<int> refused{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      int out = 0;
      refused += empty.blocking_dequeue(out) ? 0 : 1;
    });
    threads.emplace_back([&] { refused += full.blocking_enqueue(2) ? 0 : 1; });
  }
  empty.close();
  full.close();
  for (std::thread& t : threads) t.join();
  CHECK(refused == 6);
}

TEST_CASE("timed calls give up, not before their time, and leave nothing behind") {
  bounded_queue<int> q(1);
  int out = 0;
  const auto start = std::chrono::steady_clock::now();
  CHECK_FALSE(q.dequeue_for(out, 10ms));
  CHECK(std::chrono::steady_clock::now() - start >= 10ms);
  CHECK(q.enqueue_for(10ms, 7));
  CHECK_FALSE(q.enqueue_for(1ms, 8));
  CHECK(q.dequeue_for(out, 10ms));
  CHECK(out == 7);
}

TEST_CASE("blocking producers and consumers pass every element exactly once") {
  bounded_queue<int> q(4);
  constexpr int each = 20000;
  std::atomic<long long> sum{0};
  std::vector<std::thread> producers;
  std::vector<std::thread> consumers;
  for (int p = 0; p < 2; ++p) {
    producers.emplace_back([&] {
      for (int i = 1; i <= each; ++i) q.blocking_enqueue(i);
    });
    consumers.emplace_back([&] {
      for (int out = 0; q.blocking_dequeue(out);) sum += out;
    });
  }
  for (std::thread& t : producers) t.join();
  q.close();
  for (std::thread& t : consumers) t.join();
  CHECK(sum == 2LL * each * (each + 1) / 2);
}
