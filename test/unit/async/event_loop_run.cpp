// SPDX-License-Identifier: BSL-1.0
//
// Driving a loop: run, iterate, stop, embedding, fairness, exceptions.
#include "async/event_loop.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <functional>
#include <future>
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

TEST_CASE("immediates run in order at the next iterate, never within the call that makes them") {
  event_loop loop;
  list ran;
  loop.immediate([&] { ran.push_back(1); });
  loop.immediate([&] {
    ran.push_back(2);
    loop.immediate([&] { ran.push_back(4); });
  });
  loop.immediate([&] { ran.push_back(3); });
  CHECK(ran.empty());
  CHECK(loop.iterate().have_work);
  CHECK(ran == list{1, 2, 3});
  CHECK_FALSE(loop.iterate().have_work);
  CHECK(ran == list{1, 2, 3, 4});
}

TEST_CASE("deferred callbacks run by deadline, equal ones in the order made") {
  manual_clock clock;
  event_loop loop(clock);
  list ran;
  loop.deferred(30ms, [&] { ran.push_back(4); });
  loop.deferred(10ms, [&] { ran.push_back(1); });
  loop.deferred(20ms, [&] { ran.push_back(2); });
  loop.deferred(20ms, [&] { ran.push_back(3); });
  clock.advance(1s);
  loop.iterate();
  CHECK(ran == list{1, 2, 3, 4});
}

TEST_CASE("posts of one thread run in order, also those of the loop's own thread") {
  event_loop loop;
  list ran;
  loop.post([&] { ran.push_back(1); });
  std::thread([&] { loop.post([&] { ran.push_back(2); }); }).join();
  loop.post([&] {
    ran.push_back(3);
    loop.post([&] { ran.push_back(4); });
  });
  loop.iterate();
  CHECK(ran == list{1, 2, 3});
  loop.iterate();
  CHECK(ran == list{1, 2, 3, 4});
}

TEST_CASE("the owner is the thread that made the loop, then the last that ran it") {
  event_loop loop;
  CHECK(loop.is_same_thread());
  std::thread([&] {
    CHECK_FALSE(loop.is_same_thread());
    loop.iterate();
    CHECK(loop.is_same_thread());
  }).join();
  CHECK_FALSE(loop.is_same_thread());
  loop.iterate();
  CHECK(loop.is_same_thread());
}

TEST_CASE("current is the loop whose callback is running") {
  event_loop outer;
  event_loop inner;
  list seen;
  CHECK(event_loop::current() == nullptr);
  inner.immediate([&] { seen.push_back(event_loop::current() == &inner); });
  outer.immediate([&] {
    seen.push_back(event_loop::current() == &outer);
    inner.iterate();
    seen.push_back(event_loop::current() == &outer);
  });
  outer.iterate();
  CHECK(event_loop::current() == nullptr);
  CHECK(seen == list{1, 1, 1});
}

TEST_CASE("a loop is not run by a callback of its own") {
  event_loop loop;
  int refused = 0;
  loop.immediate([&] {
    CHECK_THROWS_AS(loop.iterate(), std::logic_error);
    CHECK_THROWS_AS(loop.run(), std::logic_error);
    CHECK_THROWS_AS(loop.run_for(1s), std::logic_error);
    ++refused;
  });
  loop.iterate();
  CHECK(refused == 1);
}

TEST_CASE("run returns after a stop from a callback, from another thread, or before the run") {
  event_loop loop;
  list ran;
  loop.immediate([&] {
    ran.push_back(1);
    loop.stop();
    loop.immediate([&] { ran.push_back(2); });
  });
  loop.run();
  CHECK(ran == list{1});
  std::thread other([&] { loop.stop(); });
  loop.run();
  other.join();
  loop.run_for(0ns);
  CHECK(ran == list{1, 2});
  loop.immediate([&] { ran.push_back(3); });
  loop.stop();
  loop.stop();
  loop.run();
  CHECK(ran == list{1, 2});
  loop.run_for(0ns);
  CHECK(ran == list{1, 2, 3});
}

TEST_CASE("stop does not disturb iterate") {
  event_loop loop;
  list ran;
  loop.post([&] { loop.stop(); });
  std::thread([&] { loop.stop(); }).join();
  loop.post([&] { ran.push_back(1); });
  loop.immediate([&] { ran.push_back(2); });
  while (loop.iterate().have_work) {
  }
  loop.post([&] { ran.push_back(3); });
  loop.iterate();
  CHECK(ran == list{2, 1, 3});
}

