// SPDX-License-Identifier: BSL-1.0
//
// The lookout of a pool, and tasks that wait: what each of them runs.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <thread>
#include <utility>

#include "async/future.hpp"
#include "async/task_group.hpp"
#include "async/threadpool.hpp"
#include "steps/spawn.hpp"
#include "steps/steps.hpp"
#include "support/held_workers.hpp"
#include "support/scale.hpp"
#include "support/waiting_flow.hpp"
#include "support/work_for.hpp"

using async::threadpool;
using steps::IAsyncSteps;
using testing::held_workers;
using testing::until;
using testing::waiting_flow;
using namespace std::chrono_literals;

TEST_CASE("a step's wait while all workers are inside tasks runs no task that another flow's step has posted") {
  threadpool pool(2);
  waiting_flow posting(pool), waiting(pool);
  async::promise<void> promise;
  async::future<void> future = promise.get_future();
  std::thread::id waiter;
  std::atomic<bool> is_waiting{false}, is_over{false};
  std::atomic<int> ran{0}, ran_inside{0};
  auto posted = posting.then([&](IAsyncSteps&) {
    async::task_group group(pool);  // from now on the thread keeps what it posts
    group.run([] {});
    group.wait();
    for (int i = 0; i < 3; ++i) {
      pool.execute([&] {
        ++ran;
        if (is_waiting && !is_over && std::this_thread::get_id() == waiter) ++ran_inside;
      });
    }
  });
  auto waited = waiting.then([&](IAsyncSteps&) {
    waiter = std::this_thread::get_id();
    is_waiting = true;
    async::task_group group(pool);
    group.run_and_wait([&] { future.get(); });
    is_over = true;
  });
  held_workers held(pool, held_workers::inside::task, 2);
  CHECK(posting.token.success());
  REQUIRE(held.see(posted));
  CHECK(waiting.token.success());
  until(is_waiting);
  std::this_thread::sleep_for(20ms);  // the wait could begin what lies there
  promise.set_value();
  REQUIRE(held.see(waited));
  CHECK(ran_inside == 0);
  held.release();
  pool.wait_idle();
  CHECK(ran == 3);
}

TEST_CASE("what a task sends reaches its flow while another task waits and its worker turns loops") {
  threadpool pool(2);
  waiting_flow flow(pool);
  std::atomic<bool> has_come{false}, is_over{false}, are_there{false};
  std::atomic<int> inside{0}, begun{0}, begun_before{0};
  auto end = flow.then([&](IAsyncSteps&) {
    begun_before = begun.load();
    has_come = true;
  });
  auto ticking = steps::post(pool, [&is_over](IAsyncSteps& asi) {
    asi.every(5ms, [&is_over](IAsyncSteps& round, const steps::Tick&) {
      if (is_over) round.breakLoop();
    });
  });
  // The waiting one always has something to do, so it looks for no other worker's loops.
  async::task_group shared(pool);
  auto waiting = pool.post([&] {
    ++inside;
    while (!are_there) std::this_thread::yield();
    shared.wait();
  });
  auto sending = pool.post([&] {
    ++inside;
    while (inside != 2) std::this_thread::yield();
    for (int i = 0; i < 10'000; ++i) {
      shared.run([&] {
        ++begun;
        if (!has_come) testing::work_for(1ms);
      });
    }
    are_there = true;
    const auto latest = std::chrono::steady_clock::now() + 15s;
    while (begun < 50) std::this_thread::yield();  // a timer that was late before would call the lookout
    CHECK(flow.token.success());
    while (!has_come && std::chrono::steady_clock::now() < latest) std::this_thread::yield();
    CHECK(has_come);
    CHECK(begun_before < 2'000);
  });
  sending.get();
  waiting.get();
  is_over = true;
  end.get();
  ticking.get();
}

TEST_CASE(
    "a lookout that starts as the pool ends calls the start hook in time for what that waits for, or not at all") {
  for (std::size_t i = testing::rounds(300); i != 0; --i) {
    std::atomic<int> starts{0};
    async::threadpool_options options;
    options.threads = 2;
    options.on_thread_start = [&starts](std::size_t) {
      if (++starts <= 2) return;
      steps::post(*threadpool::current(), [](IAsyncSteps&) {}).get();
    };
    threadpool pool(std::move(options));
    while (starts < 2) std::this_thread::yield();
    static_cast<void>(steps::post(pool, [](IAsyncSteps& asi) { asi.relinquish(); }));
    for (int task = 0; task < 2; ++task) pool.execute([] { std::this_thread::sleep_for(1us); });
    pool.stop();
  }
}
