// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <coroutine>
#include <cstddef>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "async/errors.hpp"
#include "async/future.hpp"
#include "async/queue.hpp"
#include "async/threadpool.hpp"
#include "steps/asynctool.hpp"
#include "steps/interop/coroutine.hpp"
#include "support/coroutines.hpp"
#include "support/flows.hpp"
#include "support/gate.hpp"
#include "support/live_count.hpp"
#include "support/occupied.hpp"
#include "support/pause_thread.hpp"
#include "support/scale.hpp"
#include "support/thrown.hpp"

// Coroutines as steps that wait for other threads, other libraries, and in branches.

using steps::ErrorCode;
using steps::IAsyncSteps;
using steps::interop::co;
using steps::interop::post;
using steps::interop::schedule;
using steps::interop::sleep_for;
using steps::interop::start;
using steps::interop::task;
using testing::bench;
using testing::gate;
using testing::lines;
using testing::noting_code;
using testing::why_dropped;
using namespace std::chrono_literals;

namespace {

struct local : testing::live_count<local> {};

/// An awaitable of another library: the owner of the handle resumes it.
struct foreign {
  std::coroutine_handle<>* to;
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> handle) const noexcept { *to = handle; }
  int await_resume() const noexcept { return 9; }
};

/// Goes to the pool, pauses the thread that has sent it there, and tells that it is over.
enum class by { schedule, post, flow };
testing::other_coroutine visit(async::future<void> start, async::threadpool& pool, by how, std::thread& sender,
                               async::promise<void>& over) {
  co_await std::move(start);
  if (how == by::post) {
    co_await steps::interop::post(pool, [](std::thread* t) { testing::pause_thread(*t); }, &sender);
  } else if (how == by::flow) {
    steps::AsyncSteps flow{pool};
    flow.add([&sender](IAsyncSteps&) { testing::pause_thread(sender); });
    co_await steps::interop::execute(flow);
  } else {
    co_await steps::interop::schedule(pool);
    testing::pause_thread(sender);
  }
  over.set_value();
}

}  // namespace

TEST_CASE("an operation that ends on another thread resumes the coroutine on the flow's loop") {
  async::threadpool pool(2);
  steps::AsyncTool tool;
  steps::AsyncSteps flow{tool};
  flow.add(co([&](IAsyncSteps& asi) -> task<bool> {
    bool here = asi.tool().is_same_thread();
    const auto worker = co_await steps::interop::post(pool, [] { return std::this_thread::get_id(); });
    here = here && asi.tool().is_same_thread() && worker != std::this_thread::get_id();
    co_await steps::interop::schedule(pool);
    here = here && asi.tool().is_same_thread();
    const int seven = co_await steps::interop::when_ready(asi.tool(), pool.post([] { return 7; }));
    here = here && asi.tool().is_same_thread() && seven == 7;
    co_return here;
  }));
  CHECK(flow.promise<bool>().get());
}

TEST_CASE(
    "a flow that is cancelled while execute() of a coroutine waits for room in the pool's queue ends the wait once") {
  async::threadpool_options options;
  options.threads = 1;
  options.max_queue = 2;
  async::threadpool pool(std::move(options));
  std::optional<testing::occupied> busy(std::in_place, pool, 1);
  for (int i = 0; i < 2; ++i) pool.execute([] {});
  steps::AsyncSteps flow{pool};
  flow.add([held = local()](IAsyncSteps&) {});
  std::thread other([&] {
    while (local::live() != 0) {
      flow.cancel();
      std::this_thread::yield();
    }
    pool.stop();
  });
  auto result =
      steps::interop::start([](IAsyncSteps& root) -> task<> { co_await steps::interop::execute(root); }(flow));
  CHECK_THROWS_AS(result.get(), async::stopped);
  busy.reset();
  other.join();
}

TEST_CASE("an error of a pool call is the step's, by the rules of exceptions") {
  async::threadpool pool(1);
  steps::AsyncTool tool;
  steps::AsyncSteps flow{tool};
  flow.add(co([&](IAsyncSteps&) -> task<> {
             co_await steps::interop::post(pool, [] { throw std::runtime_error("OnPool"); });
           }),
           [](IAsyncSteps& asi, ErrorCode code) { asi.success(std::string(code)); });
  CHECK(flow.promise<std::string>().get() == "OnPool");
}

