// SPDX-License-Identifier: BSL-1.0
//
// Errors and limits of steps for which there is no memory.
#include <doctest/doctest.h>

#include <chrono>
#include <new>
#include <string>

#include "steps/completion.hpp"
#include "support/alloc_counter.hpp"
#include "support/flows.hpp"

using steps::IAsyncSteps;
using testing::bench;
using testing::lines;
using testing::no_memory;

TEST_CASE("rule 9: a code that is no literal, and for whose copy there is no memory, is InternalError") {
  bench b;
  lines seen;
  steps::AsyncSteps flow{b.loop};
  flow.add(
      [](IAsyncSteps& asi) {
        const std::string code(100'000, 'c');  // more than a recycled block holds
        const no_memory none;
        asi.errorNoThrow(code);
      },
      testing::noting_code(seen));
  flow.execute();
  b.drain();
  CHECK(seen == lines{"InternalError"});
}

TEST_CASE_TEMPLATE("rule 20: an error() of a token that finds no memory leaves the wait to later calls", Flow,
                   STEPS_FLOWS) {
  bench b;
  bool has_gone_on = false;
  steps::completion<> token;
  Flow flow{b.loop};
  flow.add([&](IAsyncSteps& asi) { token = asi.completion<>(); });
  flow.add([&](IAsyncSteps&) { has_gone_on = true; });
  flow.execute();
  b.drain();
  const std::string info(200, 'i');
  {
    const no_memory none;
    CHECK_THROWS_AS(token.error("Lost", info), std::bad_alloc);
  }
  CHECK(static_cast<bool>(token));
  CHECK(token.success());
  b.drain();
  CHECK(has_gone_on);
}

TEST_CASE("rule 2: a limit for which there is no memory does not make its step wait") {
  for (const bool at_moment : {false, true}) {
    bench b;
    bool has_thrown = false;
    bool has_gone_on = false;
    steps::AsyncSteps flow{b.loop};
    flow.add([&](IAsyncSteps& asi) {
      const no_memory none;
      try {
        for (;;) asi.stack(8);  // until the flow's memory is full
      } catch (const std::bad_alloc&) {
      }
      try {
        at_moment ? asi.setDeadline(std::chrono::steady_clock::time_point::max())
                  : asi.setTimeout(std::chrono::minutes(1));
      } catch (const std::bad_alloc&) {
        has_thrown = true;
      }
    });
    flow.add([&](IAsyncSteps&) { has_gone_on = true; });
    flow.execute();
    b.drain();
    CHECK(has_thrown);
    CHECK(has_gone_on);
  }
}
