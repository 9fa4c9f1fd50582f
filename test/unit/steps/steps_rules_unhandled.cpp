// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <cstddef>
#include <exception>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "support/child.hpp"
#include "support/flows.hpp"

// Unhandled errors. Rules 13 to 15 of steps/RULES.md.

using steps::ErrorCode;
using steps::IAsyncSteps;
using testing::bench;
using testing::counted;
using testing::lines;

TEST_CASE_TEMPLATE("rule 13: an unhandled error goes to the promise, else the flow's hook, else the loop's, once", Flow,
                   STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  const auto fail = [](IAsyncSteps& asi) { asi.error("E", "info"); };
  flow.add(fail);
  flow.execute();
  b.drain();
  CHECK(b.unhandled == lines{"E"});

  flow.state().set_unhandled_error([&](ErrorCode code) { seen.push_back(std::string(code)); });
  flow.add(fail);
  flow.execute();
  b.drain();
  CHECK(seen == lines{"E"});

  flow.add(fail);
  auto result = flow.promise();
  b.drain();
  CHECK_THROWS_WITH_AS(result.get(), "E", steps::Error);
  CHECK(seen.size() == 1);
  CHECK(b.unhandled.size() == 1);
}

TEST_CASE_TEMPLATE("rule 13: an error that a parallel's or an outer handler sees is not unhandled", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.state().set_unhandled_error([&](ErrorCode code) { seen.push_back("unhandled " + std::string(code)); });
  auto& p = flow.parallel([&](IAsyncSteps& asi, ErrorCode code) {
    seen.push_back(std::string(code));
    asi.success();
  });
  p.add([](IAsyncSteps& asi) { asi.error("Branch"); });
  p.add([](IAsyncSteps& asi) { asi.error("Other"); });
  flow.add(
      [](IAsyncSteps& asi) {
        auto& inner = asi.parallel();
        inner.add([](IAsyncSteps& branch) { branch.add([](IAsyncSteps& sub) { sub.error("Deep"); }); });
      },
      [&](IAsyncSteps& asi, ErrorCode code) {
        seen.push_back(std::string(code));
        asi.success();
      });
  flow.execute();
  b.drain();
  CHECK(seen == lines{"Branch", "Deep"});
  CHECK(b.unhandled.empty());
}

TEST_CASE("rule 13: without any hook an unhandled error ends the program with a message") {
  const auto end = testing::in_child([] {
    async::event_loop loop;
    steps::AsyncSteps flow{loop};
    flow.add([](IAsyncSteps& asi) { asi.error("NobodyCares", "the reason"); });
    flow.execute();
    while (loop.iterate().have_work) {
    }
  });
  CHECK(end.aborted());
  CHECK(end.error.find("asyncsteps: unhandled exception: NobodyCares: the reason\n") != std::string::npos);
}

TEST_CASE_TEMPLATE("rule 14: an exception out of a cancel handler is an unhandled error, and unwinding goes on", Flow,
                   STEPS_FLOWS) {
  for (const bool cancels : {false, true}) {
    bench b;
    lines seen;
    Flow flow{b.loop};
    flow.state().set_unhandled_error([&](ErrorCode code) { seen.push_back("unhandled " + std::string(code)); });
    flow.add(
        [&](IAsyncSteps& asi) {
          asi.setCancel([&](IAsyncSteps&) { seen.push_back("outer"); });
          asi.add([&](IAsyncSteps& inner) {
            inner.setCancel([&](IAsyncSteps&) {
              seen.push_back("inner");
              throw std::runtime_error("oops");
            });
          });
        },
        [&](IAsyncSteps& asi, ErrorCode code) {
          seen.push_back(std::string(code));
          asi.success();
        });
    flow.execute();
    b.drain();
    if (cancels) {
      flow.cancel();
      CHECK(seen == lines{"inner", "unhandled oops", "outer"});
    } else {
      flow.execute();  // rule 5: an error of the step that waits
      b.drain();
      CHECK(seen == lines{"inner", "unhandled oops", "outer", "InternalError"});
    }
    CHECK(static_cast<bool>(flow));
  }
}

