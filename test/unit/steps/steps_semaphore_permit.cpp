// SPDX-License-Identifier: BSL-1.0
//
// Permits of a Semaphore that belong to an object instead of a step.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "steps/interop/coroutine.hpp"
#include "steps/interop/sync.hpp"
#include "steps/interop/with_timeout.hpp"
#include "steps/steps.hpp"
#include "support/flows.hpp"

using namespace std::chrono_literals;
using steps::ErrorCode;
using steps::IAsyncSteps;
using steps::Semaphore;
using steps::interop::acquire;
using steps::interop::co;
using steps::interop::start;
using steps::interop::task;
using steps::interop::with_timeout;
using testing::bench;
using Permit = steps::Semaphore::Permit;

static_assert(!std::is_copy_constructible_v<Permit> && std::is_nothrow_default_constructible_v<Permit>);
static_assert(std::is_nothrow_move_constructible_v<Permit> && std::is_nothrow_move_assignable_v<Permit>);

namespace {

std::size_t free_permits(Semaphore& semaphore) {
  std::vector<Permit> taken;
  for (;;) {
    Permit one = semaphore.try_acquire();
    if (!one) return taken.size();
    taken.push_back(std::move(one));
  }
}

}  // namespace

TEST_CASE_TEMPLATE("a permit outlives the step that has acquired it, and comes back when it is destroyed", Flow,
                   STEPS_FLOWS) {
  bench b;
  Semaphore semaphore(2);
  Permit kept;
  Flow flow(b.loop);
  semaphore.acquire(flow);
  flow.add([&](IAsyncSteps&, Permit permit) { kept = std::move(permit); });
  flow.execute();
  b.drain();
  CHECK(free_permits(semaphore) == 1);
  Permit moved = std::move(kept);
  CHECK(!kept);
  kept.release();
  CHECK(free_permits(semaphore) == 1);
  Permit other = semaphore.try_acquire();
  CHECK(free_permits(semaphore) == 0);
  moved = std::move(other);
  CHECK(free_permits(semaphore) == 1);
  moved.release();
  moved.release();
  CHECK(!moved);
  CHECK(free_permits(semaphore) == 2);
}

TEST_CASE("a permit that the next step does not take is given back") {
  bench b;
  Semaphore semaphore(1);
  steps::AsyncSteps flow(b.loop);
  bool has_run = false;
  semaphore.acquire(flow);
  flow.add([&](IAsyncSteps&) { has_run = free_permits(semaphore) == 1; });
  flow.execute();
  b.drain();
  CHECK(has_run);
}

TEST_CASE("acquire() and sync() wait in one queue, first come, first served") {
  bench b;
  Semaphore semaphore(1);
  Permit first = semaphore.try_acquire();
  std::vector<int> order;
  std::vector<steps::AsyncSteps> flows;
  for (int i = 0; i < 6; ++i) {
    steps::AsyncSteps& flow = flows.emplace_back(b.loop);
    if (i % 2 == 0) {
      semaphore.acquire(flow);
      flow.add([&order, i](IAsyncSteps&, Permit) { order.push_back(i); });
    } else {
      flow.sync(semaphore, [&order, i](IAsyncSteps&) { order.push_back(i); });
    }
    flow.execute();
  }
  b.drain();
  CHECK(order.empty());
  first.release();
  b.drain();
  CHECK(order == std::vector{0, 1, 2, 3, 4, 5});
  CHECK(free_permits(semaphore) == 1);
}

TEST_CASE("no try_acquire() overtakes a flow that waits") {
  bench b;
  Semaphore semaphore(1);
  Permit held = semaphore.try_acquire();
  steps::AsyncSteps flow(b.loop);
  bool has_permit = false;
  semaphore.acquire(flow);
  flow.add([&](IAsyncSteps&, Permit permit) { has_permit = static_cast<bool>(permit); });
  flow.execute();
  b.drain();
  held.release();
  CHECK(!semaphore.try_acquire());
  b.drain();
  CHECK(has_permit);
  CHECK(semaphore.try_acquire());
}

TEST_CASE("a full queue is DefenseRejected, and the step's handler may go on without") {
  bench b;
  Semaphore semaphore(1, 0);
  const Permit held = semaphore.try_acquire();
  steps::AsyncSteps flow(b.loop);
  bool went_on = false;
  flow.add([&](IAsyncSteps& asi) { semaphore.acquire(asi); },
           [](IAsyncSteps& asi, ErrorCode code) {
             if (code == steps::errors::DefenseRejected) asi.success();
           });
  flow.add([&went_on](IAsyncSteps&) { went_on = true; });
  flow.execute();
  b.drain();
  CHECK(went_on);
}

TEST_CASE("a flow that is cancelled while it waits, is granted, or has passed its permit on, keeps none") {
  for (const int turns : {0, 1, 2, 3}) {
    CAPTURE(turns);
    bench b;
    Semaphore semaphore(1);
    Permit held = semaphore.try_acquire();
    {
      steps::AsyncSteps flow(b.loop);
      semaphore.acquire(flow);
      flow.add([](IAsyncSteps& asi, Permit) { asi.waitExternal(); });
      flow.execute();
      b.drain();
      if (turns != 0) held.release();
      for (int i = 1; i < turns; ++i) static_cast<void>(b.loop.iterate());
    }
    b.drain();
    CHECK(free_permits(semaphore) == (turns != 0 ? 1 : 0));
  }
}

