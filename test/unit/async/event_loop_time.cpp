// SPDX-License-Identifier: BSL-1.0
//
// Times and clocks at the ends of their range, and of unusual units.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <ratio>
#include <thread>

#include "async/bounded_queue.hpp"
#include "async/event_loop.hpp"
#include "async/manual_clock.hpp"
#include "async/threadpool.hpp"
#include "steps/asyncsteps.hpp"
#include "steps/asynctool.hpp"

using async::event_loop;
using async::manual_clock;
using namespace std::chrono;
using namespace std::chrono_literals;

namespace {

/// The clock of a timer chip: nanoseconds times the denominator of its ratio are soon more than 64 bits hold.
using chip_ticks = duration<std::int64_t, std::ratio<1, 1193182>>;
constexpr chip_ticks six_hours{std::int64_t{1193182} * 3600 * 6};

void skip(event_loop& loop, manual_clock& clock, nanoseconds time) {
  loop.iterate();
  clock.advance(time);
  for (event_loop::cycle_result next{true, 0ns}; next.have_work && next.delay == 0ns;) next = loop.iterate();
}

}  // namespace

TEST_CASE("a delay has its length in any unit") {
  manual_clock clock;
  event_loop loop(clock);
  int ran = 0;
  loop.deferred(six_hours, [&] { ++ran; });
  loop.deferred(chip_ticks((chip_ticks::max)()), [&] { ran += 10; });
  loop.deferred(1h, [] {});
  skip(loop, clock, 6h - 1us);
  CHECK(ran == 0);
  skip(loop, clock, 1ms);
  CHECK(ran == 1);
}

TEST_CASE("a timeout of a step has its length in any unit") {
  manual_clock clock;
  event_loop loop(clock);
  steps::AsyncSteps flow(loop);
  int timeouts = 0;
  flow.add([](steps::IAsyncSteps& asi) { asi.setTimeout(six_hours); },
           [&](steps::IAsyncSteps& asi, steps::ErrorCode) {
             ++timeouts;
             asi.success();
           });
  flow.execute();
  loop.deferred(7h, [] {});
  skip(loop, clock, 6h - 1us);
  CHECK(timeouts == 0);
  skip(loop, clock, 1ms);
  CHECK(timeouts == 1);
}

TEST_CASE("a tool takes delays that nanoseconds cannot hold") {
  steps::AsyncTool tool([] {});
  bool ran = false;
  const auto never = tool.deferred((hours::max)(), [&] { ran = true; });
  tool.iterate();
  CHECK_FALSE(ran);
  CHECK(never);
}

TEST_CASE("a clock may begin anywhere") {
  for (const auto start : {(manual_clock::time_point::min)(), manual_clock::time_point(-1h), manual_clock::time_point(),
                           (manual_clock::time_point::max)() - 1h}) {
    manual_clock clock(start);
    event_loop loop(clock);
    int ran = 0;
    loop.deferred(10ms, [&] { ++ran; });
    loop.deferred((nanoseconds::max)(), [&] { ran += 10; });
    const auto next = loop.iterate();
    CHECK(next.have_work);
    CHECK(next.delay >= 10ms);
    CHECK(next.delay < 11ms);
    skip(loop, clock, 11ms);
    CHECK(ran == 1);
    loop.run_for(20min);
    CHECK(clock.now() >= start + 20min);
    CHECK(ran == 1);
  }
}

TEST_CASE("now is the time of the loop's source: a manual clock's, another's, or the steady clock's") {
  manual_clock clock;
  event_loop virtual_time(clock);
  CHECK(virtual_time.now() == clock.now());
  clock.advance(3h);
  CHECK(virtual_time.now() == clock.now());
  const auto begin = virtual_time.now();
  bool ran = false;
  virtual_time.deferred(10ms, [&] {
    ran = true;
    clock.advance(1h);  // a callback that takes long
    CHECK(virtual_time.now() == clock.now());
    virtual_time.stop();
  });
  virtual_time.run();
  CHECK(ran);
  CHECK(virtual_time.now() >= begin + 10ms + 1h);

  async::time_source source;
  source.now = [](void* self) noexcept { return *static_cast<manual_clock::time_point*>(self); };
  manual_clock::time_point at(7h);
  source.self = &at;
  event_loop other(source);
  CHECK(other.now() == manual_clock::time_point(7h));
  at += 1ns;
  CHECK(other.now() == manual_clock::time_point(7h + 1ns));

  event_loop real;
  const steady_clock::time_point before = steady_clock::now();
  const steady_clock::time_point now = real.now();
  CHECK(now >= before);
  CHECK(now <= steady_clock::now());
}

TEST_CASE("any thread may ask a loop for its time while the loop runs") {
  manual_clock clock;
  event_loop loop(clock);
  const auto begin = loop.now();
  std::atomic<bool> is_seen{false};
  std::thread asks([&] {
    while (loop.now() == begin) std::this_thread::yield();
    is_seen = true;
    loop.stop();
  });
  loop.deferred(1h, [] {});
  loop.run();
  asks.join();
  CHECK(is_seen);
}

TEST_CASE("a loop of a pool has the steady clock's time") {
  async::threadpool pool(1);
  const auto before = steady_clock::now();
  const steady_clock::time_point now = pool.loop(0).now();
  CHECK(now >= before);
  CHECK(now <= steady_clock::now());
}

TEST_CASE("a manual clock stops at the end of time") {
  manual_clock clock;
  event_loop loop(clock);
  int ran = 0;
  loop.deferred(24h * 365 * 100, [&] { ++ran; });
  skip(loop, clock, (nanoseconds::max)());
  CHECK(clock.now() == (manual_clock::time_point::max)());
  CHECK(ran == 1);
}

TEST_CASE("run sleeps by the steady clock where a time source cannot be moved") {
  async::time_source source;
  source.now = [](void*) noexcept { return steady_clock::now() - 1h; };
  event_loop loop(source);
  const auto begin = steady_clock::now();
  loop.deferred(20ms, [&] { loop.stop(); });
  loop.run();
  CHECK(steady_clock::now() - begin >= 20ms);
  loop.run_for(5ms);
  CHECK(steady_clock::now() - begin >= 25ms);
}

TEST_CASE("a constant supply of slow callbacks delays a timer by a turn or two") {
  manual_clock clock;
  event_loop loop(clock);
  struct again {
    event_loop& loop;
    manual_clock& clock;
    void operator()() const {
      clock.advance(10ms);
      loop.immediate(again{loop, clock});
    }
  };
  loop.immediate(again{loop, clock});
  for (int i = 0; i < 3; ++i) {
    const auto begin = clock.now();
    loop.deferred(15ms, [&] { loop.stop(); });
    loop.run();
    CHECK(clock.now() - begin <= 40ms);
  }
  const auto begin = clock.now();
  loop.run_for(15ms);
  CHECK(clock.now() - begin <= 30ms);
}

TEST_CASE("the clock is soon read more often when callbacks become slow") {
  manual_clock clock;
  event_loop loop(clock);
  struct again {
    event_loop& loop;
    manual_clock& clock;
    nanoseconds& time;
    void operator()() const {
      clock.advance(time);
      loop.immediate(again{loop, clock, time});
    }
  };
  nanoseconds time = 100ns;
  loop.immediate(again{loop, clock, time});
  loop.run_for(1ms);
  time = 10ms;
  loop.run_for(2s);
  const auto begin = clock.now();
  loop.deferred(15ms, [&] { loop.stop(); });
  loop.run();
  CHECK(clock.now() - begin <= 40ms);
}
