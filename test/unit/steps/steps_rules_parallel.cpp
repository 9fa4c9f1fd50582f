// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <chrono>
#include <exception>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/flows.hpp"

// parallel() and sync() on one event loop. Rules 25, 26 and 28 to 30 of steps/RULES.md; see also steps_parallel.cpp and
// steps_sync.cpp.

using steps::ErrorCode;
using steps::IAsyncSteps;
using testing::bench;
using testing::counted;
using testing::lines;
using testing::noting;
using namespace std::chrono_literals;

TEST_CASE_TEMPLATE("rule 25: loop, sync and await are branches, too", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  steps::Mutex mutex;
  std::promise<int> promise;
  Flow flow{b.loop};
  flow.add([&](IAsyncSteps& asi) {
    auto& p = asi.parallel();
    p.loop([&, round = 0](IAsyncSteps& body) mutable {
      if (++round == 3) body.breakLoop();
      seen.push_back("loop");
    });
    p.sync(mutex, [&](IAsyncSteps&) { seen.push_back("sync"); });
    p.await(promise.get_future());
  });
  flow.add([&](IAsyncSteps&) { seen.push_back("after"); });
  flow.execute();
  b.pass(20ms);
  CHECK(seen == lines{"loop", "sync", "loop"});
  promise.set_value(1);
  b.pass(20ms);
  CHECK(seen == lines{"loop", "sync", "loop", "after"});
}

TEST_CASE_TEMPLATE("rule 25: branches get no arguments, and hand none on", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.add([](IAsyncSteps& asi) { asi.success(1); });
  flow.parallel().add([&](IAsyncSteps&, int) { seen.push_back("got one"); }, noting(seen));
  flow.add([&](IAsyncSteps&, int) { seen.push_back("got one"); }, noting(seen));
  flow.parallel().add([](IAsyncSteps& asi) { asi.success(2); });
  flow.add([&](IAsyncSteps&, int) { seen.push_back("got one"); }, noting(seen));
  flow.execute();
  b.drain();
  REQUIRE(seen.size() == 3);
  for (const std::string& line : seen) CHECK(line.find("InternalError") == 0);
}

TEST_CASE_TEMPLATE("rule 26: branches of different length interleave step by step; a counted loop ends in a turn", Flow,
                   STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  auto& p = flow.parallel();
  p.add([&](IAsyncSteps& asi) {
    seen.push_back("a");
    asi.repeat(2, [&](IAsyncSteps&, std::size_t i) { seen.push_back("a" + std::to_string(i)); });
    asi.add([&](IAsyncSteps&) { seen.push_back("a end"); });
  });
  p.add([&](IAsyncSteps& asi) {
    seen.push_back("b");
    for (int i = 0; i < 4; ++i) asi.add([&, i](IAsyncSteps&) { seen.push_back("b" + std::to_string(i)); });
  });
  flow.execute();
  b.drain();
  CHECK(seen == lines{"a", "b", "a0", "b0", "a1", "b1", "b2", "a end", "b3"});
}

TEST_CASE_TEMPLATE("rule 26: in bursts a branch goes on until it waits, nested branches as their own step says", Flow,
                   STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  const auto branch = [&seen](auto& group, const std::string& name) {
    group.add([&seen, name](IAsyncSteps& asi) {
      seen.push_back(name);
      asi.add([&seen, name](IAsyncSteps& inner) {
        seen.push_back(name + "1");
        inner.relinquish();
      });
      asi.repeat(2, [&seen, name](IAsyncSteps&, std::size_t i) { seen.push_back(name + " i" + std::to_string(i)); });
    });
  };
  auto& p = flow.parallel(steps::BranchTurns::burst);
  branch(p, "a");
  branch(p, "b");
  p.add([&](IAsyncSteps& asi) {
    auto& nested = asi.parallel([](IAsyncSteps&, ErrorCode) {}, steps::BranchTurns::step);
    for (const std::string name : {"c", "d"}) {
      nested.add([&seen, name](IAsyncSteps& inner) {
        seen.push_back(name);
        inner.add([&seen, name](IAsyncSteps&) { seen.push_back(name + "1"); });
      });
    }
  });
  flow.execute();
  b.drain();
  CHECK(seen == lines{"a", "a1", "b", "b1", "a i0", "a i1", "b i0", "b i1", "c", "d", "c1", "d1"});
}

