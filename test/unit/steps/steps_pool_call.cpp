// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "async/task_group.hpp"
#include "steps/steps.hpp"
#include "support/flows.hpp"
#include "support/live_count.hpp"
#include "support/occupied.hpp"

// await(pool, ...): calls that a pool makes for flows. Rule 34 of steps/RULES.md.

using async::threadpool;
using async::threadpool_options;
using steps::ErrorCode;
using steps::IAsyncSteps;
using testing::bench;
using namespace std::chrono_literals;

namespace {

struct held : testing::live_count<held> {};

}  // namespace

TEST_CASE("await(pool, ...) passes on results, none, references, and errors with their exception") {
  threadpool pool(2);
  static int object = 5;
  auto sum = steps::post<int>(pool, [&pool](IAsyncSteps& asi) {
    asi.await(pool, [](std::unique_ptr<int> a, int b) { return *a + b; }, std::make_unique<int>(1), 2);
    asi.add([&pool](IAsyncSteps& step, int three) {
      step.await(pool, [](int&) {}, std::ref(object));
      step.add([&pool, three](IAsyncSteps& inner) {
        inner.await(pool, []() -> int& { return object; });
        inner.add([three](IAsyncSteps& last, std::reference_wrapper<int> same) {
          last.success(&same.get() == &object ? three : -1);
        });
      });
    });
  });
  CHECK(sum.get() == 3);

  auto coded = steps::post<std::string>(pool, [&pool](IAsyncSteps& asi) {
    asi.add([&pool](IAsyncSteps& step) { step.await(pool, [] { throw steps::Error("Coded", "why"); }); },
            [](IAsyncSteps& step, ErrorCode code) {
              step.success(std::string(code.c_str()) + ":" + std::string(step.state().error_info()));
            });
  });
  CHECK(coded.get() == "Coded:why");
  auto thrown =
      steps::post(pool, [&pool](IAsyncSteps& asi) { asi.await(pool, [] { throw std::range_error("Range"); }); });
  CHECK_THROWS_AS(thrown.get(), std::range_error);
  pool.wait_idle();
}

TEST_CASE("await(pool, ...) of a flow on another loop: the loop goes on, and is notified of the call's end") {
  threadpool pool(1);
  testing::bench b;
  steps::AsyncSteps flow{b.loop};
  int result = 0;
  flow.add([&](IAsyncSteps& asi) {
    asi.await(pool, [] { return 9; });
    asi.add([&](IAsyncSteps&, int n) { result = n; });
  });
  flow.execute();
  while (result == 0) b.drain();
  CHECK(result == 9);
}

TEST_CASE("when its step has ended, a call of await(pool, ...) does not begin, or its result is dropped") {
  threadpool pool(1);
  testing::bench b;
  int calls = 0;
  {
    steps::AsyncSteps flow{b.loop};
    flow.add(
        [&](IAsyncSteps& asi) {
          asi.setTimeout(5ms);
          asi.await(pool, [&calls, h = held()] { return ++calls; });
        },
        [](IAsyncSteps& asi, ErrorCode code) {
          if (code == steps::errors::Timeout) asi.success();
        });
    {
      const testing::occupied busy(pool, 1);
      flow.execute();
      b.drain();
      CHECK(held::live() != 0);
      b.pass(10ms);
      CHECK(held::live() == 0);  // although the call is still in the pool's queue
    }
    pool.wait_idle();
  }
  CHECK(calls == 0);
  CHECK(held::live() == 0);

  std::promise<void> begun, go_on;
  {
    steps::AsyncSteps flow{b.loop};
    flow.add([&](IAsyncSteps& asi) {
      asi.await(pool, [&] {
        begun.set_value();
        go_on.get_future().wait();
        return held();
      });
    });
    flow.execute();
    b.drain();
    begun.get_future().wait();
  }
  go_on.set_value();
  pool.wait_idle();
  b.drain();
  CHECK(held::live() == 0);
}