TEST_CASE("an error or timeout of the step that waits withdraws it") {
  bench b;
  Semaphore semaphore(1);
  Permit held = semaphore.try_acquire();
  steps::AsyncSteps flow(b.loop);
  bool is_late = false;
  flow.add(
      [&](IAsyncSteps& asi) {
        asi.setTimeout(10ms);
        semaphore.acquire(asi);
      },
      [&is_late](IAsyncSteps& asi, ErrorCode code) {
        is_late = code == steps::errors::Timeout;
        asi.success();
      });
  flow.execute();
  b.drain();
  b.pass(20ms);
  CHECK(is_late);
  held.release();
  CHECK(free_permits(semaphore) == 1);
}

TEST_CASE("a permit destroyed on another thread wakes a flow on its loop") {
  bench b;
  Semaphore semaphore(1);
  Permit held = semaphore.try_acquire();
  std::thread::id here;
  steps::AsyncSteps flow(b.loop);
  semaphore.acquire(flow);
  flow.add([&](IAsyncSteps&, Permit) {
    here = std::this_thread::get_id();
    b.loop.stop();
  });
  flow.execute();
  b.drain();
  std::thread releases([&held] { held.release(); });
  b.loop.run();
  releases.join();
  CHECK(here == std::this_thread::get_id());
}

TEST_CASE("an acceptor starts a flow for each connection, as many at a time as there are permits") {
  constexpr std::size_t most = 3;
  constexpr int connections = 200;
  async::threadpool pool(2);
  Semaphore semaphore(most);
  std::atomic<std::size_t> served{0}, inside{0}, peak{0};
  steps::AsyncSteps acceptor(pool);
  acceptor.repeat(connections, [&](IAsyncSteps& asi, std::size_t) {
    semaphore.acquire(asi);
    asi.add([&](IAsyncSteps&, Permit permit) {
      steps::execute(pool, [&, permit = std::move(permit)](IAsyncSteps& connection) mutable {
        const std::size_t now = ++inside;
        for (std::size_t seen = peak; seen < now && !peak.compare_exchange_weak(seen, now);) {
        }
        connection.relinquish();
        connection.add([&, own = std::move(permit)](IAsyncSteps&) mutable {
          --inside;
          ++served;
          own.release();
        });
      });
    });
  });
  acceptor.promise().get();
  pool.wait_idle();
  CHECK(served == connections);
  CHECK(peak <= most);
  CHECK(free_permits(semaphore) == most);
}

TEST_CASE("a coroutine acquires a permit, at once or after a wait, as a step, without one, and with a time limit") {
  bench b;
  Semaphore semaphore(1);
  std::vector<int> done;
  const auto use = [&](int number) -> task<> {
    const Permit permit = co_await acquire(semaphore);
    CHECK(permit);
    done.push_back(number);
    co_await steps::interop::sleep_for(b.loop, 10ms);
  };
  steps::AsyncSteps flow(b.loop);
  flow.add(co([&](IAsyncSteps&) -> task<> { co_await use(1); }));
  flow.execute();
  b.drain();
  CHECK(done == std::vector{1});
  async::future<void> second;
  b.loop.post([&] { second = start(use(2)); });
  bool is_late = false;
  steps::AsyncSteps limited(b.loop);
  limited.add(co([&](IAsyncSteps&) -> task<> {
    try {
      static_cast<void>(co_await with_timeout(5ms, acquire(semaphore)));
    } catch (const steps::Error& e) {
      is_late = e.code() == steps::errors::Timeout;
    }
  }));
  limited.execute();
  b.drain();
  b.pass(6ms);
  CHECK(is_late);
  CHECK(done == std::vector{1});
  b.pass(50ms);
  CHECK(done == std::vector{1, 2});
  CHECK(second.is_ready());
  CHECK(free_permits(semaphore) == 1);
}

TEST_CASE("a coroutine learns of a full queue by an exception, and one that is destroyed while it waits leaves it") {
  bench b;
  Semaphore none(1, 0), one(1);
  const Permit held = none.try_acquire();
  Permit other = one.try_acquire();
  std::string why;
  {
    steps::AsyncSteps flow(b.loop), waits(b.loop);
    flow.add(co([&](IAsyncSteps&) -> task<> {
      try {
        static_cast<void>(co_await acquire(none));
      } catch (const steps::Error& e) {
        if (e.code() == steps::errors::DefenseRejected) why = e.what();
      }
    }));
    waits.add(co([&](IAsyncSteps&) -> task<> { static_cast<void>(co_await acquire(one)); }));
    flow.execute();
    waits.execute();
    b.drain();
  }
  CHECK(!why.empty());
  other.release();
  CHECK(free_permits(one) == 1);
}

TEST_CASE("a time limit of the step ends a coroutine that waits for a permit, and is not thrown into it") {
  bench b;
  Semaphore one(1);
  Permit held = one.try_acquire();
  bool has_gone_on = false;
  testing::lines seen;
  steps::AsyncSteps flow(b.loop);
  flow.add(co([&](IAsyncSteps& asi) -> task<> {
             asi.setTimeout(5ms);
             try {
               static_cast<void>(co_await acquire(one));
             } catch (const steps::Error&) {
             }
             has_gone_on = true;
           }),
           testing::noting_code(seen));
  flow.execute();
  b.pass(10ms);
  CHECK(seen == testing::lines{"Timeout"});
  CHECK(!has_gone_on);
  held.release();
  CHECK(free_permits(one) == 1);
}
