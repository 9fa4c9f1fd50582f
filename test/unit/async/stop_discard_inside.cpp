// SPDX-License-Identifier: BSL-1.0
//
// stop(discard) of a threadpool, seen from a task that runs: what the task makes after it has begun.
#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <thread>

#include "async/async.hpp"
#include "support/gate.hpp"
#include "support/live_count.hpp"

using async::discard;
using async::threadpool;
using testing::gate;

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
