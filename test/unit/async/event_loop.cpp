// SPDX-License-Identifier: BSL-1.0
#include "async/event_loop.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <functional>
#include <future>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "async/manual_clock.hpp"

using async::event_loop;
using async::manual_clock;
using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using list = std::vector<int>;

TEST_CASE("iterate reports whether there is work, and when") {
  manual_clock clock;
  event_loop loop(clock);
  auto result = loop.iterate();
  CHECK_FALSE(result.have_work);
  CHECK(result.delay == 0ns);
  auto later = loop.deferred(1h, [] {});
  auto sooner = loop.deferred(1s, [] {});
  result = loop.iterate();
  CHECK(result.have_work);
  CHECK(result.delay >= 1s);
  CHECK(result.delay < 1s + 100us);
  sooner.cancel();
  result = loop.iterate();
  CHECK(result.delay >= 1h);
  CHECK(result.delay < 1h + 100us);
  loop.immediate([&] { loop.immediate([] {}); });
  result = loop.iterate();
  CHECK(result.have_work);
  CHECK(result.delay == 0ns);
  loop.iterate();
  later.cancel();
  CHECK_FALSE(loop.iterate().have_work);
}

TEST_CASE("iterate reports work that a callback posts, with or without an embedder") {
  for (const bool embedded : {false, true}) {
    int woken = 0;
    event_loop loop = embedded ? event_loop([&] { ++woken; }) : event_loop();
    int ran = 0;
    loop.immediate([&] { loop.post([&] { ++ran; }); });
    const auto result = loop.iterate();
    CHECK(result.have_work);
    CHECK(result.delay == 0ns);
    CHECK_FALSE(loop.iterate().have_work);
    CHECK(ran == 1);
    CHECK(woken == 0);
  }
}

TEST_CASE("a deferred callback runs once when its delay has passed and not before") {
  manual_clock clock;
  event_loop loop(clock);
  int ran = 0;
  loop.deferred(10ms, [&] { ++ran; });
  loop.iterate();
  clock.advance(10ms - 1ns);
  loop.iterate();
  CHECK(ran == 0);
  clock.advance(1ns + 66us);
  loop.iterate();
  CHECK(ran == 1);
  clock.advance(1h);
  loop.iterate();
  CHECK(ran == 1);
}

TEST_CASE("a delay counts from the call, also after a slow callback") {
  manual_clock clock;
  event_loop loop(clock);
  bool ran = false;
  loop.immediate([&] {
    clock.advance(50ms);
    loop.deferred(10ms, [&] { ran = true; });
  });
  loop.iterate();
  loop.iterate();
  CHECK_FALSE(ran);
  clock.advance(10ms - 1ns);
  loop.iterate();
  CHECK_FALSE(ran);
  clock.advance(100us);
  loop.iterate();
  CHECK(ran);
}

TEST_CASE("a delay may be zero, negative or endless") {
  manual_clock clock;
  event_loop loop(clock);
  list ran;
  loop.deferred(0ns, [&] { ran.push_back(1); });
  loop.deferred(-1h, [&] { ran.push_back(2); });
  loop.deferred(nanoseconds::min(), [&] { ran.push_back(3); });
  auto endless = loop.deferred(nanoseconds::max(), [&] { ran.push_back(4); });
  loop.iterate();
  CHECK(ran == list{1, 2, 3});
  clock.advance(24h * 365 * 100);
  CHECK(loop.iterate().delay > 24h * 365);
  CHECK(ran.size() == 3);
  CHECK(endless);
}

TEST_CASE("a turn runs posts first, then immediates and timers in the order in which they have become due") {
  manual_clock clock;
  event_loop loop(clock);
  std::string log;
  loop.deferred(2ms, [&] { log += 'u'; });
  loop.deferred(1ms, [&] {
    log += 't';
    loop.immediate([&] { log += 'j'; });  // due after both timers, in the next turn
  });
  loop.immediate([&] { log += 'i'; });
  loop.post([&] {
    log += 'p';
    loop.immediate([&] { log += 'k'; });
  });
  clock.advance(3ms);
  loop.iterate();
  CHECK(log == "piktu");
  loop.iterate();
  CHECK(log == "piktuj");
  int immediates = 0, timers = 0;
  for (int i = 0; i < 300; ++i) loop.immediate([&] { ++immediates; }), loop.deferred(1ms, [&] { ++timers; });
  clock.advance(2ms);
  for (const int done : {256, 512, 600}) {
    loop.iterate();
    CHECK(immediates + timers == done);
    CHECK((immediates == 300 || timers == 0));
  }
}

TEST_CASE("an empty task is refused where it is given") {
  event_loop loop;
  CHECK_THROWS_AS(loop.immediate({}), std::bad_function_call);
  CHECK_THROWS_AS(loop.deferred(1s, {}), std::bad_function_call);
  CHECK_THROWS_AS(loop.post({}), std::bad_function_call);
  CHECK_FALSE(loop.iterate().have_work);
}