TEST_CASE("run sleeps until a post, and then runs it") {
  event_loop loop;
  std::promise<void> asleep;
  std::promise<int> result;
  std::thread runner([&] { loop.run(); });
  for (int i = 0; i < 100; ++i) {
    std::promise<int> answer;
    loop.post([&, i] { answer.set_value(i); });
    CHECK(answer.get_future().get() == i);
  }
  loop.stop();
  runner.join();
}

TEST_CASE("run sleeps until a timer is due") {
  event_loop loop;
  const auto begin = std::chrono::steady_clock::now();
  auto fired = begin;
  loop.deferred(20ms, [&] {
    fired = std::chrono::steady_clock::now();
    loop.stop();
  });
  loop.run();
  CHECK(fired - begin >= 20ms);
}

TEST_CASE("run_for returns when the time is over, even if there is always work") {
  event_loop loop;
  const auto begin = std::chrono::steady_clock::now();
  loop.run_for(10ms);
  CHECK(std::chrono::steady_clock::now() - begin >= 10ms);
  int count = 0;
  std::function<void()> again = [&] {
    ++count;
    loop.immediate([&] { again(); });
  };
  again();
  loop.run_for(5ms);
  CHECK(count > 1);
  const int before = count;
  loop.run_for(-1h);
  CHECK(count > before);
}

TEST_CASE("with a manual clock run does not sleep: a year passes at once") {
  manual_clock clock;
  event_loop loop(clock);
  const auto begin = clock.now();
  int ticks = 0;
  std::function<void()> daily = [&] {
    if (++ticks == 365) return loop.stop();
    loop.deferred(24h, [&] { daily(); });
  };
  loop.deferred(24h, [&] { daily(); });
  loop.run();
  CHECK(ticks == 365);
  CHECK(clock.now() - begin >= 365 * 24h);
  CHECK(clock.now() - begin < 365 * 24h + 1s);
  loop.deferred(2h, [&] { ++ticks; });
  loop.run_for(1h);
  CHECK(ticks == 365);
  loop.run_for(2h);
  CHECK(ticks == 366);
}

TEST_CASE("callbacks that never end starve neither timers nor posts nor each other") {
  manual_clock clock;
  event_loop loop(clock);
  bool posted = false;
  bool fired = false;
  int turns = 0;
  std::function<void()> immediate = [&] {
    ++turns;
    clock.advance(1ms);
    loop.immediate([&] { immediate(); });
  };
  std::function<void()> post = [&] {
    ++turns;
    loop.post([&] { post(); });
  };
  for (int i = 0; i < 1000; ++i) loop.immediate([&] { immediate(); });
  loop.post([&] { post(); });
  loop.post([&] { posted = true; });
  loop.deferred(10ms, [&] { fired = true; });
  while (!posted || !fired) {
    loop.iterate();
    REQUIRE(turns < 5000);
  }
}

TEST_CASE("an exception goes to the hook, and the loop goes on") {
  manual_clock clock;
  event_loop loop(clock);
  std::vector<std::string> errors;
  loop.on_unhandled([&errors, owned = std::make_unique<int>(1)](std::exception_ptr error) {
    try {
      std::rethrow_exception(std::move(error));
    } catch (const std::exception& e) {
      errors.emplace_back(e.what());
    }
  });
  bool ran = false;
  auto h = loop.immediate([] { throw std::runtime_error("one"); });
  loop.deferred(0ns, [] { throw std::runtime_error("two"); });
  loop.post([] { throw std::runtime_error("three"); });
  loop.immediate([&] { ran = true; });
  loop.iterate();
  CHECK(errors == std::vector<std::string>{"three", "one", "two"});
  CHECK(ran);
  CHECK_FALSE(h);
}

TEST_CASE("an exception of the hook comes out of iterate and run, and nothing else is lost") {
  event_loop loop;
  loop.on_unhandled([](std::exception_ptr error) { std::rethrow_exception(std::move(error)); });
  list ran;
  loop.post([&] { throw 1; });
  loop.post([&] { ran.push_back(1); });
  loop.immediate([&] { throw 2; });
  loop.immediate([&] { ran.push_back(2); });
  CHECK_THROWS_AS(loop.iterate(), int);
  CHECK(event_loop::current() == nullptr);
  CHECK_THROWS_AS(loop.run(), int);
  loop.immediate([&] { loop.stop(); });
  loop.run();
  CHECK(ran == list{1, 2});
}

