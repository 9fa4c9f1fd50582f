// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <vector>

#include "async/event_loop.hpp"
#include "async/threadpool.hpp"
#include "steps/steps.hpp"
#include "support/flows.hpp"
#include "support/held_workers.hpp"

// Flows on a pool that wait at a Throttle: one of them has the timer for all, and another one gets it when its wait
// ends. Rules 18 and 31 of steps/RULES.md.

using async::threadpool;
using steps::IAsyncSteps;
using steps::Throttle;
using testing::held_workers;
using testing::is_ready_in_time;
using namespace std::chrono_literals;

namespace {

/// Flows that pass one object once; `order` logs which one has come in.
template <class Flow>
struct line {
  explicit line(steps::ISync& o) : object(o) {}

  template <class Home>
  void add(Home& home) {
    const std::size_t me = flows.size();
    flows.push_back(std::make_unique<Flow>(home));
    flows.back()->sync(object, [this, me](IAsyncSteps&) {
      const std::lock_guard lock(guard);
      order.push_back(me);
    });
    ends.push_back(flows.back()->promise());
  }

  steps::ISync& object;
  std::vector<async::future<void>> ends;
  std::mutex guard;
  std::vector<std::size_t> order;
  std::vector<std::unique_ptr<Flow>> flows;
};

/// Returns when the only worker has begun all that was posted before.
void let_begin(threadpool& pool) {
  steps::post(pool, [](IAsyncSteps&) {}).get();
}

/// Uses the first period up.
void pass(threadpool& pool, steps::ISync& object) {
  steps::post(pool, [&object](IAsyncSteps& asi) { asi.sync(object, [](IAsyncSteps&) {}); }).get();
}

}  // namespace

TEST_CASE("flows on a pool that wait at a throttle take a turn each, and one a period") {
  using clock = std::chrono::steady_clock;
  constexpr std::uint64_t count = 400;
  constexpr auto period = 1ms;
  for (const bool in_branches : {false, true}) {
    CAPTURE(in_branches);
    threadpool pool(2);
    Throttle throttle(5, period);
    const auto begin = clock::now();
    if (in_branches) {
      steps::post(pool, [&throttle](IAsyncSteps& asi) {
        auto& branches = asi.parallel();
        for (std::uint64_t i = 0; i < count; ++i) {
          branches.add([&throttle](IAsyncSteps& branch) { branch.sync(throttle, [](IAsyncSteps&) {}); });
        }
      }).get();
    } else {
      std::vector<async::future<void>> ends;
      for (std::uint64_t i = 0; i < count; ++i) {
        ends.push_back(steps::post(pool, [&throttle](IAsyncSteps& asi) { asi.sync(throttle, [](IAsyncSteps&) {}); }));
      }
      for (auto& end : ends) end.get();
    }
    const auto periods = static_cast<std::uint64_t>((clock::now() - begin) / period) + 1;
    CHECK(pool.stats().turns <= 4 * (count + periods));  // of the 16,000 if each flow watched the time
  }
}

TEST_CASE_TEMPLATE(
    "rule 18: any flows on a pool that wait at a throttle are cancelled or destroyed: the others come in", Flow,
    STEPS_FLOWS) {
  constexpr unsigned count = 4;  // that wait
  threadpool pool(1);
  for (const bool is_destroyed : {false, true}) {
    for (const bool backwards : {false, true}) {
      for (unsigned which = 0; which < 1U << count; ++which) {
        CAPTURE(is_destroyed);
        CAPTURE(backwards);
        CAPTURE(which);
        Throttle throttle(1, 2ms);
        steps::Limiter limiter({.concurrent = 9, .rate = 1, .period = 2ms});
        steps::Limiter narrow({.concurrent = 1, .rate = 1, .period = 2ms});
        for (steps::ISync* object : {static_cast<steps::ISync*>(&throttle), static_cast<steps::ISync*>(&limiter),
                                     static_cast<steps::ISync*>(&narrow)}) {
          line<Flow> l(*object);
          for (unsigned i = 0; i <= count; ++i) l.add(pool);
          let_begin(pool);
          for (unsigned n = 0; n < count; ++n) {
            const unsigned i = backwards ? count - n : n + 1;
            if ((which >> (i - 1) & 1U) == 0) continue;
            if (is_destroyed) {
              l.flows[i].reset();
            } else {
              l.flows[i]->cancel();
            }
          }
          for (auto& end : l.ends) REQUIRE(is_ready_in_time(end));
          std::size_t next = 0;
          for (unsigned i = 0; i <= count; ++i) {
            const bool came_in = next < l.order.size() && l.order[next] == i;
            if (came_in) ++next;
            REQUIRE((came_in || (i != 0 && (which >> (i - 1) & 1U) != 0)));
          }
          REQUIRE(next == l.order.size());
        }
      }
    }
  }
}

