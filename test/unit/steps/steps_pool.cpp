// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <future>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "async/task_group.hpp"
#include "steps/steps.hpp"
#include "support/flows.hpp"
#include "support/live_count.hpp"
#include "support/occupied.hpp"
#include "support/thrown.hpp"

// Flows on a pool: their start, and their destruction by any thread.

using async::threadpool;
using async::threadpool_options;
using steps::ErrorCode;
using steps::IAsyncSteps;
using testing::is_broken;
using namespace std::chrono_literals;

namespace {

struct held : testing::live_count<held> {};

template <class Future>
std::string error_of(Future& f) {
  try {
    f.get();
  } catch (const steps::Error& e) {
    return e.code().c_str();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "none";
}

}  // namespace

TEST_CASE_TEMPLATE("a flow on a pool runs on one worker's loop from its first step on", Flow, STEPS_FLOWS) {
  threadpool pool(3);
  for (int round = 0; round < 20; ++round) {
    Flow flow{pool};
    async::event_loop* loop = nullptr;
    bool same = true;
    flow.add([&](IAsyncSteps& asi) {
      loop = &asi.tool();
      same = loop == async::event_loop::current() && threadpool::current() == &pool;
      asi.add([&](IAsyncSteps& inner) {
        auto done = inner.completion<>();
        std::thread([done] { done.success(); }).detach();
      });
      asi.add([&](IAsyncSteps& inner) { inner.setTimeout(1ms); },
              [&](IAsyncSteps& inner, ErrorCode) {
                same = same && async::event_loop::current() == loop;
                inner.success();
              });
    });
    flow.add([&](IAsyncSteps&) { same = same && async::event_loop::current() == loop; });
    flow.promise().get();
    CHECK(same);
    async::event_loop* again = nullptr;
    flow.add([&](IAsyncSteps& asi) { again = &asi.tool(); });
    flow.promise().get();
    CHECK(again == loop);  // for life
  }
}

TEST_CASE("post hands a flow over: results, errors and exceptions come by the future") {
  threadpool pool(2);
  CHECK(steps::post<int>(pool, [](IAsyncSteps& asi) { asi.success(42); }).get() == 42);
  auto text = steps::post<std::string>(pool, [own = std::make_unique<int>(7)](auto& asi) {
    asi.add([&own](IAsyncSteps& step) { step.success(*own); });
    asi.add([](IAsyncSteps& step, int n) { step.success("seven of " + std::to_string(n)); });
  });
  CHECK(text.get() == "seven of 7");
  steps::post(pool, [](IAsyncSteps&) {}).get();
  auto coded = steps::post(pool, [](IAsyncSteps& asi) { asi.error("Coded", "why"); });
  CHECK(error_of(coded) == "Coded");
  auto thrown = steps::post<int>(pool, [](IAsyncSteps&) { throw std::range_error("Thrown"); });
  CHECK_THROWS_AS(thrown.get(), std::range_error);
  auto wrong = steps::post<int>(pool, [](IAsyncSteps& asi) { asi.success("no number"); });
  CHECK(error_of(wrong) == steps::errors::InternalError);
  pool.wait_idle();
}

TEST_CASE("flows that post flows, and tasks that wait for flows, on a single worker") {
  threadpool pool(1);
  const int sum = pool.post([&pool] {
                        std::vector<std::future<int>> parts;
                        for (int i = 0; i < 100; ++i) {
                          parts.push_back(steps::post<int>(pool, [&pool, i](IAsyncSteps& asi) {
                            asi.add([](IAsyncSteps& step) { step.setTimeout(1ms); },
                                    [](IAsyncSteps& step, ErrorCode) { step.success(); });
                            asi.await(steps::post<int>(pool, [i](IAsyncSteps& step) { step.success(i); }));
                          }));
                        }
                        int total = 0;
                        for (auto& part : parts) total += pool.wait(part);
                        return total;
                      })
                      .get();
  CHECK(sum == 4950);
}

TEST_CASE_TEMPLATE("a flow that waits in a pool's queue is cancelled and destroyed at once", Flow, STEPS_FLOWS) {
  threadpool pool(0);
  int runs = 0;
  {
    Flow flow{pool};
    flow.add([&runs, h = held()](IAsyncSteps&) { ++runs; });
    auto result = flow.promise();
    CHECK(held::live() == 1);
    flow.cancel();
    CHECK(held::live() == 0);
    CHECK(is_broken(result));
    flow.cancel();  // nothing executes
    flow.add([&runs, h = held()](IAsyncSteps&) { runs += 10; });
    result = flow.promise();
    pool.configurepool(1);
    result.get();
    CHECK(runs == 10);  // the first start found nothing to do
    pool.configurepool(0);
    pool.wait_idle();
  }
  std::future<void> result;
  {
    Flow flow{pool};
    flow.add([&runs, h = held()](IAsyncSteps&) { ++runs; });
    result = flow.promise();
  }
  CHECK(is_broken(result));
  CHECK(held::live() == 0);
  pool.configurepool(1);
  pool.wait_idle();
  CHECK(runs == 10);
}

TEST_CASE("misuse of a flow that waits in a pool's queue is its error; tool() throws there") {
  threadpool pool(0);
  steps::AsyncSteps flow{pool};
  CHECK_THROWS_AS(flow.tool(), steps::Error);
  flow.add([](IAsyncSteps&) {});
  auto result = flow.promise();
  CHECK_FALSE(bool(flow));
  flow.add([](IAsyncSteps&) {});
  pool.configurepool(1);
  CHECK(error_of(result) == steps::errors::InternalError);
  async::event_loop* in_step = nullptr;
  flow.add([&in_step](IAsyncSteps& asi) { in_step = &asi.tool(); });
  flow.promise().get();
  CHECK(&flow.tool() == in_step);
}

TEST_CASE_TEMPLATE("a cancel() that has seen one execution in a pool's queue leaves the next one there", Flow,
                   STEPS_FLOWS) {
  threadpool pool(0);
  Flow flow{pool};
  flow.add([](IAsyncSteps& asi) { asi.success(1); });
  auto first = flow.template promise<int>();
  const std::uint32_t seen = flow.flow_->seen_execution();
  flow.cancel();
  flow.add([](IAsyncSteps& asi) { asi.success(2); });
  auto second = flow.template promise<int>();
  CHECK(steps::detail::cancel_in_pool_queue(*flow.flow_, seen));  // the rest of that cancel(), on another thread
  pool.configurepool(1);
  CHECK(is_broken(first));
  CHECK(second.get() == 2);
}

TEST_CASE("a flow executed on a pool that has stopped throws, and keeps its steps") {
  threadpool pool(1);
  steps::AsyncSteps flow{pool};
  flow.add([h = held()](IAsyncSteps&) {});
  pool.stop();
  CHECK_THROWS_AS(flow.execute(), async::stopped);
  CHECK_THROWS_AS(flow.promise(), async::stopped);
  CHECK_THROWS_AS(steps::post(pool, [h = held()](IAsyncSteps&) {}), async::stopped);
  CHECK(held::live() == 1);
  CHECK(bool(flow));
}

TEST_CASE("a flow that a pool has run before throws, too, when the pool has stopped") {
  async::threadpool pool(1);
  steps::AsyncSteps flow{pool};
  flow.add([](IAsyncSteps& asi) { asi.success(1); });
  CHECK(flow.promise<int>().get() == 1);
  pool.stop();
  flow.add([](IAsyncSteps& asi) { asi.success(2); });
  CHECK_THROWS_AS(flow.execute(), async::stopped);
  CHECK_THROWS_AS(flow.promise<int>(), async::stopped);
}

TEST_CASE("promise() on a pool that has stopped, whose last exception has the flow") {
  struct owning : std::exception {
    explicit owning(std::shared_ptr<steps::AsyncSteps> f) : flow(std::move(f)) {}
    std::shared_ptr<steps::AsyncSteps> flow;
  };
  async::threadpool pool(1);
  auto flow = std::make_shared<steps::AsyncSteps>(pool);
  flow->state();
  flow->add([flow](IAsyncSteps&) { throw owning(flow); }, [](IAsyncSteps& asi, ErrorCode) { asi.success(); });
  flow->promise().get();
  pool.stop();
  const std::weak_ptr<steps::AsyncSteps> seen = flow;
  steps::AsyncSteps& was = *flow;
  flow = nullptr;
  REQUIRE(!seen.expired());
  CHECK_THROWS_AS(was.promise(), async::stopped);
  CHECK(seen.expired());
}

TEST_CASE("newInstance() of a flow on a pool makes one on that pool") {
  threadpool pool(2);
  auto made = steps::post<int>(pool, [](IAsyncSteps& asi) {
    auto other = std::shared_ptr<IAsyncSteps>(asi.newInstance());
    other->add([](IAsyncSteps& step) { step.success(3); });
    asi.await(other->promise<int>());
    asi.add([other](IAsyncSteps& step, int n) { step.success(n); });
  });
  CHECK(made.get() == 3);
}

TEST_CASE("flows destroyed from outside in any state leave nothing behind") {
  threadpool pool(2);
  std::atomic<int> handlers{0};
  for (int i = 0; i < 300; ++i) {
    steps::AsyncSteps flow{pool};
    flow.add([&](IAsyncSteps& asi) {
      asi.add([&, h = held()](IAsyncSteps& step) {
        ++handlers;
        step.setCancel([&handlers, inner = held()] { --handlers; });
      });
    });
    flow.execute();
    if (i % 3 == 1) std::this_thread::yield();
    if (i % 3 == 2) {
      while (handlers == 0) std::this_thread::yield();
    }
  }
  CHECK(handlers == 0);
  pool.wait_idle();
  CHECK(held::live() == 0);
}

TEST_CASE("flows start on a loop of the pool also when a thread from outside runs the task") {
  threadpool_options options;
  options.threads = 1;
  options.max_queue = 2;
  options.when_full = threadpool_options::overflow::caller_runs;
  threadpool pool(std::move(options));
  std::vector<std::future<void>> done;
  std::thread::id worker;
  std::set<async::event_loop*> loops;  // belongs to the worker, as does `worker`
  {
    const testing::occupied busy(pool, 1);
    for (int i = 0; i < 10; ++i) {
      done.push_back(steps::post(pool, [&](IAsyncSteps& asi) {
        worker = std::this_thread::get_id();
        loops.insert(&asi.tool());
        asi.add([&, tool = &asi.tool()](IAsyncSteps& step) {
          const bool is_here = std::this_thread::get_id() == worker && threadpool::current() == &pool;
          const bool is_own = tool == async::event_loop::current() && tool != &pool.loop(0);
          if (!is_here || !is_own || &step.tool() != tool) step.error("Elsewhere");
        });
      }));
    }
  }
  for (auto& d : done) CHECK_NOTHROW(d.get());
  CHECK(worker != std::this_thread::get_id());
  CHECK(loops.size() >= 8);  // all but two flows are bound while the worker is busy

  threadpool paused(0);
  auto result = steps::post(paused, [](IAsyncSteps&) {});
  async::task_group group(paused);
  group.run([] {});
  group.wait();  // this thread helps
  paused.configurepool(1);
  CHECK_NOTHROW(result.get());
}

TEST_CASE("the future of a posted flow that has not started drops it") {
  threadpool pool(0);
  bool has_run = false;
  auto end = steps::post(pool, [&has_run, h = held()](IAsyncSteps&) { has_run = true; });
  CHECK(held::live() == 1);
  CHECK(end.cancel());
  CHECK(held::live() == 0);
  CHECK(is_broken(end));
  pool.configurepool(1);
  pool.wait_idle();
  CHECK_FALSE(has_run);
}

TEST_CASE("the future of a posted flow that has started cancels it: cancel handlers run, and the promise is broken") {
  threadpool pool(2);
  std::promise<void> waits;
  bool was_cancelled = false;
  auto end = steps::post<int>(pool, [&, h = held()](IAsyncSteps& asi) {
    asi.add([&, inner = held()](IAsyncSteps& step) {
      step.setCancel([&] { was_cancelled = true; });
      waits.set_value();
    });
  });
  waits.get_future().wait();
  CHECK_FALSE(end.cancel());
  CHECK_FALSE(end.cancel());
  CHECK(is_broken(end));
  CHECK(was_cancelled);
  CHECK(held::live() == 0);
}

TEST_CASE("a posted flow that its own step cancels goes no further than that step") {
  threadpool pool(1);
  async::promise<async::shared_future<void>> handed;
  auto mine = handed.get_future();
  int steps_run = 0;
  async::shared_future<void> end = steps::post(pool, [&](IAsyncSteps& asi) {
    asi.await(std::move(mine));
    asi.add([&](IAsyncSteps& step, const async::shared_future<void>& own) {
      ++steps_run;
      CHECK_FALSE(own.cancel());
      step.waitExternal();
    });
    asi.add([&](IAsyncSteps&) { ++steps_run; });
  });
  handed.set_value(end);
  CHECK(is_broken(end));
  CHECK(steps_run == 1);
}

TEST_CASE("the future of a posted flow that has ended does nothing, also after the pool's end") {
  async::shared_future<int> end;
  {
    threadpool pool(1);
    end = steps::post<int>(pool, [](IAsyncSteps& asi) { asi.success(1); });
    CHECK(end.get() == 1);
    CHECK_FALSE(end.cancel());
  }
  CHECK_FALSE(end.cancel());
  CHECK(end.get() == 1);
}

TEST_CASE("the future of a flow of AsyncSteps leaves it alone: its owner cancels it") {
  threadpool pool(1);
  steps::AsyncSteps flow{pool};
  async::promise<int> later;
  flow.await(later.get_future());
  async::future<int> end = flow.promise<int>();
  CHECK_FALSE(end.cancel());
  later.set_value(3);
  CHECK(end.get() == 3);
}

TEST_CASE("get() of a flow's future in a step is an error at once, and says what to do") {
  threadpool pool(2);
  steps::AsyncSteps other{pool};
  other.add([](IAsyncSteps& asi) { asi.waitExternal(); });
  auto best = std::chrono::steady_clock::duration::max();  // of several: this machine has other work
  for (int i = 0; i < 20 || (best >= 1ms && i < 1'000); ++i) {
    async::future<void> waits =
        i % 2 == 0 ? steps::post(pool, [](IAsyncSteps& asi) { asi.waitExternal(); }) : other.promise();
    std::chrono::steady_clock::duration time{};
    auto refused = steps::post(pool, [&](IAsyncSteps&) {
      const struct stop_watch {
        std::chrono::steady_clock::duration& to;
        const std::chrono::steady_clock::time_point from = std::chrono::steady_clock::now();
        ~stop_watch() { to = std::chrono::steady_clock::now() - from; }
      } at_end{time};
      waits.get();
    });
    try {
      refused.get();
      FAIL("no error");
    } catch (const std::system_error& e) {
      CHECK(e.code() == std::errc::resource_deadlock_would_occur);
      CHECK(std::string(e.what()).find("a wait in a callback of an event loop would stop the loop") !=
            std::string::npos);
    }
    best = (std::min)(best, time);
    i % 2 == 0 ? static_cast<void>(waits.cancel()) : other.cancel();
    waits.wait();
    if (i % 2 != 0) other.add([](IAsyncSteps& asi) { asi.waitExternal(); });
  }
  CHECK(best < 1ms);
}

TEST_CASE("a flow's end wakes a task that waits for it on another worker") {
  async::threadpool pool(2);
  std::size_t woken = 0;
  for (int i = 0; i < 20 || (woken == 0 && i < 1'000); ++i) {  // on a busy machine it mostly looks by itself
    std::uint64_t before = 0;
    std::atomic<bool> started{false};
    const int result = pool.post([&] {
                             auto end = steps::post<int>(pool, [&](IAsyncSteps& asi) {
                               started = true;
                               asi.waitExternal();
                               asi.tool().deferred(10ms, [&] {
                                 before = pool.stats().wakes;
                                 asi.success(7);
                               });
                             });
                             while (!started) std::this_thread::yield();  // by the other worker
                             return pool.wait(end);
                           })
                           .get();
    CHECK(result == 7);
    if (pool.stats().wakes != before) ++woken;
  }
  CHECK(woken > 0);
}
