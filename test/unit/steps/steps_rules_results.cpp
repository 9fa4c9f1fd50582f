// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/flows.hpp"

// Steps and results. Rules 2 to 7 of steps/RULES.md.

using steps::ErrorCode;
using steps::IAsyncSteps;
using testing::bench;
using testing::lines;
using testing::noting;

namespace {

/// A handler that records the error and recovers.
bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Tells when it is destroyed, moved-from ones aside.
struct sentry {
  explicit sentry(bool& flag) : gone(&flag) {}
  sentry(sentry&& other) noexcept : gone(std::exchange(other.gone, nullptr)) {}
  sentry(const sentry&) = delete;
  ~sentry() {
    if (gone != nullptr) *gone = true;
  }
  bool* gone;
};

/// An action of a callback on its own flow, for rule 6.
enum class deed { success, error_no_throw, cancel, destroy };

}  // namespace

TEST_CASE_TEMPLATE("rule 2: timeout, cancel handler and waitExternal each hold a step without sub-steps", Flow,
                   STEPS_FLOWS) {
  for (int what = 0; what < 5; ++what) {
    bench b;
    bool after = false;
    Flow flow{b.loop};
    flow.add([&](IAsyncSteps& asi) {
      if (what == 0) asi.setTimeout(std::chrono::hours(1));
      if (what == 1) asi.setCancel([](IAsyncSteps&) {});
      if (what == 2) asi.waitExternal();
      if (what == 4) asi.setDeadline(asi.tool().now() + std::chrono::hours(1));
    });
    flow.add([&](IAsyncSteps&) { after = true; });
    flow.execute();
    b.pass(std::chrono::milliseconds(5));
    CAPTURE(what);
    CHECK(after == (what == 3));
    CHECK(static_cast<bool>(flow) == (what == 3));
  }
}

TEST_CASE_TEMPLATE("rule 2: with sub-steps none of the three holds the step, and its cancel handler is not called",
                   Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.add([&](IAsyncSteps& asi) {
    asi.setTimeout(std::chrono::milliseconds(3));
    asi.setCancel([&](IAsyncSteps&) { seen.push_back("cancelled"); });
    asi.waitExternal();
    asi.add([&](IAsyncSteps&) { seen.push_back("sub"); });
  });
  flow.add([&](IAsyncSteps& asi) {
    seen.push_back("next");
    asi.waitExternal();
  });
  flow.execute();
  b.pass(std::chrono::milliseconds(10));
  CHECK(seen == lines{"sub", "next"});
  CHECK(!flow);
  CHECK(b.unhandled.empty());
}

TEST_CASE_TEMPLATE("rule 3: success() without arguments hands on nothing, also after earlier results", Flow,
                   STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.add([](IAsyncSteps& asi) { asi.success(1); });
  flow.add([](IAsyncSteps& asi) { asi.success(); });
  flow.add([&](IAsyncSteps&, int) { seen.push_back("stale"); }, noting(seen));
  flow.add([](IAsyncSteps& asi) { asi.success(1); });
  flow.add([](IAsyncSteps&) {});  // takes no result, which is dropped
  flow.add([&](IAsyncSteps&, int) { seen.push_back("stale"); }, noting(seen));
  flow.execute();
  b.drain();
  CHECK(seen.size() == 2);
  for (const std::string& line : seen) CHECK(contains(line, "InternalError"));
}

TEST_CASE_TEMPLATE("rule 3: a loop without an iteration hands on nothing, also after earlier results", Flow,
                   STEPS_FLOWS) {
  for (int kind = 0; kind < 4; ++kind) {
    bench b;
    lines seen;
    Flow flow{b.loop};
    flow.add([](IAsyncSteps& asi) { asi.success(1); });
    if (kind == 0) flow.repeat(0, [](IAsyncSteps&, std::size_t) {});
    if (kind == 1) flow.forEach(std::vector<int>(), [](IAsyncSteps&, std::size_t, int) {});
    if (kind == 2) flow.forEach(std::list<int>(), [](IAsyncSteps&, std::size_t, int) {});
    if (kind == 3) flow.forEach(std::map<int, int>(), [](IAsyncSteps&, int, int) {});
    flow.add([&](IAsyncSteps&, int) { seen.push_back("stale"); }, noting(seen));
    flow.execute();
    b.drain();
    REQUIRE(seen.size() == 1);
    CHECK(contains(seen.front(), "InternalError"));
  }
}

TEST_CASE_TEMPLATE("rule 3: an error drops results, and the results of the handler arrive", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.add(
      [](IAsyncSteps& asi) {
        asi.add([](IAsyncSteps& inner) { inner.success(std::string("lost")); });
        asi.add([](IAsyncSteps& inner) { inner.errorNoThrow("E"); });
      },
      [](IAsyncSteps&, ErrorCode) {});
  flow.execute();
  b.drain();
  CHECK(b.unhandled == lines{"E"});
  flow.add([](IAsyncSteps& asi) { asi.error("E"); }, [](IAsyncSteps& asi, ErrorCode) { asi.success(5, "text"); });
  flow.add([&](IAsyncSteps&, int n, const std::string& s) { seen.push_back(s + std::to_string(n)); });
  flow.add([](IAsyncSteps& asi) {
    asi.add([](IAsyncSteps& inner) { inner.success(std::string("lost")); });
    asi.add([](IAsyncSteps& inner) { inner.error("E"); }, [](IAsyncSteps& inner, ErrorCode) { inner.success(); });
  });
  flow.add([&](IAsyncSteps&, const std::string&) { seen.push_back("stale"); }, noting(seen));
  flow.execute();
  b.drain();
  REQUIRE(seen.size() == 2);
  CHECK(seen[0] == "text5");
  CHECK(contains(seen[1], "InternalError"));
}

