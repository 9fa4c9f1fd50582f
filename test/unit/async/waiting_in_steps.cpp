// SPDX-License-Identifier: BSL-1.0
//
// Bodies of loops and groups in a step or callback: they may wait on every thread, also on that of the event loop.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <system_error>
#include <thread>
#include <vector>

#include "async/async.hpp"
#include "steps/steps.hpp"
#include "support/held_workers.hpp"

using async::threadpool;
using steps::IAsyncSteps;
using testing::held_workers;

namespace {

/// A wait for a call of another pool, which no thread of a loop can make itself.
struct other_pool {
  async::blocking_pool calls;
  void wait() {
    calls.post([] {}).get();
    std::future<int> standard = calls.post([] { return 1; });
    standard.get();
    async::queue<int> none;
    async::select(async::on_pop(none, [](int) {}), async::after(std::chrono::microseconds(1)));
  }
};

/// Bodies that run on this thread, and on others.
void wait_in_each(threadpool& pool, other_pool& other, int& count) {
  std::vector<int> calls(64);
  const auto wait = [&](int& n) {
    other.wait();
    ++n;
  };
  async::parallel_for(pool, 0, 16, [&](int i) { wait(calls[static_cast<std::size_t>(i)]); }, 1);
  async::parallel_for(pool, 0, 1, [&](int) { wait(calls[16]); });
  async::parallel_invoke(pool, [&] { wait(calls[17]); }, [&] { wait(calls[18]); }, [&] { wait(calls[19]); });
  const int sum = async::parallel_reduce(
      pool, 20, 28, 0,
      [&](int so_far, int i) {
        wait(calls[static_cast<std::size_t>(i)]);
        return so_far + 1;
      },
      std::plus<>(), 1);
  CHECK(sum == 8);
  async::task_group group(pool);
  group.run([&] { wait(calls[28]); });
  CHECK(group.run_and_wait([&] {
    wait(calls[29]);
    async::parallel_invoke(pool, [&] { wait(calls[30]); }, [&] { wait(calls[31]); });
  }));
  for (int i = 0; i != 32; ++i) CHECK(calls[static_cast<std::size_t>(i)] == 1);
  ++count;
}

}  // namespace

TEST_CASE("bodies of loops and groups in a step wait for other pools, on whatever thread they run") {
  other_pool other;
  for (const unsigned threads : {1U, 3U}) {
    threadpool pool(threads);
    int count = 0;
    steps::post(pool, [&](IAsyncSteps&) { wait_in_each(pool, other, count); }).get();
    steps::AsyncTool tool;
    steps::post(tool, [&](IAsyncSteps&) { wait_in_each(pool, other, count); }).get();
    std::promise<void> called;
    pool.loop(0).post([&] {
      wait_in_each(pool, other, count);
      called.set_value();
    });
    called.get_future().wait();
    CHECK(count == 3);
  }
}

TEST_CASE("the same on a paused and on a stopped pool, where the step's thread runs them all") {
  other_pool other;
  threadpool pool(0);
  steps::AsyncTool tool;
  int count = 0;
  steps::post(tool, [&](IAsyncSteps&) { wait_in_each(pool, other, count); }).get();
  pool.stop();
  steps::post(tool, [&](IAsyncSteps&) { async::parallel_invoke(pool, [&] { other.wait(); }, [&] { ++count; }); }).get();
  CHECK(count == 2);
}

TEST_CASE("a call that a step waits for may wait, too, when the step's thread makes it") {
  threadpool& pool = threadpool::shared();
  held_workers others(pool, held_workers::inside::task, pool.size() - 1);
  int result = 0;
  steps::post(pool, [&result](IAsyncSteps&) {
    result = async::async([] { return threadpool::shared().post([] { return 7; }).get(); }).get();
  }).get();
  CHECK(result == 7);
}

TEST_CASE("a step itself still must not wait, also after such a loop") {
  threadpool pool(2);
  async::promise<void> never;
  async::future<void> waits = never.get_future();
  const auto outcome = [&](auto&& before) {
    bool is_refused = false;
    steps::post(pool, [&](IAsyncSteps&) {
      before();
      try {
        waits.wait();
      } catch (const std::system_error& e) {
        is_refused = e.code() == std::errc::resource_deadlock_would_occur;
      }
    }).get();
    return is_refused;
  };
  CHECK(outcome([] {}));
  CHECK(outcome([&] { async::parallel_for(pool, 0, 10, [](int) {}); }));
  CHECK(outcome([&] { async::parallel_invoke(pool, [] {}, [] {}); }));
  CHECK(outcome([&] { async::task_group(pool).run_and_wait([] {}); }));
  CHECK(outcome([&] {
    try {
      async::parallel_invoke(pool, [] { throw 1; }, [] {});
    } catch (int) {
    }
  }));
}

TEST_CASE("a loop in a step on top of a task's wait for a continuation waits for the same one") {
  for (const bool continues : {false, true}) {
    async::threadpool pool(1);
    async::promise<int> source;
    const async::shared_future<int> result =
        continues ? source.get_future().then([](async::future<int> f) { return f.get(); }).share()
                  : source.get_future().share();
    std::atomic<bool> is_waiting{false}, is_in_step{false};
    auto task = pool.post([&is_waiting, result] {
      is_waiting = true;
      return result.get();
    });
    while (!is_waiting) std::this_thread::yield();
    auto flow = steps::post(pool, [&](steps::IAsyncSteps&) {
      async::parallel_invoke(
          pool,
          [&is_in_step, result] {
            is_in_step = true;
            static_cast<void>(result.get());
          },
          [] {});
    });
    while (!is_in_step) std::this_thread::yield();
    source.set_value(7);
    CHECK(task.get() == 7);
    flow.get();
  }
}
