// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
#include <version>
#if defined(__cpp_lib_jthread)
#include <stop_token>
#endif

#include "async/async.hpp"
#include "async/detail/future/future_watch.hpp"
#include "support/alloc_counter.hpp"
#include "support/flows.hpp"
#include "support/live_count.hpp"

// await() of futures: notified by promises of this library, polled for others. Rule 34 of steps/RULES.md.

using steps::ErrorCode;
using steps::IAsyncSteps;
using testing::bench;
using testing::lines;
using testing::noting;
using namespace std::chrono_literals;

namespace {

/// Runs the loop, whose time stands still, so that timers do not fire, until the flow has ended.
void run_timeless(bench& b, steps::IAsyncSteps& flow) {
  while (!flow) {
    b.drain();
    std::this_thread::yield();
  }
}

}  // namespace

TEST_CASE_TEMPLATE("rule 34: await looks at once, passes the value on, and raises the exception", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  std::promise<std::string> value;
  std::promise<void> nothing;
  std::promise<int> failed;
  value.set_value("text");
  nothing.set_value();
  failed.set_exception(std::make_exception_ptr(std::runtime_error("broken")));
  Flow flow{b.loop};
  flow.await(value.get_future());
  flow.add([&](IAsyncSteps&, std::string&& s) { seen.push_back(s); });
  flow.await(nothing.get_future().share());
  flow.await(failed.get_future(), [&](IAsyncSteps& asi, ErrorCode code) {
    seen.push_back(std::string(code));
    asi.success();
  });
  flow.execute();
  b.drain();
  CHECK(seen == lines{"text", "broken"});
}

TEST_CASE_TEMPLATE("rule 34: a wait polls seldom, and notices soon", Flow, STEPS_FLOWS) {
  bench b;
  std::promise<int> promise;
  int got = 0;
  Flow flow{b.loop};
  flow.await(promise.get_future());
  flow.add([&](IAsyncSteps&, int n) { got = n; });
  flow.execute();
  CHECK(b.turns_in(1s) < 250);
  promise.set_value(7);
  b.pass(12ms);
  CHECK(got == 7);
}

TEST_CASE_TEMPLATE("rule 34: cancel or timeout ends the wait, and the future is dropped", Flow, STEPS_FLOWS) {
  for (const bool cancels : {true, false}) {
    bench b;
    lines seen;
    auto promise = std::make_unique<std::promise<std::shared_ptr<int>>>();
    Flow flow{b.loop};
    flow.add(
        [&](IAsyncSteps& asi) {
          if (!cancels) asi.setTimeout(5ms);
          asi.await(promise->get_future());
        },
        noting(seen));
    flow.execute();
    b.pass(1ms);
    CHECK(!flow);
    if (cancels) flow.cancel();
    b.pass(10ms);
    CHECK(seen == (cancels ? lines{} : lines{"Timeout: "}));
    CHECK(static_cast<bool>(flow));
    CHECK(!b.loop.iterate().have_work);
    auto value = std::make_shared<int>(1);
    promise->set_value(value);
    promise.reset();
    CHECK(value.use_count() == 1);  // no other owner of the shared state is left
  }
}

TEST_CASE_TEMPLATE("rule 34: a wait for several futures that ends early leaves nothing in them, and they go on", Flow,
                   STEPS_FLOWS) {
  const auto end_early = [](auto combine) {
    async::promise<int> promise;
    const async::shared_future<int> one = promise.get_future().share();
    const async::shared_future<int> two = one;
    const auto waits = [&] {
      bench b;
      for (int i = 0; i < 100; ++i) {
        Flow flow{b.loop};
        lines seen;
        flow.add(
            [&](IAsyncSteps& asi) {
              if (i % 2 == 0) asi.setTimeout(5ms);
              asi.await(combine(one, two));
            },
            noting(seen));
        flow.execute();
        b.pass(1ms);
        if (i % 2 != 0) flow.cancel();
        b.pass(10ms);
        CHECK(seen == (i % 2 == 0 ? lines{"Timeout: "} : lines{}));
      }
    };
    waits();
    const std::size_t before = testing::alloc::live;
    waits();
    CHECK(testing::alloc::live <= before);
    promise.set_value(1);
    CHECK(two.get() == 1);
  };
  end_early([](auto& one, auto& two) { return async::when_all(one, two); });
  end_early([](auto& one, auto& two) { return async::when_any(one, two); });
  end_early([](auto& one, auto& two) { return async::when_any(one, two).share(); });
}

TEST_CASE_TEMPLATE(
    "rule 34: a wait for a future that no promise of this library ends keeps no memory when it ends early", Flow,
    STEPS_FLOWS) {
  bench b;
  std::promise<int> promise;
  const std::shared_future<int> future = promise.get_future().share();
  const auto waits = [&] {
    for (int i = 0; i < 100; ++i) {
      Flow flow{b.loop};
      flow.await(std::shared_future<int>(future));
      flow.execute();
      b.drain();
      CHECK(!flow);
    }
  };
  waits();
  const std::size_t before = testing::alloc::live;
  waits();
  CHECK(testing::alloc::live <= before);
}