TEST_CASE("a handle is true until its callback starts") {
  event_loop loop;
  CHECK_FALSE(event_loop::handle());
  event_loop::handle h;
  bool inside = true;
  h = loop.immediate([&] { inside = bool(h); });
  CHECK(h);
  const event_loop::handle copy = h;
  CHECK(copy);
  loop.iterate();
  CHECK_FALSE(inside);
  CHECK_FALSE(h);
  CHECK_FALSE(copy);
  CHECK_FALSE(h.cancel());  // late
  CHECK_FALSE(h.cancel());
  h.reset();
}

TEST_CASE("a cancelled callback does not run, and its captures are destroyed at once") {
  manual_clock clock;
  event_loop loop(clock);
  bool ran = false;
  const auto captured = std::make_shared<int>(1);
  auto a = loop.immediate([&ran, captured] { ran = true; });
  auto b = loop.deferred(1s, [&ran, captured] { ran = true; });
  auto c = b;
  CHECK(captured.use_count() == 3);
  CHECK(a.cancel());
  CHECK(b.cancel());
  CHECK(captured.use_count() == 1);
  CHECK_FALSE(a);
  CHECK_FALSE(b);
  CHECK_FALSE(c);
  CHECK_FALSE(c.cancel());
  clock.advance(1h);
  CHECK_FALSE(loop.iterate().have_work);
  CHECK_FALSE(ran);
}

TEST_CASE("cancel() between turns destroys captures outside of a callback: they may own the loop") {
  struct owner {
    std::vector<event_loop*>& seen;
    std::unique_ptr<event_loop> loop;
    ~owner() { seen.push_back(event_loop::current()); }
  };
  std::vector<event_loop*> seen;
  for (const bool copied : {false, true}) {
    auto all = std::shared_ptr<owner>(new owner{seen, std::make_unique<event_loop>()});
    event_loop& loop = *all->loop;
    auto timeout = loop.deferred(1h, [all] {});
    all.reset();
    const auto copy = copied ? timeout : event_loop::handle();
    CHECK(timeout.cancel());
    CHECK_FALSE(copy);
  }
  CHECK(seen == std::vector<event_loop*>{nullptr, nullptr});
}

TEST_CASE("handles are copied and dropped in callbacks, too") {
  event_loop loop;
  list ran;
  event_loop::handle kept;
  loop.immediate([&] {
    auto h = loop.immediate([&] { ran.push_back(1); });
    auto copy = h;
    h.reset();
    CHECK(copy);
    kept = copy;
    copy.reset();
    auto cancelled = loop.immediate([&] { ran.push_back(2); });
    auto other = cancelled;
    cancelled.reset();
    CHECK(other.cancel());
    loop.immediate([&] { ran.push_back(3); });
  });
  loop.iterate();
  CHECK(kept);
  loop.iterate();
  CHECK_FALSE(kept);
  CHECK(ran == list{1, 3});
}

TEST_CASE("reset lets the callback run") {
  event_loop loop;
  int ran = 0;
  auto h = loop.immediate([&] { ++ran; });
  h.reset();
  CHECK_FALSE(h);
  h.cancel();
  loop.iterate();
  CHECK(ran == 1);
}

TEST_CASE("assigning to a handle drops its callback without cancelling it") {
  event_loop loop;
  list ran;
  auto h = loop.immediate([&] { ran.push_back(1); });
  h = loop.immediate([&] { ran.push_back(2); });
  auto moved = std::move(h);
  auto& same = moved;
  moved = same;
  CHECK(moved);
  moved.cancel();
  loop.iterate();
  CHECK(ran == list{1});
}

TEST_CASE("a callback may cancel its neighbours in the same turn and, without effect, itself") {
  manual_clock clock;
  event_loop loop(clock);
  list ran;
  event_loop::handle self, next, last;
  self = loop.deferred(1ms, [&] {
    ran.push_back(1);
    CHECK_FALSE(self.cancel());
    CHECK(next.cancel());
    last.cancel();
  });
  next = loop.deferred(1ms, [&] { ran.push_back(2); });
  last = loop.deferred(2ms, [&] { ran.push_back(3); });
  loop.deferred(3ms, [&] { ran.push_back(4); });
  clock.advance(1s);
  loop.iterate();
  CHECK(ran == list{1, 4});
}

TEST_CASE("a callback's captures are destroyed after it has run") {
  event_loop loop;
  auto captured = std::make_shared<int>(1);
  auto h = loop.immediate([captured] {});
  loop.post([captured] {});
  loop.iterate();
  CHECK(captured.use_count() == 1);
}