TEST_CASE("a step that ends while its call runs on the pool lets the call end and drops its result") {
  async::threadpool pool(1);
  for (int i = 0; i < 50; ++i) {
    steps::AsyncTool tool;
    steps::AsyncSteps flow{tool};
    flow.add(co([&, i](IAsyncSteps& asi) -> task<> {
               const local mine;
               asi.setTimeout(std::chrono::microseconds(i * 10));
               co_await steps::interop::post(
                   pool,
                   [](local) {
                     std::this_thread::sleep_for(200us);
                     return std::make_unique<local>();
                   },
                   local());
             }),
             [](IAsyncSteps& asi, ErrorCode) { asi.success(); });
    flow.promise().get();
  }
  pool.wait_idle();
  CHECK(local::live() == 0);
}

TEST_CASE("a token of another thread ends a coroutine that goes from wait to wait") {
  enum class waits { post, schedule, element, timer };
  async::threadpool pool(2);
  steps::AsyncTool tool;
  for (const waits what : {waits::post, waits::schedule, waits::element, waits::timer}) {
    CAPTURE(static_cast<int>(what));
    for (std::size_t round = 4 * testing::rounds(50); round != 0; --round) {
      const bool fails = round % 2 == 0;
      const bool is_on_pool = round % 4 < 2;
      async::queue<int> queue;
      steps::completion<int> done;
      gate begun;
      std::optional<steps::AsyncSteps> flow;
      is_on_pool ? flow.emplace(pool) : flow.emplace(tool);
      flow->add(co([&](IAsyncSteps& asi) -> task<int> {
        const local mine;
        done = asi.completion<int>();
        begun.open();
        const auto nothing = [] {};
        for (;;) {
          if (what == waits::post) {
            co_await post(pool, nothing);
          } else if (what == waits::schedule) {
            co_await schedule(asi.tool());
          } else if (what == waits::element) {
            queue.enqueue(1);
            co_await queue.pop();
          } else {
            co_await sleep_for(asi.tool(), 50us);
          }
        }
      }));
      async::future<int> end = flow->promise<int>();
      begun.pass();
      std::this_thread::sleep_for(std::chrono::microseconds(17 * (round % 29)));
      CHECK((fails ? done.error("Told") : done.success(42)));
      REQUIRE(end.wait_for(10s) == std::future_status::ready);
      if (fails) {
        CHECK_THROWS_WITH_AS(end.get(), "Told", steps::Error);
      } else {
        CHECK(end.get() == 42);
      }
      CHECK(local::live() == 0);
    }
  }
}

TEST_CASE("awaitables of other libraries: resumed from another thread, the step goes on on its loop") {
  steps::AsyncTool tool;
  steps::AsyncSteps flow{tool};
  std::thread other;
  struct elsewhere {
    std::thread& thread;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> handle) const {
      std::thread& kept = thread;  // this object is gone when the other thread has resumed
      kept = std::thread([handle] { handle.resume(); });
    }
    std::string await_resume() const { return "text"; }
  };
  flow.add(co([&](IAsyncSteps& asi) -> task<bool> {
    const std::string text = co_await elsewhere{other};
    co_return text == "text" && asi.tool().is_same_thread();
  }));
  CHECK(flow.promise<bool>().get());
  other.join();
}

TEST_CASE("awaitables of other libraries: one that resumes after the step's end does nothing") {
  bench b;
  std::coroutine_handle<> late;
  lines seen;
  steps::AsyncSteps flow{b.loop};
  flow.add(co([&](IAsyncSteps& asi) -> task<> {
             const local mine;
             asi.setTimeout(1ms);
             co_await foreign{&late};
             seen.emplace_back("never");
           }),
           noting_code(seen));
  flow.execute();
  b.pass(5ms);
  CHECK(seen == lines{"Timeout"});
  CHECK(local::live() == 0);
  late.resume();
  b.drain();
  CHECK(seen == lines{"Timeout"});
}

