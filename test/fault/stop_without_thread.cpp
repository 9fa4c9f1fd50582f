// SPDX-License-Identifier: BSL-1.0
//
// The end of a paused pool for which the system refuses a thread: the thread that stops it is its worker.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "async/blocking_section.hpp"
#include "async/parallel_for.hpp"
#include "async/task_group.hpp"
#include "steps/steps.hpp"
#include "support/thread_failure.hpp"
#include "support/thrown.hpp"
#include "support/wait_while.hpp"

using namespace std::chrono_literals;
using async::threadpool;
using steps::IAsyncSteps;
using testing::fail_thread;

namespace {

std::size_t failures = 0;

void stop_without_thread(threadpool& pool) {
  static std::atomic<int> refused{0};
  refused = 0;
  const fail_thread failing(0, [] { ++refused; });
  pool.stop();
  CHECK(refused != 0);
  ++failures;
}

}  // namespace

TEST_CASE("stop() runs all tasks and flows that the pool has accepted") {
  for (const bool has_had_a_worker : {false, true}) {
    CAPTURE(has_had_a_worker);
    std::atomic<bool> has_gone{false};
    async::threadpool_options options;
    options.threads = has_had_a_worker ? 1 : 0;
    options.on_thread_stop = [&has_gone](std::size_t) { has_gone = true; };
    threadpool pool(std::move(options));
    if (has_had_a_worker) {
      pool.configurepool(0);
      testing::wait_while(has_gone, false);
    }
    std::atomic<int> tasks{0}, flows{0};
    std::vector<async::future<int>> results;
    for (int i = 0; i < 100; ++i) {
      pool.execute([&tasks] { ++tasks; });
      steps::execute(pool, [&flows](IAsyncSteps& asi) {
        auto& branches = asi.parallel();
        for (int b = 0; b < 3; ++b) branches.add([&flows](IAsyncSteps& branch) { branch.relinquish(), ++flows; });
      });
      results.push_back(steps::post<int>(pool, [i](IAsyncSteps& asi) { asi.success(i); }));
    }
    stop_without_thread(pool);
    CHECK(tasks == 100);
    CHECK(flows == 300);
    for (int i = 0; i < 100; ++i) CHECK(results[static_cast<std::size_t>(i)].get() == i);
  }
}

TEST_CASE("a task may wait for a flow, a task, an event, a timer and another thread") {
  threadpool pool(std::size_t{0});
  async::event is_set;
  std::atomic<bool> is_waiting{false};
  std::optional<steps::completion<int>> from_outside;
  std::thread answers([&] {
    testing::wait_while(is_waiting, false);
    from_outside->success(5);
  });
  int sum = 0;
  async::future<int> earlier = steps::post<int>(pool, [](IAsyncSteps& asi) { asi.success(1); });
  pool.execute([&] {
    sum += earlier.get();
    steps::AsyncSteps own(pool);
    own.add([](IAsyncSteps& asi) { asi.success(2); });
    sum += own.promise<int>().get();
    sum += steps::post<int>(pool, [](IAsyncSteps& asi) {
             asi.add([](IAsyncSteps& step) { step.setTimeout(5ms), step.waitExternal(); },
                     [](IAsyncSteps& step, steps::ErrorCode) { step.success(3); });
           }).get();
    sum += pool.post([] { return 4; }).get();
    sum += steps::post<int>(pool, [&](IAsyncSteps& asi) {
             from_outside.emplace(asi.completion<int>());
             is_waiting = true;
           }).get();
    is_set.wait();
    sum += 6;
  });
  pool.execute([&is_set] { is_set.set(); });
  stop_without_thread(pool);
  CHECK(sum == 21);
  answers.join();
}

TEST_CASE("flows that wait, and those that never end, are cancelled") {
  threadpool pool(std::size_t{0});
  std::atomic<int> cancelled{0};
  for (int i = 0; i < 10; ++i) {
    steps::execute(pool, [&cancelled](IAsyncSteps& asi) {
      asi.setCancel([&cancelled](IAsyncSteps&) { ++cancelled; });
      asi.waitExternal();
    });
  }
  steps::execute(pool, [&cancelled](IAsyncSteps& asi) {
    asi.setCancel([&cancelled](IAsyncSteps&) { ++cancelled; });
    asi.loop([](IAsyncSteps& step) { step.relinquish(); });
  });
  stop_without_thread(pool);
  CHECK(cancelled == 11);
}

TEST_CASE("stop() calls no hook of a thread's start or end, and tasks see their pool") {
  std::atomic<int> hooks{0};
  async::threadpool_options options;
  options.threads = 0;
  options.on_thread_start = [&hooks](std::size_t) { ++hooks; };
  options.on_thread_stop = [&hooks](std::size_t) { ++hooks; };
  threadpool pool(std::move(options));
  bool is_refused = false;
  std::thread::id runs_on;
  pool.execute([&] {
    runs_on = std::this_thread::get_id();
    CHECK_THROWS_AS(pool.stop(), std::system_error);
    pool.execute([&is_refused] { is_refused = true; });
  });
  stop_without_thread(pool);
  CHECK(runs_on == std::this_thread::get_id());
  CHECK(is_refused);
  CHECK(hooks == 0);
}