TEST_CASE_TEMPLATE("rule 4: a mismatch names the wanted and the given type, and goes to that step's own handler", Flow,
                   STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.add([](IAsyncSteps& asi) { asi.success(std::string("text")); });
  flow.add([&](IAsyncSteps&, std::vector<int>) { seen.push_back("never"); }, noting(seen));
  flow.add([](IAsyncSteps& asi) { asi.success(1); });
  flow.add([&](IAsyncSteps&, int, double) { seen.push_back("never"); }, noting(seen));
  flow.add([](IAsyncSteps& asi) { asi.success(1); });
  flow.add([&](IAsyncSteps&, long) { seen.push_back("never"); }, noting(seen));  // no conversions
  flow.execute();
  b.drain();
  REQUIRE(seen.size() == 3);
  for (const std::string& line : seen) CHECK(contains(line, "InternalError: "));
  CHECK(contains(seen[0], "vector<int"));
  CHECK(contains(seen[0], "string"));
  CHECK(contains(seen[1], "double"));
  CHECK(contains(seen[2], "long"));
  CHECK(contains(seen[2], "int"));
  CHECK(b.unhandled.empty());
}

TEST_CASE_TEMPLATE("rule 4: a future of another type than the last result gets an error that names both", Flow,
                   STEPS_FLOWS) {
  for (const bool passes : {true, false}) {
    bench b;
    Flow flow{b.loop};
    flow.add([passes](IAsyncSteps& asi) {
      if (passes) asi.success(2.5);
    });
    auto end = flow.template promise<int>();
    b.drain();
    std::string info;
    try {
      end.get();
    } catch (const steps::Error& e) {
      CHECK(e.code() == steps::errors::InternalError);
      info = e.error_info();
    }
    CHECK(info == std::string("the flow's future takes (int), the last step passed ") + (passes ? "(double)" : "()"));
  }
}

TEST_CASE_TEMPLATE("rule 5: each misuse is InternalError with an info, at the step that did it", Flow, STEPS_FLOWS) {
  const std::vector<std::pair<const char*, void (*)(IAsyncSteps&)>> misuses = {
      {"success() with sub-steps",
       [](IAsyncSteps& asi) {
         asi.add([](IAsyncSteps&) { FAIL("ran"); });
         asi.success();
       }},
      {"success() twice",
       [](IAsyncSteps& asi) {
         asi.success(1);
         asi.success(2);
       }},
      {"add() after success()",
       [](IAsyncSteps& asi) {
         asi.success();
         asi.add([](IAsyncSteps&) { FAIL("ran"); });
       }},
      {"loop() after success()",
       [](IAsyncSteps& asi) {
         asi.success();
         asi.loop([](IAsyncSteps&) { FAIL("ran"); });
       }},
      {"parallel() after success()",
       [](IAsyncSteps& asi) {
         asi.success();
         asi.parallel().add([](IAsyncSteps&) { FAIL("ran"); });
       }},
      {"setTimeout() after success()",
       [](IAsyncSteps& asi) {
         asi.success();
         asi.setTimeout(std::chrono::milliseconds(1));
       }},
      {"setDeadline() after success()",
       [](IAsyncSteps& asi) {
         asi.success();
         asi.setDeadline(asi.tool().now());
       }},
      {"execute() of a step", [](IAsyncSteps& asi) { asi.execute(); }},
      {"cancel() of a step", [](IAsyncSteps& asi) { asi.cancel(); }},
      {"promise() of a step", [](IAsyncSteps& asi) { asi.promise(); }},
      {"breakLoop() without a loop", [](IAsyncSteps& asi) { asi.breakLoop(); }},
      {"continueLoop() without a loop", [](IAsyncSteps& asi) { asi.continueLoopNoThrow(); }},
  };
  for (const auto& [name, act] : misuses) {
    CAPTURE(name);
    bench b;
    lines seen;
    Flow flow{b.loop};
    flow.add([misuse = act](IAsyncSteps& asi) { misuse(asi); }, noting(seen));
    flow.add([&](IAsyncSteps&) { seen.push_back("next"); });
    flow.execute();
    b.drain();
    REQUIRE(seen.size() == 2);
    CHECK(contains(seen[0], "InternalError: "));
    CHECK(seen[0].size() > 20);
    CHECK(seen[1] == "next");
    CHECK(b.unhandled.empty());
    CHECK(static_cast<bool>(flow));
  }
}