TEST_CASE_TEMPLATE("rules 26, 33: a burst in a branch has as many steps as one of the root has", Flow, STEPS_FLOWS) {
  bench b;
  std::string seen;
  Flow flow{b.loop};
  flow.add([&](IAsyncSteps& asi) {
    auto& alternating = asi.parallel();
    alternating.add([&](IAsyncSteps& branch) {
      auto& p = branch.race(steps::BranchTurns::burst);
      for (const char name : {'a', 'b'}) {
        p.loop([&seen, name](IAsyncSteps& inner) {
          seen += name;
          if (seen.size() == 250) inner.breakLoop();
        });
      }
    });
    alternating.add([](IAsyncSteps&) {});
  });
  flow.execute();
  b.drain();
  CHECK(seen == std::string(100, 'a') + std::string(100, 'b') + std::string(50, 'a'));
}

TEST_CASE_TEMPLATE("rule 28: the step ends when all branches have ended, and no branch outlives it", Flow,
                   STEPS_FLOWS) {
  bench b;
  counted::alive = 0;
  lines seen;
  Flow flow{b.loop};
  flow.add([&](IAsyncSteps& asi) {
    auto& p = asi.parallel();
    for (int i = 1; i <= 3; ++i) {
      p.add([&, i, c = counted()](IAsyncSteps& branch) {
        branch.waitExternal();
        b.loop.deferred(i * 5ms, [&branch, &seen, i] {
          seen.push_back(std::to_string(i));
          branch.success();
        });
      });
    }
  });
  flow.add([&](IAsyncSteps&) { seen.push_back("after " + std::to_string(counted::alive)); });
  flow.execute();
  b.pass(30ms);
  CHECK(seen == lines{"1", "2", "3", "after 0"});
}

TEST_CASE_TEMPLATE("rule 28: the first error wins, and the handler may recover with steps and results", Flow,
                   STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  auto& p = flow.parallel([&](IAsyncSteps& asi, ErrorCode code) {
    seen.push_back(std::string(code) + " " + std::string(asi.state().error_info()));
    asi.add([](IAsyncSteps& inner) { inner.success(5); });
  });
  for (int i = 0; i < 3; ++i) {
    p.add([i](IAsyncSteps& asi) {
      asi.add([i](IAsyncSteps& inner) { inner.error("E" + std::to_string(i), "info " + std::to_string(i)); });
    });
  }
  flow.add([&](IAsyncSteps&, int n) { seen.push_back("next " + std::to_string(n)); });
  flow.execute();
  b.drain();
  CHECK(seen == lines{"E0 info 0", "next 5"});
  CHECK(b.unhandled.empty());
}

TEST_CASE_TEMPLATE("rule 28: the exception of the first error is that of the flow", Flow, STEPS_FLOWS) {
  struct own_error : std::runtime_error {
    using runtime_error::runtime_error;
  };
  bench b;
  std::exception_ptr last;
  Flow flow{b.loop};
  auto& p = flow.parallel([&last](IAsyncSteps& asi, ErrorCode) { last = asi.state().last_exception(); });
  p.add([](IAsyncSteps&) { throw own_error("mine"); });
  p.add([](IAsyncSteps& asi) { asi.waitExternal(); });
  auto end = flow.promise();
  b.drain();
  CHECK_THROWS_WITH_AS(end.get(), "mine", own_error);
  REQUIRE(last != nullptr);
  CHECK_THROWS_AS(std::rethrow_exception(last), own_error);
}

