// SPDX-License-Identifier: BSL-1.0
//
// With the times of the C library that last beyond 2038, which are larger than the kernel's on 32 bits.
#define _FILE_OFFSET_BITS 64
#define _TIME_BITS 64
#include "async/detail/base/parker.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <thread>

#include "support/process_cpu_time.hpp"
#include "support/scale.hpp"

using async::detail::parker;
using async::detail::wait_clock;
using namespace std::chrono_literals;

TEST_CASE("a permit given before park lets it return at once, and two permits are one") {
  parker p;
  CHECK_FALSE(p.unpark());
  CHECK_FALSE(p.unpark());
  p.park();
  CHECK_FALSE(p.park_until(wait_clock::now() + 1ms));
}

TEST_CASE("park_until without a permit returns false, never before its deadline") {
  parker p;
  for (const auto wait : {0ms, 1ms, 20ms}) {
    const auto deadline = wait_clock::now() + wait;
    CHECK_FALSE(p.park_until(deadline));
    CHECK(wait_clock::now() >= deadline);
  }
  CHECK_FALSE(p.park_until(wait_clock::time_point::min()));
  CHECK_FALSE(p.park_until(wait_clock::now() - 1h));
}

TEST_CASE("park_until sleeps until a deadline beyond the system's range") {
  parker p;
  for (const auto deadline : {wait_clock::now() + 24h * 36'525, (wait_clock::time_point::max)()}) {
    std::thread other([&p] {
      std::this_thread::sleep_for(300ms);
      p.unpark();
    });
    const auto before = testing::process_cpu_time();
    CHECK(p.park_until(deadline));
    CHECK(testing::process_cpu_time() - before < 100ms);
    other.join();
  }
}

TEST_CASE("park_until takes a permit that comes in time and leaves none behind") {
  parker p;
  std::thread other([&p] { p.unpark(); });
  CHECK(p.park_until(wait_clock::now() + 60s));
  other.join();
  CHECK_FALSE(p.park_until(wait_clock::now()));
  p.unpark();
  CHECK(p.park_until(wait_clock::now() - 1h));
}

TEST_CASE("two threads alternate through parkers and see each other's plain writes") {
  parker mine;
  parker yours;
  const int rounds = static_cast<int>(testing::rounds(20000));
  int turn = 0;  // written by whoever has the turn
  std::thread other([&] {
    for (int i = 0; i < rounds; ++i) {
      yours.park();
      ++turn;
      mine.unpark();
    }
  });
  for (int i = 0; i < rounds; ++i) {
    ++turn;
    yours.unpark();
    mine.park();
    REQUIRE(turn == 2 * (i + 1));
  }
  other.join();
}

TEST_CASE("a permit that races with a time-out is never lost") {
  parker p;
  int taken = 0;
  const int rounds = static_cast<int>(testing::rounds(2000));
  std::thread other;
  for (int i = 0; i < rounds; ++i) {
    parker go;
    other = std::thread([&p, &go] {
      go.park();
      p.unpark();
    });
    go.unpark();
    const bool in_time = p.park_until(wait_clock::now() + std::chrono::microseconds(i % 100));
    other.join();
    if (!in_time) REQUIRE(p.park_until(wait_clock::now()));
    ++taken;
  }
  CHECK(taken == rounds);
}
