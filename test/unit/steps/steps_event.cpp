// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <deque>
#include <string>

#include "async/future.hpp"
#include "steps/asyncsteps.hpp"
#include "steps/asynctool.hpp"
#include "steps/event.hpp"
#include "steps/iasyncsteps.hpp"
#include "support/flows.hpp"

// Rule 46 of steps/RULES.md by the name for flows. The rest of the contract: test/unit/async/event.cpp.

using steps::ErrorCode;
using steps::IAsyncSteps;
using testing::bench;
using testing::lines;
using namespace std::chrono_literals;

TEST_CASE("rule 46: a steps::Event ends the waits of flows on two loops, as often as it is set") {
  bench one;
  bench two;
  lines seen;
  steps::Event event;
  std::deque<steps::AsyncSteps> flows;
  for (bench* b : {&one, &two}) {
    steps::AsyncSteps& flow = flows.emplace_back(b->loop);
    flow.repeat(2, [&, name = std::string(b == &one ? "one" : "two")](IAsyncSteps& asi, std::size_t i) {
      asi.await(event);
      asi.add([&seen, name, i](IAsyncSteps&) { seen.push_back(name + " " + std::to_string(i)); });
    });
    flow.execute();
    b->drain();
  }
  CHECK(seen.empty());
  event.set();
  event.reset();
  two.drain();
  one.drain();
  CHECK(seen == lines{"two 0", "one 0"});
  event.set();
  one.drain();
  two.drain();
  CHECK(seen == lines{"two 0", "one 0", "one 1", "two 1"});
}

TEST_CASE_TEMPLATE("rule 46: the error handler of the step runs, once, when it has left the line", Flow, STEPS_FLOWS) {
  bench b;
  steps::Event event;
  lines seen;
  Flow flow{b.loop};
  flow.add([&](IAsyncSteps& asi) {
    asi.setTimeout(5ms);
    asi.await(event, [&](IAsyncSteps& handler, ErrorCode code) {
      seen.emplace_back(code);
      handler.add([&](IAsyncSteps& wait) {
        seen.emplace_back("waits");
        wait.waitExternal();
      });
    });
  });
  flow.execute();
  b.pass(7ms);
  CHECK(seen == lines{"Timeout", "waits"});
  event.set();
  b.drain();
  CHECK(seen == lines{"Timeout", "waits"});
  CHECK(!flow);
}

TEST_CASE("rule 46: flows on the threads of two tools hand over to each other by events") {
  steps::AsyncTool here;
  steps::AsyncTool there;
  steps::Event ping;
  steps::Event pong{true};
  int turns = 0;  // each event publishes it to the other loop
  steps::AsyncSteps first{here};
  first.repeat(100, [&](IAsyncSteps& asi, std::size_t) {
    asi.await(pong);
    asi.add([&](IAsyncSteps&) {
      pong.reset();
      CHECK(turns++ % 2 == 0);
      ping.set();
    });
  });
  steps::AsyncSteps second{there};
  second.repeat(100, [&](IAsyncSteps& asi, std::size_t) {
    asi.await(ping);
    asi.add([&](IAsyncSteps&) {
      ping.reset();
      CHECK(turns++ % 2 == 1);
      pong.set();
    });
  });
  async::future<void> end = first.promise();
  second.promise().get();
  end.get();
  CHECK(turns == 200);
}