TEST_CASE("rule 14: a loop that ends before it reports an exception says so, and whose it may be") {
  for (const bool at_end : {false, true}) {
    const auto end = testing::in_child([at_end] {
      async::event_loop loop;
      steps::AsyncSteps flow{loop};
      flow.add([at_end](IAsyncSteps& asi) {
        const auto fail = [] { throw std::runtime_error("oops"); };
        if (at_end) {
          asi.onEnd(fail);
        } else {
          asi.setCancel(fail);
        }
        asi.waitExternal();
      });
      flow.execute();
      loop.iterate();
      flow.cancel();
    });
    CHECK(end.exit_code == 0);
    CHECK(end.error ==
          "asyncsteps: an error of a cancel handler or an onEnd function was not reported: the loop is being "
          "destroyed\n");
  }
}

TEST_CASE_TEMPLATE("rule 15: the forms that do not throw raise no exception and return", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  int exceptions = 0;
  flow.state().set_catch_trace([&](const std::exception&) { ++exceptions; });
  flow.loop([&, round = 0](IAsyncSteps& asi) mutable {
    if (++round < 3) {
      asi.continueLoopNoThrow();
      seen.push_back("returned");
      return;
    }
    asi.breakLoopNoThrow();
    seen.push_back("returned");
  });
  flow.add([](IAsyncSteps& asi) { asi.errorNoThrow("E"); },
           [&](IAsyncSteps& asi, ErrorCode code) {
             seen.push_back(std::string(code));
             CHECK(asi.state().last_exception() == nullptr);
             asi.success();
           });
  flow.execute();
  b.drain();
  CHECK(seen == lines{"returned", "returned", "returned", "E"});
  CHECK(exceptions == 0);
}

TEST_CASE_TEMPLATE("a hook that replaces itself stays until it has returned", Flow, STEPS_FLOWS) {
  const std::string text = "a text that is too long for a string without memory of its own";
  bench b;
  lines seen;
  {
    Flow flow{b.loop};
    steps::State& state = flow.state();
    const auto note = [&seen](const std::string& line) { seen.push_back(line); };
    SUBCASE("a small one") {
      state.set_unhandled_error([&, own = std::make_unique<std::string>(text), object = counted()](ErrorCode) {
        state.set_unhandled_error([&](ErrorCode) { note("another"); });
        state.set_unhandled_error([&](ErrorCode code) { note(std::string(code)); });
        note(*own);
      });
    }
    SUBCASE("a large one") {
      state.set_unhandled_error([&, own = text, object = counted()](ErrorCode) {
        state.set_unhandled_error([&, own](ErrorCode code) { note(std::string(code)); });
        note(own);
      });
    }
    SUBCASE("that throws") {
      state.set_unhandled_error([&, own = text, object = counted()](ErrorCode) {
        state.set_unhandled_error([&](ErrorCode code) { note(std::string(code)); });
        note(own);
        throw own;
      });
    }
    SUBCASE("the trace") {
      state.set_unhandled_error([&](ErrorCode) {});
      state.set_catch_trace([&, own = text, object = counted()](const std::exception&) {
        state.set_catch_trace([&](const std::exception& e) { note(e.what()); });
        note(own);
      });
    }
    SUBCASE("the loop's") {
      b.loop.on_unhandled([&, own = text, object = counted()](const std::exception_ptr&) {
        b.loop.on_unhandled([&](const std::exception_ptr&) { note("another"); });
        b.loop.on_unhandled([&](const std::exception_ptr&) { note("E"); });
        note(own);
      });
    }
    for (int i = 0; i < 3; ++i) {
      CHECK(counted::alive == (i == 0 ? 1 : 0));
      flow.add([](IAsyncSteps& asi) { asi.error("E"); });
      flow.execute();
      b.drain();
    }
  }
  CHECK(seen == lines{text, "E", "E"});
}