TEST_CASE("stop() inside a task of another pool, or a callback of a loop: the thread is afterwards what it was") {
  int flows = 0;
  const auto end_a_pool = [&flows] {
    threadpool pool(std::size_t{0});
    pool.execute([&] { flows += steps::post<int>(pool, [](IAsyncSteps& asi) { asi.success(1); }).get(); });
    stop_without_thread(pool);
  };
  {
    threadpool outer(1);
    outer
        .post([&] {
          end_a_pool();
          int inner = 0;
          async::task_group group(outer);
          group.run([&inner] { ++inner; });
          group.wait();
          CHECK(inner == 1);
          CHECK(steps::post<int>(outer, [](IAsyncSteps& asi) { asi.success(2); }).get() == 2);
        })
        .get();
    CHECK(outer.post([] { return 3; }).get() == 3);
  }
  {
    async::event_loop loop;
    steps::AsyncSteps flow(loop);
    int later = 0;
    flow.add([&](IAsyncSteps& asi) {
      end_a_pool();
      asi.add([&later](IAsyncSteps&) { later = 4; });
    });
    flow.execute();
    while (loop.iterate().have_work) {
    }
    CHECK(later == 4);
  }
  CHECK(flows == 2);
}

TEST_CASE("stop() inside a task of another pool: what it runs may neither stop that one nor wait until it is idle") {
  threadpool around(1);
  threadpool other(1);
  threadpool pool(std::size_t{0});
  int refused = 0;
  pool.execute([&] {
    async::parallel_for(other, 0, 1, [&](int) {
      refused += testing::is_deadlock([&] { static_cast<void>(around.wait_idle_for(1ms)); });
      refused += testing::is_deadlock([&] { static_cast<void>(pool.wait_idle_for(1ms)); });
    });
  });
  around.post([&pool] { stop_without_thread(pool); }).get();
  CHECK(refused == 2);
}

TEST_CASE("wait_idle() on another thread returns when the thread that stops the pool has run the tasks") {
  threadpool pool(std::size_t{0});
  std::atomic<bool> is_waiting{false};
  std::atomic<int> ran{0};
  pool.execute([&ran] { ++ran; });
  std::thread waits([&] {
    is_waiting = true;
    pool.wait_idle();
    ++ran;
  });
  testing::wait_while(is_waiting, false);
  stop_without_thread(pool);
  waits.join();
  CHECK(ran == 2);
}

TEST_CASE("a thread that has started meanwhile goes on with what its task posts") {
  threadpool pool(std::size_t{0});
  std::atomic<bool> is_begun{false}, is_alone{false};
  std::atomic<int> ran{0};
  pool.execute([&] {
    testing::threads::left = testing::threads::never;  // from here on threads can start
    const async::blocking_section here;
    testing::wait_while(is_begun, false);
  });
  pool.execute([&] {
    is_begun = true;
    testing::wait_while(is_alone, false);
    std::this_thread::sleep_for(20ms);  // the stopping thread finds nothing to run meanwhile
    const async::blocking_section here;
    pool.post([&ran] { ++ran; }).get();
    ran += steps::post<int>(pool, [](IAsyncSteps& asi) { asi.success(1); }).get();
  });
  pool.execute([&is_alone] { is_alone = true; });
  stop_without_thread(pool);
  CHECK(ran == 2);
}

TEST_CASE("a flow that a helper of the pool starts while no task is left runs as well") {
  threadpool pool(std::size_t{0});
  std::atomic<bool> is_inside{false}, is_stopping{false};
  int result = 0;
  pool.execute([&is_stopping] { is_stopping = true; });
  std::thread helps([&] {
    async::parallel_for(pool, 0, 1, [&](int) {
      is_inside = true;
      testing::wait_while(is_stopping, false);
      std::this_thread::sleep_for(20ms);
      result = steps::post<int>(pool, [](IAsyncSteps& asi) { asi.success(7); }).get();
    });
  });
  testing::wait_while(is_inside, false);
  stop_without_thread(pool);
  helps.join();
  CHECK(result == 7);
}

TEST_CASE("a worker in a section that waits for a queued task does not hold the end up") {
  std::atomic<bool> is_blocked{false}, has_ended{false}, was_run{false};
  async::threadpool_options options;
  options.threads = 1;
  options.on_thread_stop = [&has_ended](std::size_t) { has_ended = true; };
  threadpool pool(std::move(options));
  pool.execute([&] {
    const async::blocking_section here;
    is_blocked = true;
    testing::wait_while(was_run, false);
  });
  testing::wait_while(is_blocked, false);
  pool.configurepool(0);
  testing::wait_while(has_ended, false);  // the worker that the section has added
  pool.execute([&was_run] { was_run = true; });
  stop_without_thread(pool);
  CHECK(was_run);
}

TEST_CASE("report") { std::printf("count: %zu threads refused at the end of a pool\n", failures); }