TEST_CASE("awaitables of other libraries: one that is ready, and one that throws") {
  bench b;
  lines seen;
  struct broken {
    bool await_ready() const { throw std::runtime_error("Broken"); }
    void await_suspend(std::coroutine_handle<>) const {}
    void await_resume() const {}
  };
  steps::AsyncSteps flow{b.loop};
  flow.add(co([&](IAsyncSteps&) -> task<> {
             for (int i = 0; i < 1'000; ++i) co_await std::suspend_never();
             seen.emplace_back("ready");
             co_await broken();
           }),
           noting_code(seen));
  flow.execute();
  b.drain();
  CHECK(seen == lines{"ready", "Broken"});
}

TEST_CASE("a loop that is destroyed destroys the coroutines of its flows") {
  auto loop = std::make_unique<async::event_loop>();
  steps::AsyncSteps flow{*loop};
  flow.add(co([](IAsyncSteps& asi) -> task<> {
    const local mine;
    co_await sleep_for(asi.tool(), 1h);
  }));
  flow.execute();
  loop->iterate();
  CHECK(local::live() == 1);
  loop.reset();
  CHECK(local::live() == 0);
}

TEST_CASE("branches of parallel() may be coroutines: an error in one destroys the other") {
  bench b;
  lines seen;
  steps::AsyncSteps flow{b.loop};
  auto& p = flow.parallel(noting_code(seen));
  p.add(co([](IAsyncSteps& asi) -> task<> {
    const local mine;
    co_await sleep_for(asi.tool(), 1h);
  }));
  p.add(co([](IAsyncSteps& asi) -> task<> {
    co_await sleep_for(asi.tool(), 2ms);
    asi.error("One");
  }));
  flow.execute();
  b.pass(5ms);
  CHECK(seen == lines{"One"});
  CHECK(local::live() == 0);
}

TEST_CASE("flows of a pool can be awaited, and be coroutines") {
  async::threadpool pool(2);
  const auto work = [&]() -> task<int> {
    int sum = 0;
    for (int i = 0; i < 100; ++i) {
      steps::AsyncSteps flow{pool};
      flow.add([](IAsyncSteps& asi) { asi.success(3); });
      sum += co_await steps::interop::execute<int>(flow);
    }
    co_return sum;
  };
  CHECK(steps::interop::start(work()).get() == 300);
  steps::AsyncSteps flow{pool};
  flow.add(co([&](IAsyncSteps&) -> task<int> {
    const int four = co_await steps::interop::post(pool, [] { return 4; });
    co_return four + co_await work();
  }));
  CHECK(flow.promise<int>().get() == 304);
}

TEST_CASE("a pool may end when a coroutine has left it, beside the thread that has sent the coroutine there") {
  for (std::size_t round = testing::rounds(500); round != 0; --round) {
    std::optional<async::threadpool> pool(1);
    async::promise<void> start, over;
    async::future<void> is_over = over.get_future();
    std::thread sender;
    const auto visitor = visit(start.get_future(), *pool, static_cast<by>(round / 2 % 3), sender, over);
    std::atomic<bool> is_there{false};
    sender = std::thread([&] {
      while (!is_there) std::this_thread::yield();
      start.set_value();
    });
    while (round % 2 == 0 && pool->idlesize() == 0) std::this_thread::yield();  // in each other round the worker sleeps
    is_there = true;
    is_over.get();
    pool.reset();
    sender.join();
    visitor.handle.destroy();
  }
}

TEST_CASE("stop(discard) of a pool ends the waits of coroutines for it as dropped calls") {
  async::threadpool pool(1);
  gate held;
  pool.execute([&] { held.pass(); });
  held.wait_for_one();
  std::atomic<bool> has_run{false};
  const auto call = [&](bool by_post) -> task<> {
    const auto f = [&has_run] { has_run = true; };
    if (by_post) {
      co_await post(pool, f);
    } else {
      co_await schedule(pool);
      has_run = true;
    }
  };
  std::vector<async::future<void>> waiting;
  for (int i = 0; i < 10; ++i) waiting.push_back(start(call(i % 2 == 0)));
  std::thread opener([&] {
    while (!waiting.back().is_ready()) std::this_thread::yield();
    held.open();
  });
  CHECK(pool.stop(async::discard) == 10);
  opener.join();
  for (auto& each : waiting) CHECK(why_dropped(each) == async::dropped_call::reason::stopped);
  CHECK(!has_run);
}
