// SPDX-License-Identifier: BSL-1.0
//
// How a worker's time is shared between tasks and turns of event loops where one kind takes far longer than the other.
#include "async/detail/pool/turn_share.hpp"

#include <doctest/doctest.h>

#include <atomic>      // for atomic
#include <chrono>      // for milliseconds, microseconds
#include <cstddef>     // for size_t
#include <functional>  // for function, cref

#include "async/event.hpp"
#include "async/event_loop.hpp"
#include "async/future_group.hpp"
#include "async/threadpool.hpp"
#include "steps/steps.hpp"
#include "support/work_for.hpp"

using async::threadpool;
using async::detail::turn_share;
using steps::IAsyncSteps;
using testing::work_for;
using namespace std::chrono_literals;

namespace {

/// A share that looks closely, since long items have run.
turn_share close_looks() {
  turn_share share;
  bool is_long = false;
  for (int i = 0; !is_long; ++i) {
    REQUIRE(i < 40);
    work_for(200us);
    is_long = share.change(false, 0);
  }
  return share;
}

}  // namespace

TEST_CASE("after a long item of one kind the other kind goes on as long, once") {
  turn_share share = close_looks();
  work_for(5ms);
  CHECK(share.change(true, 0));
  int looks = 0;  // 0 if this thread gets no processor for 5 ms; then the next try
  for (int tries = 0; looks == 0 && tries < 1'000; ++tries) {
    if (tries != 0) {
      share.change(false, 0);
      work_for(5ms);
      share.change(true, 0);
    }
    for (; share.goes_on(); ++looks) {
    }
  }
  CHECK(looks > 1);
  share.change(true, 0);  // after several items, which were to go on
  CHECK_FALSE(share.goes_on());
}

TEST_CASE("a long item of the same kind, a sleep, or the end of work extends nothing") {
  turn_share share = close_looks();
  work_for(5ms);
  CHECK(share.change(false, 0));
  CHECK_FALSE(share.goes_on());
  share.rest();
  work_for(5ms);
  CHECK_FALSE(share.change(true, 0));
  CHECK_FALSE(share.goes_on());
  work_for(5ms);
  CHECK(share.change(true, 0));
  share.end();
  CHECK_FALSE(share.goes_on());
}

TEST_CASE("flows that are told to go on wait for few long tasks") {
  threadpool pool(1);
  constexpr std::size_t flows = 300;
  std::atomic<std::size_t> waiting{0}, gone_on{0};
  async::event told;
  async::future_group group;
  for (std::size_t i = 0; i != flows; ++i) {
    group.add(steps::post(pool, [&](IAsyncSteps& asi) {
      asi.await(told);
      asi.add([&gone_on](IAsyncSteps&) { ++gone_on; });
      ++waiting;
    }));
  }
  std::size_t tasks = 0;  // one thread's
  std::function<void()> chain = [&] {
    ++tasks;
    if (waiting == flows) told.set();
    work_for(2ms);
    if (gone_on != flows && tasks != 1'000) pool.execute(std::cref(chain));
  };
  pool.execute(std::cref(chain));
  group.when_empty().get();
  pool.wait_idle();
  CHECK(gone_on == flows);
  CHECK(tasks < flows / 3);
}

TEST_CASE("tasks wait for few long steps") {
  threadpool pool(1);
  constexpr std::size_t tasks = 300;
  std::size_t ran = 0, steps = 0;  // one thread's
  steps::AsyncSteps flow(pool);
  flow.loop([&](IAsyncSteps& asi) {
    if (++steps == 10) {
      for (std::size_t i = 0; i != tasks; ++i) pool.execute([&ran] { ++ran; });
    }
    work_for(2ms);
    if (ran == tasks || steps == 1'000) asi.breakLoop();
    asi.relinquish();
  });
  flow.promise().get();
  CHECK(ran == tasks);
  CHECK(steps < tasks / 3);
}

TEST_CASE("tasks from outside wait for few long tasks that post themselves") {
  threadpool pool(1);
  constexpr std::size_t posts = 20;
  std::size_t ran = 0, tasks = 0;  // one thread's
  std::function<void()> chain = [&] {
    ++tasks;
    work_for(4ms);
    if (ran != posts && tasks != posts * 61) pool.execute(std::cref(chain));
  };
  pool.execute(std::cref(chain));
  for (std::size_t i = 0; i != posts; ++i) pool.execute([&ran] { ++ran; });
  pool.wait_idle();
  CHECK(ran == posts);
  CHECK(tasks < posts * 20);
}
