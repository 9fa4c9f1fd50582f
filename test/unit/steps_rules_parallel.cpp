// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <chrono>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/flows.hpp"

// parallel, sync and await on one event loop, rule by rule: 25, 26, 28, 29, 30, 34. More of them: steps_parallel.cpp
// and steps_sync.cpp.

using steps::ErrorCode;
using steps::IAsyncSteps;
using testing::bench;
using testing::counted;
using testing::lines;
using namespace std::chrono_literals;

namespace {

auto noting(lines& seen) {
  return [&seen](IAsyncSteps& asi, ErrorCode code) {
    seen.push_back(std::string(code) + ": " + std::string(asi.state().error_info()));
    asi.success();
  };
}

}  // namespace

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

TEST_CASE_TEMPLATE("rule 28: an error that its branch handles cancels nobody", Flow, STEPS_FLOWS) {
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

TEST_CASE_TEMPLATE("rule 34: await looks at once, hands on the value, and raises the exception", Flow, STEPS_FLOWS) {
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

TEST_CASE_TEMPLATE("rule 34: while it waits it looks seldom, and notices soon", Flow, STEPS_FLOWS) {
  bench b;
  std::promise<int> promise;
  int got = 0;
  Flow flow{b.loop};
  flow.await(promise.get_future());
  flow.add([&](IAsyncSteps&, int n) { got = n; });
  flow.execute();
  const auto end = b.clock.now() + 1s;
  int turns = 0;
  while (b.clock.now() < end) {
    const auto next = b.loop.iterate();
    REQUIRE(next.have_work);
    b.clock.advance(next.delay);
    ++turns;
  }
  CHECK(turns < 250);
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
    CHECK(value.use_count() == 1);  // nobody holds the shared state any more
  }
}
