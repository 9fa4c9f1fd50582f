// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "async/event.hpp"
#include "async/event_loop.hpp"
#include "async/threadpool.hpp"
#include "steps/interop/coroutine.hpp"
#include "steps/steps.hpp"
#include "support/coroutines.hpp"
#include "support/flows.hpp"
#include "support/pause_thread.hpp"
#include "support/scale.hpp"
#include "support/wait_while.hpp"

using async::event;
using steps::ErrorCode;
using steps::IAsyncSteps;
using namespace std::chrono_literals;

namespace {

/// Another thread sets and resets an event as a wait looks at this clock.
struct pulsing_clock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<pulsing_clock>;
  static constexpr bool is_steady = false;
  static time_point now() {
    if (pulsed != nullptr) std::thread([] { pulsed->set(), pulsed->reset(); }).join();
    return time_point(std::chrono::steady_clock::now().time_since_epoch());
  }
  static inline event* pulsed = nullptr;
};

template <class F>
testing::other_coroutine when_set(event& e, F then) {
  co_await e.on_set();
  then();
}

}  // namespace

TEST_CASE("event: stays set until reset(); a timed wait tells the truth") {
  event e;
  CHECK_FALSE(e.is_set());
  CHECK_FALSE(e.wait_for(0ms));
  CHECK_FALSE(e.wait_for(1ms));
  e.set();
  e.set();
  CHECK(e.is_set());
  e.wait();
  CHECK(e.wait_for(-1ms));
  e.reset();
  CHECK_FALSE(e.wait_for(1ms));
  CHECK(event(true).wait_for(0s));
  const auto moment = std::chrono::system_clock::now() + 5ms;
  CHECK_FALSE(e.wait_until(moment));
  CHECK(std::chrono::system_clock::now() >= moment);
  e.set();
  CHECK(e.wait_until((std::chrono::steady_clock::time_point::min)()));
}

TEST_CASE("wait_until() sees a set() between two looks at the clock, even if reset() follows at once") {
  event e;
  const auto moment = pulsing_clock::now() + 10s;
  pulsing_clock::pulsed = &e;
  const bool is_seen = e.wait_until(moment);
  pulsing_clock::pulsed = nullptr;
  CHECK(is_seen);
}

TEST_CASE("event: set() ends all waits of threads, tasks and flows that began before it, though reset() follows") {
  async::threadpool pool(2);
  constexpr std::size_t waiters = 8;
  for (std::size_t round = 0; round < testing::rounds(50); ++round) {
    event e;
    std::atomic<std::size_t> begun{0}, ended{0};
    std::vector<std::thread> threads;
    std::vector<async::future<void>> others;
    for (std::size_t i = 0; i < waiters; ++i) {
      threads.emplace_back([&] {
        ++begun;
        e.wait();
        ++ended;
      });
    }
    testing::bench b;
    std::vector<std::unique_ptr<steps::AsyncSteps>> flows;
    for (std::size_t i = 0; i < waiters; ++i) {
      flows.push_back(std::make_unique<steps::AsyncSteps>(b.loop));
      flows.back()->await(e).add([&ended](IAsyncSteps&) { ++ended; });
      flows.back()->execute();
    }
    b.drain();  // the flows wait
    while (begun != waiters) std::this_thread::yield();
    std::this_thread::sleep_for(round % 2 == 0 ? 0us : 500us);  // threads spin or sleep
    e.set();
    e.reset();
    b.drain();
    CHECK(ended >= waiters);  // the flows
    e.set();                  // a thread may have begun to wait only now
    for (std::thread& t : threads) t.join();
    CHECK(ended == 2 * waiters);
  }
}