TEST_CASE_TEMPLATE("rule 34: a wait that ends early cancels an async::future, and drops a shared one", Flow,
                   STEPS_FLOWS) {
  const auto end_early = [](auto future) {
    bench b;
    Flow flow{b.loop};
    lines seen;
    flow.add(
        [&](IAsyncSteps& asi) {
          asi.setTimeout(5ms);
          asi.await(std::move(future));
        },
        noting(seen));
    flow.execute();
    b.pass(10ms);
    CHECK(seen == lines{"Timeout: "});
  };
  async::threadpool pool(0);
  int made = 0;
  end_early(pool.post([&made] { ++made; }));
  async::shared_future<void> shared = pool.post([&made] { made += 10; }).share();
  end_early(shared);
#if defined(__cpp_lib_jthread)
  std::promise<void> has_begun;
  std::promise<void> has_stopped;
  async::future<void> running = pool.post([&](std::stop_token stop) {
    has_begun.set_value();
    while (!stop.stop_requested()) std::this_thread::yield();
    has_stopped.set_value();
  });
  pool.configurepool(1);
  has_begun.get_future().wait();
  end_early(std::move(running));
  has_stopped.get_future().wait();
#else
  pool.configurepool(1);
#endif
  std::promise<void> waits;
  std::promise<void> is_cancelled;
  async::future<void> posted = steps::post(pool, [&](IAsyncSteps& asi) {
    asi.setCancel([&is_cancelled] { is_cancelled.set_value(); });
    asi.waitExternal();
    waits.set_value();
  });
  waits.get_future().wait();
  end_early(std::move(posted));
  is_cancelled.get_future().wait();
  shared.get();
  CHECK(made == 10);
}

TEST_CASE_TEMPLATE("rule 34: an error cancels the future at once, not after what the step's handler adds", Flow,
                   STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.add([&](IAsyncSteps& asi) {
    asi.setTimeout(5ms);
    asi.await(
        steps::post(b.loop, [&](IAsyncSteps& other) { other.setCancel([&seen] { seen.push_back("cancelled"); }); }),
        [&](IAsyncSteps& handler, steps::ErrorCode code) {
          seen.emplace_back(code);
          handler.add([](IAsyncSteps& fallback) { fallback.setTimeout(20ms); },
                      [](IAsyncSteps& fallback, steps::ErrorCode) { fallback.success(); });
          handler.add([&seen](IAsyncSteps&) { seen.push_back("fallback"); });
        });
  });
  flow.execute();
  b.pass(50ms);
  CHECK(seen == lines{"Timeout", "cancelled", "fallback"});
}

TEST_CASE_TEMPLATE("rule 34: a future of this library notifies the flow, which does not poll", Flow, STEPS_FLOWS) {
  async::threadpool pool(1);
  lines seen;
  bench b;
  Flow flow{b.loop};
  // A call that ends when the flow awaits it already.
  const auto later = [&b](auto result) {
    return [&b, result] {
      std::promise<void> awaited;
      b.loop.post([&awaited] { awaited.set_value(); });
      awaited.get_future().wait();
      return result();
    };
  };
  flow.add([&](IAsyncSteps& asi) {
    asi.await(pool.post(later([] { return std::string("post"); })));
    asi.add([&](IAsyncSteps&, std::string&& s) { seen.push_back(s); });
    asi.await(pool.post(later([] { throw std::runtime_error("thrown"); })), noting(seen));
#if ASYNCSTEPS_CALL_STATE != 0
    asi.await(async::async(later([] { return std::string("async"); })));
#else  // such a future does not tell, and the step would block its loop
    asi.await(pool.post(later([] { return std::string("async"); })));
#endif
    asi.add([&](IAsyncSteps&, std::string&& s) { seen.push_back(s); });
    asi.await(pool.post(later([] { return std::string("shared"); })).share());
    asi.add([&](IAsyncSteps&, const std::string& s) { seen.push_back(s); });
    asi.await(steps::post<std::string>(
        pool, [later](IAsyncSteps& other) { other(later([] { return std::string("flow"); })()); }));
    asi.add([&](IAsyncSteps&, std::string&& s) { seen.push_back(s); });
    asi.await(steps::post<int>(pool, [later](IAsyncSteps& other) { later([] { return 0; })(), other.error("Failed"); }),
              noting(seen));
  });
  flow.execute();
  run_timeless(b, flow);
  CHECK(seen == lines{"post", "thrown: ", "async", "shared", "flow", "Failed: "});
}

TEST_CASE_TEMPLATE("rule 34: a notification of another future, which lay at the same address, ends no wait", Flow,
                   STEPS_FLOWS) {
  bench b;
  std::promise<int> promise;
  std::future<int> future = promise.get_future();
  const void* const state = async::detail::shared_state_of(future);
  int got = 0;
  Flow flow{b.loop};
  flow.await(std::move(future));
  flow.add([&](IAsyncSteps&, int n) { got = n; });
  flow.execute();
  b.drain();
  for (int i = 0; i < 3; ++i) {
    async::detail::tell_watchers_of(state);
    b.drain();
  }
  CHECK(b.turns_in(1s) < 250);
  async::detail::tell_watchers_of(state);
  b.drain();
  promise.set_value(7);
  async::detail::tell_watchers_of(state);
  run_timeless(b, flow);
  CHECK(got == 7);
}