TEST_CASE("a stop() in a callback that throws is for the run that the exception leaves") {
  event_loop loop;
  loop.on_unhandled([](std::exception_ptr error) { std::rethrow_exception(std::move(error)); });
  loop.post([&loop] {
    loop.stop();
    throw 1;
  });
  CHECK_THROWS_AS(loop.run(), int);
  bool ran = false;
  static_cast<void>(loop.deferred(std::chrono::milliseconds(1), [&] {
    ran = true;
    loop.stop();
  }));
  loop.run();
  CHECK(ran);
}

TEST_CASE("the embedder is woken once by work that comes after iterate has found nothing to do") {
  manual_clock clock;
  int woken = 0;
  event_loop loop(clock, [&] { ++woken; });
  int ran = 0;
  loop.post([&] { ++ran; });
  CHECK(woken == 0);  // iterate() has never said that there is nothing to do
  CHECK_FALSE(loop.iterate().have_work);
  loop.post([&] { ++ran; });
  loop.post([&] { ++ran; });
  std::thread([&] { loop.immediate([&] { ++ran; }); }).join();
  CHECK(woken == 1);
  loop.deferred(1s, [&] { ++ran; });
  CHECK(loop.iterate().have_work);
  CHECK(ran == 4);
  std::thread([&] { loop.deferred(1ms, [&] { ++ran; }); }).join();
  CHECK(woken == 2);
  loop.immediate([] {});
  loop.immediate([&] { loop.immediate([] {}); });
  CHECK(loop.iterate().delay == 0ns);
  loop.post([] {});
  CHECK(woken == 2);  // iterate() will be called anyway
}

TEST_CASE("a loop runs inside another one, woken by its callback") {
  event_loop outer;
  std::function<void()> turn;
  event_loop inner([&] { outer.post([&] { turn(); }); });
  event_loop::handle timer;
  turn = [&] {
    const auto result = inner.iterate();
    if (!result.have_work) return;
    timer.cancel();
    timer = outer.deferred(result.delay, [&] { turn(); });
  };
  int ran = 0;
  outer.immediate([&] { turn(); });
  std::thread other([&] {
    for (int i = 0; i < 1000; ++i) {
      inner.post([&] { ++ran; });
      inner.deferred(1us, [&] { ++ran; });
    }
    inner.deferred(1ms, [&] { outer.stop(); });
  });
  outer.run();
  other.join();
  CHECK(ran == 2000);
}

TEST_CASE("trim keeps the loop usable") {
  event_loop loop;
  int ran = 0;
  loop.immediate([&] { ++ran; });
  loop.iterate();
  loop.trim();
  loop.immediate([&] { ++ran; });
  loop.iterate();
  CHECK(ran == 2);
}

TEST_CASE("a manual clock shows its start and moves forward only by advance_to") {
  const manual_clock::time_point begin(5h);
  manual_clock clock(begin);
  CHECK(clock.now() == begin);
  clock.advance(1s);
  CHECK(clock.now() == begin + 1s);
  clock.advance_to(begin);
  CHECK(clock.now() == begin + 1s);
  clock.advance_to(begin + 2s);
  CHECK(clock.now() == begin + 2s);
}

TEST_CASE("a loop is not run by two threads at a time") {
  event_loop loop;
  int refused = 0;
  loop.immediate([&] {
    std::thread([&] {
      CHECK_THROWS_AS(loop.iterate(), std::logic_error);
      CHECK_THROWS_AS(loop.run(), std::logic_error);
      CHECK(!loop.is_same_thread());
      loop.immediate([&] { ++refused; });  // handing in is not running
    }).join();
    CHECK(loop.is_same_thread());
  });
  loop.iterate();
  loop.iterate();
  CHECK(refused == 1);
}

TEST_CASE("a loop that was run by another thread may be run, used and destroyed by the one that made it") {
  list ran;
  {
    event_loop loop;
    std::thread([&] {
      loop.immediate([&] { ran.push_back(1); });
      loop.iterate();
    }).join();
    loop.immediate([&] { ran.push_back(2); });
    loop.iterate();
    std::thread([&] { loop.iterate(); }).join();
  }
  CHECK(ran == list{1, 2});
}

TEST_CASE("a loop takes callbacks from within the turn of another that its own turn runs") {
  event_loop outer;
  event_loop inner;
  list ran;
  outer.immediate([&] {
    inner.immediate([&] {
      outer.immediate([&] { ran.push_back(2); });
      ran.push_back(1);
      CHECK_THROWS_AS(outer.iterate(), std::logic_error);
    });
    inner.iterate();
    CHECK(event_loop::current() == &outer);
  });
  outer.iterate();
  outer.iterate();
  CHECK(ran == list{1, 2});
}
