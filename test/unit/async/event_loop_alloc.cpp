// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <thread>

#include "async/event_loop.hpp"
#include "async/manual_clock.hpp"
#include "support/alloc_counter.hpp"

using async::event_loop;
using testing::alloc_counter;
using namespace std::chrono_literals;

TEST_CASE("in the steady state no call of the loop allocates") {
  async::manual_clock clock;
  event_loop loop(clock);
  int ran = 0;
  const auto round = [&] {
    for (int i = 0; i < 100; ++i) {
      loop.immediate([&] { ++ran; });
      loop.post([&] { ++ran; });
      loop.deferred(1ms, [&] { ++ran; });
      auto h = loop.deferred(1h, [&] { ++ran; });
      h.cancel();
    }
    clock.advance(2ms);
    while (loop.iterate().have_work) {
    }
  };
  round();
  const alloc_counter counter;
  for (int i = 0; i < 20; ++i) round();
  CHECK(counter.calls() == 0);
  CHECK(ran == 21 * 300);
}

TEST_CASE("captures beyond the task's own storage are recycled, too") {
  event_loop loop;
  std::array<char, 200> big{};
  int ran = 0;
  const auto round = [&] {
    for (int i = 0; i < 100; ++i) loop.immediate([&ran, big] { ran += 1 + big[0]; });
    loop.iterate();
  };
  round();
  const alloc_counter counter;
  round();
  CHECK(counter.calls() == 0);
  CHECK(ran == 200);
}

TEST_CASE("a loop that ends leaves nothing allocated but recycled blocks") {
  const auto round = [] {
    event_loop loop;
    auto h = loop.deferred(1h, [] {});
    loop.immediate([] {});
    std::thread([&] { loop.post([] {}); }).join();
  };
  round();
  round();
  const alloc_counter counter;
  for (int i = 0; i < 10; ++i) round();
  CHECK(counter.live() <= 2);  // magazines of the threads that have ended
}