TEST_CASE_TEMPLATE("rule 34: a flow notifies the flow that awaits it of its end and cancel, on the same loop too", Flow,
                   STEPS_FLOWS) {
  lines seen;
  bench b;
  Flow ends{b.loop};
  Flow is_cancelled{b.loop};
  Flow flow{b.loop};
  steps::completion<> done;
  ends.add([&](IAsyncSteps& asi) { done = asi.completion<>(); });
  is_cancelled.add([](IAsyncSteps& asi) { asi.waitExternal(); });
  flow.await(ends.template promise<void>());
  flow.add([&](IAsyncSteps&) { seen.push_back("ended"); });
  flow.await(is_cancelled.template promise<void>(), noting(seen));
  flow.execute();
  b.drain();
  CHECK(seen == lines{});
  CHECK(done.success());
  b.drain();
  CHECK(seen == lines{"ended"});
  is_cancelled.cancel();
  b.drain();
  REQUIRE(seen.size() == 2);
  CHECK(static_cast<bool>(flow));
}

TEST_CASE("rule 34: several flows of several loops may await one shared future") {
  async::threadpool pool(1);
  std::promise<void> go;
  const std::shared_future<int> shared = pool.post([&go] { return go.get_future().wait(), 5; }).share();
  bench loops[3];
  std::vector<std::unique_ptr<steps::AsyncSteps>> flows;
  int sum = 0;
  for (int i = 0; i < 30; ++i) {
    auto& flow = *flows.emplace_back(std::make_unique<steps::AsyncSteps>(loops[i % 3].loop));
    flow.await(shared);
    flow.add([&sum](IAsyncSteps&, int n) { sum += n; });
    flow.execute();
  }
  for (bench& b : loops) b.drain();
  go.set_value();
  for (std::size_t i = 0; i < flows.size(); ++i) run_timeless(loops[i % 3], *flows[i]);
  CHECK(sum == 150);
}

TEST_CASE_TEMPLATE("rule 34: a future that is made ready while its wait is cancelled or times out", Flow, STEPS_FLOWS) {
  struct held : testing::live_count<held> {};
  async::threadpool pool(1);
  for (int i = 0; i < 3000; ++i) {
    bench b;
    int results = 0;
    Flow flow{b.loop};
    flow.add(
        [&](IAsyncSteps& asi) {
          if (i % 2 != 0) asi.setTimeout(1ms);
          asi.await(pool.post([value = std::make_shared<held>()] { return value; }));
          asi.add([&](IAsyncSteps&, std::shared_ptr<held>&&) { ++results; });
        },
        [](IAsyncSteps& asi, ErrorCode) { asi.success(); });
    flow.execute();
    for (int turns = i % 7; turns != 0; --turns) b.drain();
    i % 2 != 0 ? b.pass(2ms) : flow.cancel();
    CHECK(static_cast<bool>(flow));
    CHECK(results <= 1);
  }
  pool.wait_idle();
  pool.stop();
  CHECK(held::live() == 0);
}

TEST_CASE("rule 34: without memory for a notification the wait polls") {
  int injected = 0, looked = 0;
  for (std::size_t k = 0; k == static_cast<std::size_t>(injected); ++k) {
    static_cast<void>(async::threadpool::trim());
    std::thread([&, k] {  // whose cache of blocks is empty
      bench b;
      std::promise<int> promise;
      int got = 0;
      bool failed = false;
      steps::AsyncSteps flow{b.loop};
      flow.add([&](IAsyncSteps& asi) { asi.await(promise.get_future()); },
               [&](IAsyncSteps& asi, ErrorCode) {
                 failed = true;
                 asi.success(3);
               });
      flow.add([&](IAsyncSteps&, int n) { got = n; });
      flow.execute();
      {
        const testing::fail_alloc failing(k);
        b.drain();
        if (failing.has_failed()) ++injected;
      }
      promise.set_value(3);
      b.pass(12ms);
      CHECK(got == 3);
      if (injected == static_cast<int>(k) + 1 && !failed) ++looked;
    })
        .join();
  }
  CHECK(injected > 0);
  CHECK(looked > 0);
}

TEST_CASE("a task that runs a loop of its own gives way to the call whose std::future a flow awaits there") {
  async::threadpool pool(1);
  async::future<int> got = pool.post([&pool] {
    async::event_loop loop;
    steps::AsyncSteps flow{loop};
    std::future<int> call = pool.post([] { return 7; });
    int value = 0;
    flow.await(std::move(call)).add([&](IAsyncSteps&, int v) { value = v; });
    flow.add([&loop](IAsyncSteps&) { loop.stop(); });
    flow.execute();
    loop.run_for(std::chrono::seconds(20));
    return value;
  });
  CHECK(got.get() == 7);
}