TEST_CASE_TEMPLATE("rule 5: execute() and add() of a root that executes is the error of the step that runs or waits",
                   Flow, STEPS_FLOWS) {
  for (const bool waits : {false, true}) {
    for (const bool adds : {false, true}) {
      bench b;
      lines seen;
      Flow flow{b.loop};
      const auto misuse = [&] {
        if (adds) {
          flow.add([](IAsyncSteps&) { FAIL("ran"); });
        } else {
          flow.execute();
        }
      };
      flow.add(
          [&](IAsyncSteps& asi) {
            if (waits) return asi.waitExternal();
            misuse();
          },
          noting(seen));
      flow.execute();
      b.drain();
      if (waits) {
        CHECK(seen.empty());
        misuse();
        b.drain();
      }
      REQUIRE(seen.size() == 1);
      CHECK(contains(seen[0], "InternalError: "));
      CHECK(static_cast<bool>(flow));
    }
  }
}

TEST_CASE_TEMPLATE("rule 5: error() with sub-steps added drops these and is raised", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  for (const bool throws : {true, false}) {
    flow.add(
        [&, throws](IAsyncSteps& asi) {
          asi.add([&](IAsyncSteps&) { seen.push_back("sub"); });
          asi.parallel().add([&](IAsyncSteps&) { seen.push_back("branch"); });
          if (throws) asi.error("Mine", "why");
          asi.errorNoThrow("Mine", "why");
        },
        noting(seen));
  }
  flow.execute();
  b.drain();
  CHECK(seen == lines{"Mine: why", "Mine: why"});
}

TEST_CASE_TEMPLATE("rule 6: a step's closure and stack() objects outlive whatever it does to its flow", Flow,
                   STEPS_FLOWS) {
  for (const deed what : {deed::success, deed::error_no_throw, deed::cancel, deed::destroy}) {
    for (const bool in_handler : {false, true}) {
      CAPTURE(static_cast<int>(what));
      CAPTURE(in_handler);
      bench b;
      bool closure_gone = false;
      bool object_gone = false;
      bool checked = false;
      auto flow = std::make_unique<Flow>(b.loop);
      const auto act = [&](IAsyncSteps& asi) {
        switch (what) {
          case deed::success:
            asi.success();
            break;
          case deed::error_no_throw:
            asi.errorNoThrow("E");
            break;
          case deed::cancel:
            flow->cancel();
            break;
          case deed::destroy:
            flow.reset();
            break;
        }
        CHECK(!closure_gone);
        CHECK(!object_gone);
        checked = true;
      };
      flow->add(
          [&, s = sentry(closure_gone)](IAsyncSteps& asi) {
            asi.stack<sentry>(object_gone);
            if (in_handler) asi.error("First");
            act(asi);
            CHECK(s.gone == &closure_gone);
          },
          [&, big = std::string(100, 'x')](IAsyncSteps& asi, ErrorCode) {
            if (!in_handler) return;
            act(asi);
            CHECK(big == std::string(100, 'x'));
          });
      flow->execute();
      b.drain();
      CHECK(checked);
      CHECK(closure_gone);
      CHECK(object_gone);
      CHECK((flow == nullptr) == (what == deed::destroy));
    }
  }
}

TEST_CASE_TEMPLATE("rule 6: a cancel handler may destroy its flow", Flow, STEPS_FLOWS) {
  bench b;
  bool gone = false;
  bool alive_after = false;
  auto flow = std::make_unique<Flow>(b.loop);
  flow->add([&](IAsyncSteps& asi) {
    asi.setCancel([&, s = sentry(gone)](IAsyncSteps&) {
      flow.reset();
      alive_after = !gone && s.gone == &gone;
    });
    asi.setTimeout(std::chrono::milliseconds(2));
  });
  flow->execute();
  b.pass(std::chrono::milliseconds(5));
  CHECK(alive_after);
  CHECK(gone);
  CHECK(flow == nullptr);
}

TEST_CASE_TEMPLATE("rule 7: a failed run leaves no info of its error to the next", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.state().set_unhandled_error([&](ErrorCode code) { seen.push_back(std::string(code)); });
  for (int run = 0; run < 3; ++run) {
    flow.add([&, run](IAsyncSteps& asi) {
      seen.push_back("info '" + std::string(asi.state().error_info()) + "'");
      asi.success(run);
    });
    flow.add([](IAsyncSteps& asi, int n) {
      if (n < 2) asi.error("E" + std::to_string(n), "info");
    });
    flow.execute();
    b.drain();
  }
  CHECK(seen == lines{"info ''", "E0", "info ''", "E1", "info ''"});
}

TEST_CASE_TEMPLATE("rule 5: the hook of unhandled errors gets the info of a mistake in building the flow", Flow,
                   STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.state().set_unhandled_error([&](ErrorCode code) {
    CHECK(code == "InternalError");
    seen.emplace_back(flow.state().error_info());
  });
  flow.add([](IAsyncSteps&) {});
  flow.waitExternal();
  flow.execute();
  b.drain();
  REQUIRE(seen.size() == 1);
  CHECK(!seen[0].empty());
}