TEST_CASE("await(pool, ...) of a pool that refuses the call is an error of the step") {
  threadpool gone(1);
  gone.stop();
  threadpool pool(1);
  auto result = steps::post<std::string>(pool, [&gone](IAsyncSteps& asi) {
    asi.add([&gone](IAsyncSteps& step) { step.await(gone, [h = held()] {}); },
            [](IAsyncSteps& step, ErrorCode code) { step.success(std::string(code.c_str())); });
  });
  CHECK(result.get() == "Stopped");
  CHECK(held::live() == 0);
}

namespace {

/// Calls a function at its end, as the last of those that it is moved through.
struct acts_at_end {
  explicit acts_at_end(std::function<void()> f) : act(std::move(f)) {}
  acts_at_end(acts_at_end&& other) noexcept : act(std::exchange(other.act, nullptr)) {}
  ~acts_at_end() {
    if (act) act();
  }
  std::function<void()> act;
};

/// Calls a function when it is moved for the third time: into the flow, whose wait it ends.
struct acts_on_move {
  explicit acts_on_move(std::function<void()> f) : act(std::move(f)) {}
  acts_on_move(acts_on_move&& other) : act(std::move(other.act)), moves(other.moves + 1) {
    if (moves == 2) act();
  }
  std::function<void()> act;
  int moves = 0;
};

}  // namespace

TEST_CASE("calls of flows and callbacks for a full pool wait in its queue, beyond the limit, and never stop the loop") {
  threadpool_options options;
  options.threads = 1;
  options.max_queue = 2;
  threadpool pool(std::move(options));
  bench b;
  constexpr int count = 20;
  std::deque<steps::AsyncSteps> flows;
  std::vector<async::future<int>> posted;
  int sum = 0;
  bool timer = false;
  {
    const testing::occupied busy(pool, 1);
    for (int i = 0; i < count; ++i) {
      flows.emplace_back(b.loop);
      flows.back().await(pool, [i] { return i; }).add([&sum](IAsyncSteps&, int value) { sum += value; });
      flows.back().execute();
    }
    b.loop.post([&] {
      for (int i = 0; i < count; ++i) posted.push_back(pool.post([i] { return i; }));
      for (int i = 0; i < count; ++i) posted.push_back(pool.post(async::priority::high, [i] { return i; }));
    });
    b.loop.deferred(1ms, [&timer] { timer = true; });
    b.pass(3ms);
    CHECK(timer);
    CHECK(posted.size() == 2 * count);
  }
  pool.wait_idle();
  b.drain();
  CHECK(sum == 190);
  for (auto& each : posted) sum += each.get();
  CHECK(sum == 3 * 190);
}

TEST_CASE(
    "calls beyond the limit keep their order among themselves, are counted, and come while others fill the queue") {
  threadpool_options options;
  options.threads = 1;
  options.max_queue = 4;
  threadpool pool(std::move(options));
  async::event_loop loop;
  std::vector<int> order;
  std::atomic<bool> has_ended{false};
  std::vector<std::thread> producers;
  {
    const testing::occupied busy(pool, 1);
    loop.post([&] {
      for (int i = 0; i < 100; ++i) pool.execute([&order, i] { order.push_back(i); });
      pool.execute([&has_ended] { has_ended = true; });
    });
    loop.run_for(0s);
    for (int i = 0; i < 2; ++i) {
      producers.emplace_back([&] {
        while (!has_ended) pool.execute([] {});  // waits for room
      });
    }
  }
  for (std::thread& each : producers) each.join();
  pool.wait_idle();
  REQUIRE(order.size() == 100);
  std::vector<int> within;
  std::vector<int> beyond;
  for (const int i : order) (i < 4 ? within : beyond).push_back(i);
  CHECK(std::is_sorted(within.begin(), within.end()));
  CHECK(std::is_sorted(beyond.begin(), beyond.end()));
  CHECK(pool.stats().queue_peak >= 50);
}

