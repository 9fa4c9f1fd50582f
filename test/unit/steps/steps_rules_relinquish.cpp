// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "support/flows.hpp"

// relinquish() inside a step. Rule 33 of steps/RULES.md. At the level of the root: steps_rules_loops.cpp.

using steps::ErrorCode;
using steps::IAsyncSteps;
using testing::bench;
using testing::counted;
using testing::lines;
using namespace std::chrono_literals;

TEST_CASE_TEMPLATE("rule 33: a step that calls relinquish() goes on, or ends, after the other flows' turn", Flow,
                   STEPS_FLOWS) {
  const auto seen_with = [](const std::function<void(IAsyncSteps&, lines&)>& build) {
    bench b;
    lines seen;
    Flow one{b.loop};
    Flow two{b.loop};
    build(one, seen);
    one.add([&](IAsyncSteps&) { seen.push_back("end"); });
    two.loop([&](IAsyncSteps& asi) {
      seen.push_back("other");
      asi.relinquish();
      if (!one) return;
      asi.breakLoop();
    });
    one.execute();
    two.execute();
    b.drain();
    CHECK(b.unhandled.empty());
    seen.erase(std::find(seen.begin(), seen.end(), "end") + 1, seen.end());
    return seen;
  };
  const auto note = [](lines& seen, const char* text) { return [&seen, text](IAsyncSteps&) { seen.push_back(text); }; };

  CHECK(seen_with([&](IAsyncSteps& flow, lines&) { flow.add([](IAsyncSteps& asi) { asi.relinquish(); }); }) ==
        lines{"other", "end"});
  CHECK(seen_with([&](IAsyncSteps& flow, lines& seen) {
          flow.add([&](IAsyncSteps& asi) { asi.relinquish().add(note(seen, "sub")); });
        }) == lines{"other", "sub", "end"});
  CHECK(seen_with([&](IAsyncSteps& flow, lines& seen) {
          flow.add([&](IAsyncSteps& asi) { asi.relinquish().relinquish().add(note(seen, "sub")).relinquish(); });
        }) == lines{"other", "other", "sub", "other", "end"});
  CHECK(seen_with([&](IAsyncSteps& flow, lines& seen) {
          flow.repeat(2, [&](IAsyncSteps& asi, std::size_t i) {
            asi.relinquish();
            asi.stack<counted>();
            if (i == 1) asi.parallel().add(note(seen, "branch"));
          });
        }) == lines{"other", "other", "other", "branch", "other", "end"});
  CHECK(seen_with([&](IAsyncSteps& flow, lines& seen) {
          flow.add([](IAsyncSteps& asi) { asi.error("E"); },
                   [&](IAsyncSteps& asi, ErrorCode) {
                     seen.push_back("handler");
                     asi.relinquish();
                   });
        }) == lines{"handler", "other", "end"});
  CHECK(counted::alive == 0);
}

TEST_CASE_TEMPLATE("rule 33: a step keeps its lock, its handlers and its objects while it gives way", Flow,
                   STEPS_FLOWS) {
  bench b;
  lines seen;
  steps::Mutex mutex;
  counted::alive = 0;
  const auto section = [&](IAsyncSteps& flow, std::string name) {
    flow.sync(mutex, [&, name](IAsyncSteps& asi) {
      asi.stack<counted>();
      seen.push_back(name + " in");
      asi.relinquish();
    });
    flow.add([&, name](IAsyncSteps&) { seen.push_back(name + " out"); });
  };
  Flow one{b.loop};
  Flow two{b.loop};
  section(one, "one");
  section(two, "two");
  one.execute();
  two.execute();
  b.drain();
  CHECK(seen == lines{"one in", "one out", "two in", "two out"});

  for (const bool with_sub_step : {false, true}) {
    seen.clear();
    const auto give_way = [&, with_sub_step](IAsyncSteps& asi) {
      asi.stack<counted>();
      asi.setTimeout(10s);
      asi.setCancel([&](IAsyncSteps&) { seen.push_back("cancelled"); });
      asi.relinquish();
      if (with_sub_step) asi.add([&](IAsyncSteps&) { seen.push_back("sub"); });
    };
    Flow flow{b.loop};
    flow.add(give_way);
    flow.execute();
    b.loop.iterate();
    CHECK(counted::alive == 1);
    flow.cancel();
    CHECK(counted::alive == 0);
    CHECK(seen == lines{"cancelled"});

    flow.add(give_way);
    flow.execute();
    b.drain();
    CHECK(counted::alive == 0);
    CHECK(seen == (with_sub_step ? lines{"cancelled", "sub"} : lines{"cancelled"}));
  }
  CHECK(b.unhandled.empty());
}

TEST_CASE_TEMPLATE("rule 33: success() after relinquish() is a mistake, an error drops the steps that it puts off",
                   Flow, STEPS_FLOWS) {
  bench b;
  std::vector<std::string> codes;
  const auto code_of = [&](const std::function<void(IAsyncSteps&)>& body) {
    std::string seen;
    Flow flow{b.loop};
    flow.add([&](IAsyncSteps& asi) { body(asi); },
             [&](IAsyncSteps& asi, ErrorCode code) {
               seen = std::string(code) + ": " + std::string(asi.state().error_info());
               asi.success();
             });
    flow.execute();
    b.loop.iterate();
    return seen;
  };
  CHECK(code_of([](IAsyncSteps& asi) {
          asi.relinquish();
          asi.success();
        }) == "InternalError: success() of a step with sub-steps");
  CHECK(code_of([](IAsyncSteps& asi) {
          asi.success();
          asi.relinquish();
        }) == "InternalError: add() after success()");
  const std::string waits = "InternalError: relinquish() of a step that waits for its completion()";
  steps::completion<> token;
  CHECK(code_of([&](IAsyncSteps& asi) {
          token = asi.completion<>();
          asi.relinquish();
        }) == waits);
  CHECK_FALSE(token.success());
  CHECK(code_of([&](IAsyncSteps& asi) {
          asi.relinquish();
          asi.stack<counted>();
          token = asi.completion<>();
          asi.setTimeout(1s);
        }) == waits);
  CHECK_FALSE(token.success());
  CHECK(code_of([](IAsyncSteps& asi) {
          asi.relinquish();
          asi.error("E", "info");
        }) == "E: info");
  CHECK(code_of([](IAsyncSteps& asi) {
          asi.relinquish();
          asi.add([](IAsyncSteps&) {});
          asi.errorNoThrow("E", "info");
        }) == "E: info");
  CHECK(b.unhandled.empty());
}

TEST_CASE("rule 33: relinquish() of a waiting step is an error, which the hook for unhandled errors throws") {
  async::event_loop loop;
  loop.on_unhandled([](std::exception_ptr error) { std::rethrow_exception(error); });
  steps::AsyncSteps flow{loop};
  flow.add([](IAsyncSteps& asi) {
    asi.completion<>();
    asi.relinquish();
  });
  flow.execute();
  CHECK_THROWS_AS(loop.iterate(), steps::Error);
}