TEST_CASE("rule 18: a flow on a pool gets the timer, and is let in or cancelled before it knows: nobody is lost") {
  for (const bool is_let_in : {false, true}) {
    for (const bool is_cancelled : {false, true}) {
      CAPTURE(is_let_in);
      CAPTURE(is_cancelled);
      async::event_loop loop;
      threadpool pool(1);
      Throttle throttle(1, 20ms);
      line<steps::AsyncSteps> l(throttle);
      std::promise<void> is_in;
      std::promise<void> may_go;
      pass(pool, throttle);
      steps::AsyncSteps first{pool};
      first.sync(throttle, [&](IAsyncSteps&) {  // the newest, 1, has the timer now, and its message waits
        is_in.set_value();
        may_go.get_future().wait();
      });
      auto end = first.promise();
      l.add(pool);
      l.add(pool);
      let_begin(pool);
      l.add(loop);
      static_cast<void>(loop.iterate());
      is_in.get_future().wait();
      while (is_let_in && !l.ends[2].is_ready()) static_cast<void>(loop.iterate());  // lets the others in, too
      if (is_cancelled) l.flows[1]->cancel();
      may_go.set_value();
      REQUIRE(is_ready_in_time(end));
      REQUIRE(is_ready_in_time(l.ends[0]));
      REQUIRE(is_ready_in_time(l.ends[1]));
      while (!l.ends[2].is_ready()) static_cast<void>(loop.iterate());
      l.add(pool);
      REQUIRE(is_ready_in_time(l.ends[3]));
      CHECK(l.order.size() >= (is_cancelled ? 3U : 4U));
    }
  }
}

TEST_CASE("a flow on a pool is cancelled when it has just been asked to keep a throttle's time") {
  threadpool pool(1);
  Throttle throttle(1, 20ms);
  line<steps::AsyncSteps> l(throttle);
  pass(pool, throttle);
  l.add(pool);  // keeps the time
  let_begin(pool);
  l.add(pool);
  let_begin(pool);
  held_workers held(pool, held_workers::inside::task, 1);
  l.flows[0]->cancel();  // asks the other one
  l.flows[1]->cancel();  // comes before the question
  held.release();
  REQUIRE(is_ready_in_time(l.ends[0]));
  REQUIRE(is_ready_in_time(l.ends[1]));
  l.flows[1].reset();  // with the memory of the question
  l.add(pool);
  REQUIRE(is_ready_in_time(l.ends[2]));
  CHECK(l.order == std::vector<std::size_t>{2});
}

TEST_CASE("a flow on a pool waits at a throttle beside a branch that blocks their loop until another flow is in") {
  threadpool pool(2);
  Throttle throttle(1, 20ms);
  pass(pool, throttle);
  testing::roomy_nitro both{pool};
  bool is_in = false;
  auto& branches = both.parallel();
  branches.sync(throttle, [](IAsyncSteps&) {});  // waits before the other one begins
  branches.add([&](IAsyncSteps&) {
    std::promise<void> passed;
    auto in_time = passed.get_future();
    steps::AsyncSteps other{pool};
    other.sync(throttle, [&passed](IAsyncSteps&) { passed.set_value(); });
    other.execute();
    is_in = is_ready_in_time(in_time);
  });
  both.promise().get();
  CHECK(is_in);
}

TEST_CASE("a pool whose workers are all busy does not hold up flows of another one that wait at the same throttle") {
  threadpool busy(1);
  threadpool pool(1);
  Throttle throttle(1, 2ms);
  line<steps::AsyncSteps> l(throttle);
  pass(pool, throttle);
  l.add(busy);
  let_begin(busy);
  held_workers held(busy, held_workers::inside::task, 1);
  l.add(pool);
  CHECK(held.see(l.ends[1]));
  held.release();
  CHECK(is_ready_in_time(l.ends[0]));
}

TEST_CASE("an event loop that nobody runs does not hold up flows of a pool that wait at the same throttle") {
  async::event_loop loop;
  threadpool pool(1);
  Throttle throttle(1, 2ms);
  line<steps::AsyncSteps> l(throttle);
  pass(pool, throttle);
  l.add(loop);
  static_cast<void>(loop.iterate());
  l.add(pool);
  CHECK(is_ready_in_time(l.ends[1]));
  while (!l.ends[0].is_ready()) static_cast<void>(loop.iterate());
}

TEST_CASE(
    "a flow on a pool and flows on its tool() wait at a throttle: they come in, and so do later ones of the pool") {
  threadpool pool(2);
  Throttle throttle(1, 5ms);
  steps::Limiter limiter({.rate = 1, .period = 5ms});
  for (steps::ISync* object : {static_cast<steps::ISync*>(&throttle), static_cast<steps::ISync*>(&limiter)}) {
    for (const unsigned first : {0U, 1U, 2U}) {  // how many of the two wait before it
      CAPTURE(first);
      line<steps::AsyncSteps> l(*object);
      std::promise<void> on_tool[2];
      pass(pool, *object);
      auto end = steps::post(pool, [&](IAsyncSteps& asi) {
        const auto add = [&, object](unsigned from, unsigned to) {
          for (; from != to; ++from) {
            steps::execute(asi.tool(), [object, in = &on_tool[from]](IAsyncSteps& other) {
              other.sync(*object, [in](IAsyncSteps&) { in->set_value(); });
            });
          }
        };
        add(0, first);
        asi.add([](IAsyncSteps& step) { step.relinquish(); });  // they begin
        asi.add([add, first, object](IAsyncSteps& step) {
          add(first, 2);  // they begin when it waits
          step.sync(*object, [](IAsyncSteps&) {});
        });
      });
      CHECK(is_ready_in_time(end));
      for (std::promise<void>& in : on_tool) {
        auto is_in = in.get_future();
        REQUIRE(is_ready_in_time(is_in));
      }
      for (int i = 0; i < 5; ++i) l.add(pool);
      for (auto& each : l.ends) REQUIRE(is_ready_in_time(each));
    }
  }
}