TEST_CASE("a loop destroys callbacks that have not run, and its handles are harmless afterwards") {
  auto captured = std::make_shared<int>(1);
  std::vector<event_loop::handle> handles;
  int ran = 0;
  {
    event_loop loop;
    handles.push_back(loop.immediate([captured, &ran] { ++ran; }));
    handles.push_back(loop.deferred(1s, [captured, &ran] { ++ran; }));
    handles.push_back(loop.deferred(1000h, [captured, &ran] { ++ran; }));
    loop.immediate([captured, &ran] { ++ran; });
    loop.post([captured, &ran] { ++ran; });
    std::thread([&] {
      handles.push_back(loop.immediate([captured, &ran] { ++ran; }));
      handles.push_back(loop.deferred(1s, [captured, &ran] { ++ran; }));
      handles.push_back(loop.deferred(2s, [captured, &ran] { ++ran; }));
      handles.back().cancel();
      handles[1].cancel();
    }).join();
  }
  CHECK(ran == 0);
  CHECK(captured.use_count() == 1);
  for (auto& h : handles) {
    CHECK_FALSE(h);
    auto copy = h;
    h.cancel();
    copy.reset();
  }
}

TEST_CASE("captures that are destroyed with the loop may still use the loop and its handles") {
  struct user {
    event_loop& loop;
    event_loop::handle& other;
    bool armed = true;
    user(event_loop& l, event_loop::handle& h) : loop(l), other(h) {}
    user(user&& from) noexcept : loop(from.loop), other(from.other), armed(std::exchange(from.armed, false)) {}
    ~user() {
      if (!armed) return;
      other.cancel();
      loop.post([] { FAIL("ran"); });
      CHECK_FALSE(loop.immediate([] { FAIL("ran"); }));
      CHECK_FALSE(loop.deferred(1s, [] { FAIL("ran"); }));
      loop.stop();
    }
    void operator()() {}
  };
  event_loop::handle a, b;
  {
    event_loop loop;
    a = loop.immediate(user(loop, b));
    b = loop.deferred(1s, user(loop, a));
    loop.post(user(loop, a));
  }
  CHECK_FALSE(a);
  CHECK_FALSE(b);
}

TEST_CASE("other threads may make immediates and deferred callbacks, and cancel them") {
  manual_clock clock;
  event_loop loop(clock);
  list ran;
  event_loop::handle a, b, c, d, mine;
  mine = loop.deferred(1ms, [&] { ran.push_back(0); });
  std::thread([&] {
    a = loop.immediate([&] { ran.push_back(1); });
    b = loop.immediate([&] { ran.push_back(2); });
    c = loop.deferred(1ms, [&] { ran.push_back(3); });
    d = loop.deferred(1ms, [&] { ran.push_back(4); });
    CHECK(a);
    CHECK(c);
    CHECK(a.cancel());
    CHECK(d.cancel());
    CHECK(mine.cancel());
  }).join();
  CHECK_FALSE(mine);
  loop.iterate();
  CHECK(ran == list{2});
  CHECK(c);
  std::thread([&] { CHECK(c); }).join();
  clock.advance(1s);
  loop.iterate();
  CHECK(ran == list{2, 3});
}

TEST_CASE("a callback that another thread cancels after it has reached the loop does not run") {
  manual_clock clock;
  event_loop loop(clock);
  bool ran = false;
  const auto captured = std::make_shared<int>(1);
  event_loop::handle h, due;
  std::thread([&] { h = loop.deferred(1ms, [&ran, captured] { ran = true; }); }).join();
  loop.iterate();
  due = loop.deferred(1ms, [&ran, captured] { ran = true; });
  std::thread([&] { h.cancel(); }).join();
  CHECK_FALSE(h);
  loop.iterate();
  CHECK(captured.use_count() == 2);  // the message of the cancellation has come
  clock.advance(1s);
  std::thread([&] { due.cancel(); }).join();
  loop.iterate();
  CHECK_FALSE(ran);
  CHECK(captured.use_count() == 1);
}

TEST_CASE("delays and limits may be of any duration type, also beyond the range of nanoseconds") {
  manual_clock clock;
  event_loop loop(clock);
  std::string order;
  const auto note = [&order](char c) { return [&order, c] { order += c; }; };
  loop.deferred(std::chrono::hours::max(), note('-'));
  loop.deferred(std::chrono::duration<double>(1e300), note('-'));
  loop.deferred(std::chrono::duration<double>(0.5), note('2'));
  loop.deferred(std::chrono::duration<float, std::milli>(2.5F), note('1'));
  loop.deferred(std::chrono::duration<unsigned>(1), note('3'));
  loop.deferred(std::chrono::hours::min(), note('0'));
  loop.deferred(std::chrono::duration<double>(std::numeric_limits<double>::quiet_NaN()), note('0'));
  loop.run_for(std::chrono::duration<double>(1.5));
  CHECK(order == "00123");
  loop.run_for(std::chrono::hours::min());
  loop.deferred(24h, [&] { loop.stop(); });
  const auto begin = clock.now();
  loop.run_for(std::chrono::hours::max());
  CHECK(clock.now() - begin >= 24h);
  CHECK(order == "00123");
}
