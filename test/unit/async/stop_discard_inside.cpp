// SPDX-License-Identifier: BSL-1.0
//
// stop(discard), seen from inside: what a task that runs makes after it has begun, and what calls it.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "async/async.hpp"
#include "support/gate.hpp"
#include "support/live_count.hpp"
#include "support/pool_of_one.hpp"
#include "support/thrown.hpp"
#include "support/walker.hpp"

using async::discard;
using async::dropped_call;
using async::threadpool;
using testing::gate;
using testing::is_broken;
using testing::walker;

namespace {

struct counted : testing::live_count<counted> {};

/// Calls body() in a task of the pool once stop(discard) has begun. Returns what stop() has dropped besides.
template <class Body>
std::size_t stop_around(threadpool& pool, Body body) {
  gate held;
  pool.execute([&] {
    held.pass();
    body();
  });
  held.wait_for_one();
  const async::future<void> mark = pool.post([] {});
  std::thread opener([&] {
    while (!mark.is_ready()) std::this_thread::yield();
    held.open();
  });
  const std::size_t count = pool.stop(discard);
  opener.join();
  return count - 1;
}

template <class Future>
bool is_dropped(Future future) {
  try {
    future.get();
  } catch (const dropped_call& error) {
    return error.why() == dropped_call::reason::stopped;
  } catch (const std::future_error&) {  // a plain broken promise
  }
  return false;
}

}  // namespace

TEST_CASE("stop(discard) cancels a group that a running task makes after it has begun") {
  constexpr std::size_t count = 100;
  threadpool pool(1);
  std::size_t called = 0;
  bool is_complete = true;
  const auto make_group = [&] {
    async::task_group group(pool);
    for (std::size_t i = 0; i < count; ++i) group.run([&called, c = counted()] { ++called; });
    is_complete = group.wait();
  };
  SUBCASE("in no group") { CHECK(stop_around(pool, make_group) == count); }
  SUBCASE("in a loop") {
    CHECK(stop_around(pool, [&] { async::parallel_for(pool, 0, 1, [&](int) { make_group(); }); }) == count);
  }
  SUBCASE("in a task of another pool's group, which a wait runs") {
    threadpool other(0);
    const auto make_in_other = [&] {
      async::task_group around(other);
      around.run(make_group);
      CHECK(around.wait());
    };
    CHECK(stop_around(pool, make_in_other) == count);
  }
  CHECK(called == 0);
  CHECK_FALSE(is_complete);
  CHECK(counted::live() == 0);
}

TEST_CASE("stop(discard) drops what a running task posts after it has begun, also in the task's waits") {
  threadpool pool(1);
  std::size_t called = 0;
  const auto work = [&called, c = counted()] { ++called; };
  SUBCASE("for a promise") {
    async::promise<void> end;
    auto at_end = std::shared_ptr<void>(&end, [&end](void*) { end.set_value(); });
    CHECK(stop_around(pool, [&] {
            pool.execute([&called, at_end = std::move(at_end)] { ++called; });
            pool.execute(work);
            async::future<void> posted = pool.post(work);
            end.get_future().get();
            CHECK(is_dropped(std::move(posted)));
          }) == 3);
  }
  SUBCASE("for the call") {
    CHECK(stop_around(pool, [&] { CHECK(is_dropped(pool.post(work))); }) == 1);
  }
  SUBCASE("for a call of async::async") {
    CHECK(stop_around(pool, [&] {
            std::future<void> made = async::detail::call_in_pool<void>(pool.core(), work);
            CHECK(is_broken(made));
          }) == 1);
  }
  SUBCASE("for continuations, of which only those without a pool run") {
    bool was_dropped = false;
    const auto look = [&was_dropped](async::future<void> f) { was_dropped = is_dropped(std::move(f)); };
    const auto count = [&called](async::future<void>) { ++called; };
    CHECK(stop_around(pool, [&] {
            CHECK(is_dropped(pool.post(work).then(pool, count)));
            pool.post(work).then(look).get();
          }) == 3);
    CHECK(was_dropped);
  }
  SUBCASE("and calls destructors outside of the groups of the task") {
    std::size_t made = 0;
    auto at_end =
        std::shared_ptr<void>(nullptr, [&](void*) { async::parallel_for(pool, 0, 10, [&](int) { ++made; }); });
    CHECK(stop_around(pool, [&] {
            async::task_group group(pool);
            group.run_and_wait([&] {
              group.cancel();
              CHECK(is_dropped(pool.post([at_end = std::move(at_end)] {})));
            });
          }) == 1);
    CHECK(made == 10);
  }
  CHECK(called == 0);
}

TEST_CASE_TEMPLATE("stop(discard): destructors of what it drops do not belong to what it is called in", Pool,
                   threadpool, async::blocking_pool) {
  threadpool other(2);
  std::function<int()> at_end;
  int got = 0;
  const auto stop = [&] {
    const auto pool = testing::pool_of_one<Pool>();
    gate held;
    pool->execute([&held] { held.pass(); });
    held.wait_for_one();
    pool->execute([end = std::shared_ptr<void>(nullptr, [&](void*) {
                     got = at_end();
                     held.open();
                   })] {});
    pool->stop(discard);
  };
  SUBCASE("a task of a cancelled group") {
    at_end = [&] {
      std::atomic<int> calls{0};
      async::parallel_for(other, 0, 42, [&calls](int) { ++calls; });
      return calls.load();
    };
    async::task_group group(other);
    group.run_and_wait([&] {
      group.cancel();
      stop();
    });
  }
  SUBCASE("a callback of an event loop") {
    at_end = [&] {
      try {
        return other.post([] { return std::this_thread::sleep_for(std::chrono::milliseconds(5)), 42; }).get();
      } catch (const std::system_error&) {  // refused
        return 0;
      }
    };
    async::event_loop loop;
    loop.post(stop);
    loop.iterate();
  }
  SUBCASE("a coroutine that an enqueue() resumes") {
    async::queue<async::promise<int>> asked;
    async::queue<int> start;
    const walker server = [](async::queue<async::promise<int>>& from) -> walker {
      while (auto one = co_await from.pop()) one->set_value(42);
    }(asked);
    at_end = [&asked] {
      async::promise<int> p;
      async::future<int> answer = p.get_future();
      asked.enqueue(std::move(p));
      return answer.wait_for(std::chrono::seconds(1)) == std::future_status::ready ? answer.get() : 0;
    };
    const walker caller = [](async::queue<int>& from, auto& stops) -> walker {
      co_await from.pop();
      stops();
    }(start, stop);
    start.enqueue(1);
  }
  CHECK(got == 42);
}

TEST_CASE("after stop(discard) the groups and tasks that a loop on the pool makes run, and the count stays") {
  threadpool pool(1);
  std::size_t called = 0;
  bool is_complete = false;
  CHECK(pool.stop(discard) == 0);
  for (std::size_t round = 1; round != 3; ++round) {
    async::parallel_for(pool, 0, 1, [&](int) {
      async::task_group group(pool);
      for (int i = 0; i != 3; ++i) group.run([&] { ++called; });
      is_complete = group.wait();
      pool.execute([&] { ++called; });
    });
    CHECK(is_complete);
    CHECK(called == 4 * round);
    CHECK(pool.stop(discard) == 0);
  }
}