TEST_CASE_TEMPLATE("rule 28: an error that its branch handles cancels no other branch", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  auto& p = flow.parallel(noting(seen));
  p.add([](IAsyncSteps& asi) { asi.error("Handled"); },
        [&](IAsyncSteps& asi, ErrorCode code) {
          seen.push_back(std::string(code));
          asi.success();
        });
  p.add([&](IAsyncSteps& asi) { asi.add([&](IAsyncSteps&) { seen.push_back("other"); }); });
  flow.execute();
  b.drain();
  CHECK(seen == lines{"Handled", "other"});
}

TEST_CASE_TEMPLATE("rule 28: cancel of the parent calls the branches' cancel handlers, and no error handler", Flow,
                   STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.add(
      [&](IAsyncSteps& asi) {
        asi.setCancel([&](IAsyncSteps&) { seen.push_back("parent"); });
        auto& p = asi.parallel(noting(seen));
        for (int i = 0; i < 2; ++i) {
          p.add([&](IAsyncSteps& branch) { branch.setCancel([&](IAsyncSteps&) { seen.push_back("branch"); }); },
                noting(seen));
        }
      },
      noting(seen));
  flow.execute();
  b.drain();
  flow.cancel();
  CHECK(seen == lines{"branch", "branch", "parent"});
  CHECK(static_cast<bool>(flow));
  b.drain();
  CHECK(seen.size() == 3);
}

TEST_CASE_TEMPLATE("rule 28: break with a label out of nested parallels ends the loop that has it", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.loop(
      [&](IAsyncSteps& asi) {
        asi.loop([&](IAsyncSteps& inner) {
          auto& p = inner.parallel();
          p.add([&](IAsyncSteps& branch) { branch.setCancel([&](IAsyncSteps&) { seen.push_back("cancel"); }); });
          p.add([](IAsyncSteps& branch) { branch.parallel().add([](IAsyncSteps& deep) { deep.breakLoop("out"); }); });
        });
      },
      "out");
  flow.add([&](IAsyncSteps&) { seen.push_back("after"); });
  flow.execute();
  b.drain();
  CHECK(seen == lines{"cancel", "after"});
}

TEST_CASE_TEMPLATE("rule 29: DefenseRejected goes past sync's own handler to the enclosing one", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  steps::Mutex mutex(0, 0);
  Flow flow{b.loop};
  flow.add(
      [&](IAsyncSteps& asi) {
        asi.sync(
            mutex, [&](IAsyncSteps&) { seen.push_back("in"); },
            [&](IAsyncSteps&, ErrorCode) { seen.push_back("own"); });
      },
      [&](IAsyncSteps& asi, ErrorCode code) {
        seen.push_back(std::string(code));
        asi.success();
      });
  flow.execute();
  b.drain();
  CHECK(seen == lines{"DefenseRejected"});
}

TEST_CASE_TEMPLATE("rule 30: every way out of a critical step lets the next one in", Flow, STEPS_FLOWS) {
  for (int how = 0; how < 6; ++how) {
    CAPTURE(how);
    bench b;
    bool inside = false;
    steps::Mutex mutex;
    Flow first{b.loop};
    first.loop([&](IAsyncSteps& loop) {
      loop.sync(mutex, [&, how](IAsyncSteps& asi) {
        if (how == 0) asi.error("E");
        if (how == 1) asi.breakLoop();
        asi.add([&, how](IAsyncSteps& inner) {
          if (how == 2) inner.setTimeout(2ms);
          if (how == 3) inner.errorNoThrow("E");
          if (how == 4) inner.breakLoop();
          if (how == 5) inner.waitExternal();
        });
      });
    });
    Flow second{b.loop};
    second.sync(mutex, [&](IAsyncSteps&) { inside = true; });
    first.execute();
    second.execute();
    b.pass(5ms);
    CHECK(inside == (how != 5));
    first.cancel();
    b.drain();
    CHECK(inside);
    CHECK(static_cast<bool>(second));
  }
}
