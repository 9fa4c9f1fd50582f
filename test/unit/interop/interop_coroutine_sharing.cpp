// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <coroutine>
#include <cstddef>
#include <future>
#include <thread>
#include <vector>

#include "steps/interop/coroutine.hpp"
#include "steps/steps.hpp"
#include "support/held_workers.hpp"
#include "support/journey.hpp"
#include "support/live_count.hpp"
#include "support/meeting.hpp"
#include "support/scale.hpp"

// Coroutines that are steps of flows on a pool, whose worker is inside a call when their wait ends.

using async::threadpool;
using steps::IAsyncSteps;
using steps::interop::co;
using steps::interop::sleep_for;
using steps::interop::task;
using testing::any_flow;
using testing::held_workers;
using testing::is_ready_in_time;
using testing::meeting;
using namespace std::chrono_literals;

namespace {

enum class wait_for { timer, call, future, flow, foreign };
constexpr wait_for all_waits[] = {wait_for::timer, wait_for::call, wait_for::future, wait_for::flow, wait_for::foreign};

/// An awaitable of another library: the owner of the handle resumes it.
struct foreign {
  std::promise<std::coroutine_handle<>>* to;
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> handle) const { to->set_value(handle); }
  void await_resume() const noexcept {}
};

struct local : testing::live_count<local> {};

/// What a coroutine and the thread that ends its wait share.
struct trip {
  threadpool& pool;
  wait_for what;
  std::chrono::milliseconds time;
  std::promise<std::thread::id> thread{};
  std::promise<void> go{};
  std::promise<std::coroutine_handle<>> handle{};
  std::atomic<bool> has_gone_on{false};
  threadpool other{1};
};

/// Waits once as told, and then by each wait that needs no other thread.
task<> travel(IAsyncSteps& asi, trip& t) {
  const local mine;
  t.thread.set_value(std::this_thread::get_id());
  const auto until_go = [&t] { t.go.get_future().get(); };
  switch (t.what) {
    case wait_for::timer:
      co_await sleep_for(asi.tool(), t.time);
      break;
    case wait_for::call:
      co_await steps::interop::post(t.other, until_go);
      break;
    case wait_for::future:
      co_await steps::interop::when_ready(asi.tool(), t.go.get_future());
      break;
    case wait_for::flow: {
      steps::AsyncSteps inner{t.pool};
      inner.await(t.go.get_future());
      co_await steps::interop::execute(inner);
      break;
    }
    case wait_for::foreign:
      co_await foreign{&t.handle};
      break;
  }
  t.has_gone_on = true;
  co_await sleep_for(asi.tool(), 1ms);
  co_await steps::interop::schedule(asi.tool());
  co_await steps::interop::post(t.pool, [] {});
  co_await steps::interop::when_ready(asi.tool(), t.pool.post([] {}));
  steps::AsyncSteps last{t.pool};
  testing::wait_a_moment(last);
  co_await steps::interop::execute(last);
}

}  // namespace

TEST_CASE("a coroutine's wait ends on another worker while its own is inside a call") {
  for (const held_workers::inside where : held_workers::everything) {
    for (const testing::made_by how : testing::all_flows) {
      for (const wait_for what : all_waits) {
        CAPTURE(static_cast<int>(where));
        CAPTURE(static_cast<int>(how));
        CAPTURE(static_cast<int>(what));
        for (auto time = 10ms;; time *= 2) {
          threadpool pool(2);
          trip t{pool, what, time};
          any_flow flow(pool, how,
                        [&t](IAsyncSteps& asi) { asi.add(co([&t](IAsyncSteps& step) { return travel(step, t); })); });
          held_workers held(pool, where, 1, t.thread.get_future().get());
          if (t.has_gone_on) continue;
          if (what == wait_for::foreign) {
            t.handle.get_future().get().resume();
          } else if (what != wait_for::timer) {
            t.go.set_value();
          }
          REQUIRE(held.see(flow.end));
          CHECK_NOTHROW(flow.end.get());
          break;
        }
      }
    }
  }
  CHECK(local::live() == 0);
}

TEST_CASE("a coroutine is destroyed at its co_await by a timeout while its worker is inside a call") {
  for (const held_workers::inside where : held_workers::everything) {
    CAPTURE(static_cast<int>(where));
    for (auto time = 10ms;; time *= 2) {
      std::promise<std::thread::id> thread;
      std::atomic<int> timeouts{0};
      threadpool pool(2);
      any_flow flow(pool, testing::made_by::post, [&](IAsyncSteps& asi) {
        asi.add(co([&](IAsyncSteps& step) -> task<> {
                  const local mine;
                  step.setTimeout(time);
                  thread.set_value(std::this_thread::get_id());
                  co_await sleep_for(step.tool(), 1h);
                }),
                [&timeouts](IAsyncSteps& step, steps::ErrorCode) {
                  ++timeouts;
                  step.success();
                });
      });
      held_workers held(pool, where, 1, thread.get_future().get());
      if (timeouts != 0) continue;
      REQUIRE(held.see(flow.end));
      CHECK_NOTHROW(flow.end.get());
      CHECK(timeouts == 1);
      CHECK(local::live() == 0);
      break;
    }
  }
}

TEST_CASE("coroutines that have waited run on all workers at once, and each on one thread at a time") {
  constexpr std::size_t count = 40;
  meeting place(2);
  std::vector<std::size_t> private_counts(count);
  threadpool pool(2);
  std::vector<std::future<void>> ends;
  const std::size_t times = testing::rounds(30);
  for (std::size_t i = 0; i < count; ++i) {
    ends.push_back(steps::post(pool, [&, &mine = private_counts[i]](IAsyncSteps& asi) {
      asi.add(co([&](IAsyncSteps& step) -> task<> {
        const auto* const home = &step.tool();
        for (std::size_t n = 0; n < times; ++n) {
          ++mine;
          step.tool().immediate([&mine] { ++mine; });
          co_await sleep_for(step.tool(), 100us);
          co_await steps::interop::post(pool, [] {});
          if (home != &step.tool() || !home->is_same_thread()) step.error("Elsewhere");
        }
        place.come();
      }));
    }));
  }
  for (auto& end : ends) {
    REQUIRE(is_ready_in_time(end));
    CHECK_NOTHROW(end.get());
  }
  for (const std::size_t each : private_counts) CHECK(each == 2 * times);
  CHECK(place.met() == count / 2);
}