TEST_CASE("event: a thread that has waited may destroy the event, also in a coroutine inside set()") {
  async::threadpool pool(1);
  const auto rounds = [&pool] {
    for (std::size_t round = 0; round < testing::rounds(5'000); ++round) {
      auto e = std::make_unique<event>();
      pool.execute([done = e.get()] { done->set(); });
      if (round % 2 == 0) {
        e->wait();
      } else {
        CHECK(e->wait_for(1h));
      }
    }
  };
  rounds();
  event go;
  const testing::other_coroutine one = when_set(go, rounds);
  go.set();
  CHECK(one.handle.done());
  one.handle.destroy();
}

TEST_CASE("event: wait() in a coroutine inside set() returns when the set() that ends it is over") {
  event go, done;
  // A thread is inside done.set(), since it wakes a loop with a flow.
  std::atomic<bool> is_held{false}, is_inside{false}, has_returned{false};
  async::event_loop loop([&] {
    if (!is_held) return;
    is_inside = true;
    testing::linger(has_returned);
    is_inside = false;
  });
  steps::AsyncSteps flow(loop);
  flow.await(done);
  flow.execute();
  while (loop.iterate().have_work) {
  }
  is_held = true;
  bool was_inside = true;
  const testing::other_coroutine one = when_set(go, [&] {
    done.wait();
    was_inside = is_inside;
    has_returned = true;
  });
  std::thread setter([&done] { done.set(); });
  testing::wait_while(is_inside, false);
  go.set();
  setter.join();
  CHECK_FALSE(was_inside);
  is_held = false;
  while (loop.iterate().have_work) {
  }
  one.handle.destroy();
}

TEST_CASE("event: a coroutine inside set() does not hold up threads that wait, and may destroy the event") {
  auto e = std::make_unique<event>();
  std::promise<void> has_waited;
  const testing::other_coroutine one = when_set(*e, [&] {
    has_waited.get_future().wait();
    e->wait();
    e.reset();
  });
  std::thread setter([which = e.get()] { which->set(); });
  e->wait();
  has_waited.set_value();
  setter.join();
  CHECK(e == nullptr);
  one.handle.destroy();
}

#if !defined(_WIN32)
TEST_CASE("event: a thread that stops inside set() of a set event holds up no wait") {
  event e(true);
  std::atomic<bool> is_over{false};
  std::thread setter([&] {
    while (!is_over) e.set();
  });
  for (std::size_t round = 0; round < testing::rounds(50); ++round) {
    const testing::frozen_thread here(setter);
    CHECK(e.wait_for(0s));
    e.wait();
  }
  is_over = true;
  setter.join();
}
#endif

TEST_CASE("event: a coroutine that goes on inside set() does not wait for the end of set()") {
  event e;
  bool has_ended = false;
  auto waits = [](event& which, bool& done) -> testing::other_coroutine {
    co_await which.on_set();
    which.wait();
    which.set();
    done = true;
  };
  const testing::other_coroutine one = waits(e, has_ended);
  e.set();
  CHECK(has_ended);
  one.handle.destroy();
}

TEST_CASE("event: a task that waits lets the pool's other tasks and flows go on, also with one worker") {
  async::threadpool pool(1);
  event e;
  auto task = pool.post([&e] { e.wait(); });
  auto flow = steps::post(pool, [&e](IAsyncSteps& asi) {
    asi.setTimeout(1h);
    asi.add([&e](IAsyncSteps&) { e.set(); });
  });
  task.get();
  flow.get();
}

TEST_CASE("event: a flow that is cancelled or times out leaves; its handler may wait again") {
  testing::bench b;
  event e;
  int ended = 0;
  {
    steps::AsyncSteps flow(b.loop);
    flow.await(e).add([&ended](IAsyncSteps&) { ++ended; });
    flow.execute();
    b.drain();
    flow.cancel();
    b.drain();
    CHECK(ended == 0);
  }
  steps::AsyncSteps flow(b.loop);
  flow.add(
          [&e](IAsyncSteps& asi) {
            asi.setTimeout(1ms);
            asi.await(e, [](IAsyncSteps&, ErrorCode) {});
          },
          [&](IAsyncSteps& asi, ErrorCode code) {
            CHECK(code == steps::errors::Timeout);
            e.set();
            asi.await(e);
            asi.add([&ended](IAsyncSteps&) { ended += 10; });
          })
      .add([&ended](IAsyncSteps&) { ended += 100; });
  flow.execute();
  b.pass(2ms);
  CHECK(ended == 110);
  e.reset();
  e.set();  // finds no waiter
}

TEST_CASE("event: coroutines of any type, and those of flows, wait") {
  event e;
  int ended = 0;
  {
    auto plain = [](event& which, int& count) -> testing::other_coroutine {
      co_await which.on_set();
      ++count;
    };
    const testing::other_coroutine first = plain(e, ended);
    CHECK(ended == 0);
    e.set();
    CHECK(ended == 1);
    const testing::other_coroutine second = plain(e, ended);  // is set: does not suspend
    CHECK(ended == 2);
    e.reset();
    const testing::other_coroutine third = plain(e, ended);
    third.handle.destroy();  // leaves
    e.set();
    CHECK(ended == 2);
    e.reset();
    first.handle.destroy();
    second.handle.destroy();
  }
  async::threadpool pool(2);
  auto flow = steps::post<int>(pool, [&e](IAsyncSteps& asi) {
    asi.add(steps::interop::co([&e](IAsyncSteps&) -> steps::interop::task<int> {
      co_await e.on_set();
      co_return 7;
    }));
  });
  while (!flow.is_ready()) {
    e.set();
    e.reset();
  }
  CHECK(flow.get() == 7);
}