TEST_CASE("the trace, or the result, of a call ends the flow that waits for it") {
  threadpool pool(1);
  for (const bool destroys : {false, true}) {
    for (const bool throws : {false, true}) {
      testing::bench b;
      testing::lines seen;
      auto flow = std::make_unique<steps::AsyncSteps>(b.loop);
      const auto end = [&] {
        seen.push_back("ends");
        destroys ? flow.reset() : flow->cancel();
      };
      flow->state().set_catch_trace([&](const std::exception&) { end(); });
      flow->add([&, h = held()](IAsyncSteps& asi) {
        asi.setCancel([&] { seen.push_back("cancelled"); });
        asi.add(
            [&](IAsyncSteps& step) {
              if (throws) return void(step.await(pool, [] { throw std::runtime_error("thrown"); }));
              step.add([&](IAsyncSteps& inner) {
                auto done = inner.completion<acts_on_move>();
                pool.execute([done, &end] { done.success(acts_on_move(end)); });
              });
            },
            [&](IAsyncSteps&, ErrorCode) { seen.push_back("handled"); });
        asi.add([&](IAsyncSteps&) { seen.push_back("went on"); });
      });
      flow->execute();
      while (held::live() != 0) b.drain();
      b.drain();
      CHECK(seen == testing::lines{"ends", "cancelled"});
      CHECK((destroys ? flow == nullptr : static_cast<bool>(*flow)));
      CHECK(b.unhandled.empty());
    }
  }
}

TEST_CASE("what a call of await(pool, ...) has captured is destroyed before the flow goes on, and after the result") {
  enum class way { value, part_of_it, exception, discarded };
  for (const way ends : {way::value, way::part_of_it, way::exception, way::discarded}) {
    threadpool pool(1);
    testing::bench b;
    testing::lines seen;
    std::promise<void> begun, go_on;
    steps::AsyncSteps flow{b.loop};
    flow.add(
        [&](IAsyncSteps& asi) {
          acts_at_end at_end([&] {
            begun.set_value();
            go_on.get_future().wait();
          });
          if (ends == way::part_of_it) {
            const auto text = [](const acts_at_end&, const std::string& s) -> const std::string& { return s; };
            asi.await(pool, text, std::move(at_end), std::string(40, 'x'));
          } else {
            asi.await(pool, [ends, held = std::move(at_end)] {
              if (ends == way::exception) throw std::runtime_error("thrown");
              return std::string(40, 'x');
            });
          }
          asi.add([&](IAsyncSteps&, const std::string& text) { seen.push_back(text); });
        },
        [&](IAsyncSteps& asi, ErrorCode code) {
          seen.push_back(std::string(code.c_str()));
          asi.success();
        });
    std::thread stops;
    if (ends == way::discarded) {
      testing::occupied busy(pool, 1);
      flow.execute();
      b.drain();
      stops = std::thread([&] { pool.stop(async::discard); });
      begun.get_future().wait();
    } else {
      flow.execute();
      b.drain();
      begun.get_future().wait();
    }
    b.drain();
    CHECK(seen.empty());
    go_on.set_value();
    if (stops.joinable()) stops.join();
    while (seen.empty()) b.drain();
    const std::string expected = ends == way::exception   ? "thrown"
                                 : ends == way::discarded ? "Stopped"
                                                          : std::string(40, 'x');
    CHECK(seen == testing::lines{expected});
  }
}

TEST_CASE("what a call of await(pool, ...) has captured ends the flow that waits for the call") {
  threadpool pool(1);
  for (const bool destroys : {false, true}) {
    for (const bool throws : {false, true}) {
      testing::bench b;
      testing::lines seen;
      auto flow = std::make_unique<steps::AsyncSteps>(b.loop);
      flow->add([&, h = held()](IAsyncSteps& asi) {
        asi.setCancel([&] { seen.push_back("cancelled"); });
        acts_at_end at_end([&] { destroys ? flow.reset() : flow->cancel(); });
        asi.add(
            [&, kept = std::move(at_end)](IAsyncSteps& step) mutable {
              step.await(pool, [throws, captured = std::move(kept)] {
                if (throws) throw std::runtime_error("thrown");
                return held();
              });
            },
            [&](IAsyncSteps&, ErrorCode) { seen.push_back("handled"); });
        asi.add([&](IAsyncSteps&) { seen.push_back("went on"); });
      });
      flow->execute();
      while (held::live() != 0) b.drain();
      pool.wait_idle();
      CHECK(seen == testing::lines{"cancelled"});
      CHECK((destroys ? flow == nullptr : static_cast<bool>(*flow)));
      CHECK(b.unhandled.empty());
    }
  }
}