TEST_CASE_TEMPLATE("a handler replaces the info of an error that it lets pass", Flow, STEPS_FLOWS) {
  bench b;
  Flow flow{b.loop};
  lines seen;
  std::string text = "inner";
  flow.add(
      [&](IAsyncSteps& asi) {
        asi.add([](IAsyncSteps& inner) { inner.error("Code", "first"); },
                [&](IAsyncSteps& inner, ErrorCode) {
                  inner.state().set_error_info(text + ": " + inner.state().error_info().str());
                  text = "gone";
                });
      },
      [&](IAsyncSteps& asi, ErrorCode code) {
        seen.push_back(std::string(code) + ", " + asi.state().error_info().str());
        asi.success();
      });
  flow.execute();
  b.drain();
  CHECK(seen == lines{"Code, inner: first"});
}

TEST_CASE_TEMPLATE("code that runs steps on its own calls the hooks of the state", Flow, STEPS_FLOWS) {
  bench b;
  Flow flow{b.loop};
  flow.state().catch_trace(std::runtime_error("nobody listens"));
  flow.state().unhandled_error("nobody listens");
  lines seen;
  flow.state().set_catch_trace([&](const std::exception& e) { seen.push_back(e.what()); });
  flow.state().set_unhandled_error([&](ErrorCode code) { seen.push_back(std::string(code)); });
  flow.state().catch_trace(std::runtime_error("caught"));
  flow.state().unhandled_error("Unhandled");
  CHECK(seen == lines{"caught", "Unhandled"});
  CHECK(flow);
}

TEST_CASE_TEMPLATE("rule 14: the hook sees info and exception of a cancel handler or of onEnd(), also in a branch",
                   Flow, STEPS_FLOWS) {
  for (const bool at_end : {false, true}) {
    for (const bool in_branch : {false, true}) {
      CAPTURE(at_end);
      CAPTURE(in_branch);
      bench b;
      lines seen;
      Flow flow{b.loop};
      IAsyncSteps* own = &flow;
      flow.state().set_unhandled_error([&](ErrorCode code) {
        std::string what = "?";
        CHECK(own->state().current_exception() == own->state().last_exception());
        try {
          std::rethrow_exception(own->state().last_exception());
        } catch (const steps::Error& e) {
          what = e.error_info();
        }
        seen.push_back(std::string(code.view()) + ", " + own->state().error_info().str() + ", " + what);
      });
      const auto fail = [&own, at_end](IAsyncSteps& asi) {
        own = &asi;
        const auto thrown = [] { throw steps::Error("Late", "socket 5"); };
        if (at_end) {
          asi.onEnd(thrown);
        } else {
          asi.setCancel([thrown](IAsyncSteps&) { thrown(); });
        }
        asi.error("Early", "of the flow");
      };
      flow.add(
          [&](IAsyncSteps& asi) {
            if (in_branch) {
              asi.parallel().add(fail);
            } else {
              fail(asi);
            }
          },
          [&](IAsyncSteps& asi, ErrorCode code) {
            seen.push_back(std::string(code.view()) + ", " + asi.state().error_info().str());
            asi.success();
          });
      flow.execute();
      b.drain();
      lines expected{"Late, socket 5, socket 5", "Early, of the flow"};
      if (at_end && !in_branch) std::swap(expected[0], expected[1]);  // the step ends after its handler
      CHECK(seen == expected);
      CHECK(b.unhandled.empty());
    }
  }
}

TEST_CASE("rule 14: the info that the hook sees ends with a zero, however long it is") {
  for (const std::size_t length : {0U, 1U, 78U, 79U, 80U, 200U}) {
    const std::string info(length, 'i');
    bench b;
    lines seen;
    steps::AsyncSteps flow{b.loop};
    flow.state().set_unhandled_error([&](ErrorCode) { seen.emplace_back(flow.state().error_info().c_str()); });
    flow.add([&info](IAsyncSteps& asi) {
      asi.setCancel([&info] {
        steps::Error error("Late", std::string(79, '?'));
        error = steps::Error("Late", info);
        throw error;
      });
    });
    flow.execute();
    b.drain();
    flow.cancel();
    CHECK(seen == lines{info});
  }
}
