// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "support/flows.hpp"

// parallel() on one event loop. Rules 25, 26 and 28 of steps/RULES.md.

using steps::ErrorCode;
using steps::IAsyncSteps;
using testing::bench;
using testing::counted;
using testing::lines;

TEST_CASE_TEMPLATE("rule 25: a parallel without branches completes at once", Flow, STEPS_FLOWS) {
  bench b;
  bool after = false;
  Flow flow{b.loop};
  flow.parallel();
  flow.add([&](IAsyncSteps&) { after = true; });
  flow.execute();
  b.drain();
  CHECK(after);
}

TEST_CASE_TEMPLATE("rule 25: each call on what parallel returns is one branch, and state is shared", Flow,
                   STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.state()["base"] = 10;
  flow.add([](IAsyncSteps& asi) { asi.success(7); });
  auto& p = flow.parallel();
  p.add([&](IAsyncSteps& asi) {
    seen.push_back("add " + std::to_string(asi.state<int>("base")));
    asi.state()["left"] = 1;
    asi.success(5);
  });
  p.repeat(2, [&](IAsyncSteps&, std::size_t i) { seen.push_back("repeat " + std::to_string(i)); });
  p.forEach(std::vector<int>{8, 9},
            [&](IAsyncSteps&, std::size_t, int& value) { seen.push_back("forEach " + std::to_string(value)); });
  flow.add([&](IAsyncSteps& asi) { seen.push_back("after " + std::to_string(asi.state<int>("left"))); });
  flow.execute();
  b.drain();
  CHECK(seen == lines{"add 10", "repeat 0", "forEach 8", "repeat 1", "forEach 9", "after 1"});
  CHECK(b.unhandled.empty());
}

TEST_CASE_TEMPLATE("rule 26: branches start in order and take turns step by step", Flow, STEPS_FLOWS) {
  bench b;
  std::vector<int> seen;
  std::string caught;
  Flow flow{b.loop};
  auto& p = flow.parallel([&](IAsyncSteps& asi, ErrorCode code) {
    caught = code;
    asi.success();
  });
  for (int i = 1; i <= 3; ++i) {
    p.add([&seen, i](IAsyncSteps& asi) {
      seen.push_back(i);
      asi.add([&seen, i](IAsyncSteps& inner) {
        seen.push_back(i + 3);
        if (i == 2) inner.error("MyError");
      });
    });
  }
  flow.execute();
  b.drain();
  CHECK(seen == std::vector<int>{1, 2, 3, 4, 5});
  CHECK(caught == "MyError");
}

TEST_CASE_TEMPLATE("rule 28: an error cancels the other branches, then the handler runs once", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  auto& p = flow.parallel([&](IAsyncSteps& asi, ErrorCode code) {
    seen.push_back("handler " + std::string(code) + " " + std::string(asi.state().error_info()));
    asi.success();
  });
  for (int i = 0; i < 3; ++i) {
    p.add([&seen, i](IAsyncSteps& asi) {
      asi.setCancel([&seen, i](IAsyncSteps&) { seen.push_back("cancel " + std::to_string(i)); });
    });
  }
  p.add([&](IAsyncSteps& asi) { asi.error("First", "the info"); });
  p.add([&](IAsyncSteps&) { seen.push_back("too late"); });
  flow.add([&](IAsyncSteps&) { seen.push_back("after"); });
  flow.execute();
  b.drain();
  CHECK(seen == lines{"cancel 0", "cancel 1", "cancel 2", "handler First the info", "after"});
  CHECK(b.unhandled.empty());
}

TEST_CASE_TEMPLATE("rule 28: a branch with a mistake that is cancelled before its first turn destroys its steps", Flow,
                   STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.add([&](IAsyncSteps& asi) {
    auto& branches = asi.parallel(testing::noting_code(seen));
    branches.add([](IAsyncSteps& first) { first.error("First"); });
    auto& inner = branches.parallel();
    inner.add([object = counted()](IAsyncSteps&) {});
    inner.waitExternal();  // a mistake
  });
  flow.execute();
  b.drain();
  CHECK(seen == lines{"First"});
  CHECK(counted::alive == 0);
}

TEST_CASE_TEMPLATE("rule 28: a timeout of the parent cancels the branches", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.add(
      [&](IAsyncSteps& asi) {
        asi.setTimeout(std::chrono::milliseconds(10));
        auto& p = asi.parallel();
        p.add([&](IAsyncSteps& inner) { inner.setCancel([&](IAsyncSteps&) { seen.push_back("cancel"); }); });
        p.add([&](IAsyncSteps& inner) { inner.waitExternal(); });
      },
      [&](IAsyncSteps& asi, ErrorCode code) {
        seen.push_back(std::string(code));
        asi.success();
      });
  flow.execute();
  b.pass(std::chrono::milliseconds(20));
  CHECK(seen == lines{"cancel", "Timeout"});
}

TEST_CASE_TEMPLATE("rule 28: break in a branch reaches the enclosing loop", Flow, STEPS_FLOWS) {
  bench b;
  int rounds = 0;
  bool after = false;
  Flow flow{b.loop};
  flow.loop([&](IAsyncSteps& asi) {
    ++rounds;
    auto& p = asi.parallel();
    p.add([](IAsyncSteps& inner) { inner.waitExternal(); });
    p.add([&](IAsyncSteps& inner) { rounds < 3 ? inner.continueLoop() : inner.breakLoop(); });
  });
  flow.add([&](IAsyncSteps&) { after = true; });
  flow.execute();
  b.drain();
  CHECK(rounds == 3);
  CHECK(after);
}

TEST_CASE_TEMPLATE("rules 17, 28: a step of a branch cancels its root flow", Flow, STEPS_FLOWS) {
  for (int depth = 1; depth <= 3; ++depth) {
    CAPTURE(depth);
    bench b;
    lines seen;
    {
      Flow flow{b.loop};
      const auto guard = [&seen](IAsyncSteps& asi, const std::string& name) {
        asi.template stack<counted>();
        asi.setCancel([&seen, name](IAsyncSteps&) { seen.push_back("cancel " + name); });
      };
      const auto grow = [&](auto& self, IAsyncSteps& asi, int level) -> void {
        guard(asi, std::to_string(level));
        auto& p = asi.parallel();
        p.add([&, level](IAsyncSteps& inner) { guard(inner, "idle " + std::to_string(level)); });
        p.add([&, level](IAsyncSteps& inner) {
          if (level < depth) return self(self, inner, level + 1);
          guard(inner, "caller");
          flow.cancel();
          seen.push_back("returned");
          inner.success();
        });
        p.add([&, level](IAsyncSteps& inner) { guard(inner, "last " + std::to_string(level)); });
      };
      flow.add([&](IAsyncSteps& asi) { grow(grow, asi, 1); },
               [&](IAsyncSteps&, ErrorCode) { seen.push_back("handler"); });
      flow.add([&](IAsyncSteps&) { seen.push_back("after"); });
      flow.execute();
      b.drain();
      CHECK(std::find(seen.begin(), seen.end(), "returned") != seen.end());
      CHECK(std::find(seen.begin(), seen.end(), "cancel caller") != seen.end());
      CHECK(std::find(seen.begin(), seen.end(), "cancel idle 1") != seen.end());
      CHECK(seen.back() == "cancel 1");
      CHECK(std::find(seen.begin(), seen.end(), "handler") == seen.end());
      CHECK(std::find(seen.begin(), seen.end(), "after") == seen.end());
      CHECK(counted::alive == 0);

      bool again = false;
      flow.add([&](IAsyncSteps&) { again = true; });
      flow.execute();
      b.drain();
      CHECK(again);
    }
    CHECK(b.unhandled.empty());
  }
}

TEST_CASE_TEMPLATE("a cancel handler of a branch cancels the root while an error stops the branches", Flow,
                   STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  auto& p = flow.parallel([&](IAsyncSteps&, ErrorCode) { seen.push_back("handler"); });
  for (int i = 0; i < 3; ++i) {
    p.add([&, i](IAsyncSteps& asi) {
      asi.setCancel([&, i](IAsyncSteps&) {
        seen.push_back("cancel " + std::to_string(i));
        flow.cancel();
      });
    });
  }
  p.add([&](IAsyncSteps& asi) { asi.error("First"); });
  flow.add([&](IAsyncSteps&) { seen.push_back("after"); });
  flow.execute();
  b.drain();
  CHECK(seen == lines{"cancel 0", "cancel 1", "cancel 2"});
  CHECK(b.unhandled.empty());
}

TEST_CASE("a step of a branch destroys its root flow") {
  bench b;
  auto flow = std::make_unique<steps::AsyncSteps>(b.loop);
  lines seen;
  auto& p = flow->parallel();
  p.add([&](IAsyncSteps& asi) { asi.setCancel([&](IAsyncSteps&) { seen.push_back("cancel"); }); });
  p.add([&, object = counted()](IAsyncSteps&) {
    flow.reset();
    seen.push_back("returned " + std::to_string(counted::alive));
  });
  flow->execute();
  b.drain();
  CHECK(seen == lines{"cancel", "returned 1"});
  CHECK(counted::alive == 0);
}

TEST_CASE_TEMPLATE("parallels nest, and each branch has its own results", Flow, STEPS_FLOWS) {
  using large = std::array<std::uint64_t, 20>;
  bench b;
  std::vector<std::uint64_t> sums;
  Flow flow{b.loop};
  auto& outer = flow.parallel();
  for (std::uint64_t i = 0; i < 2; ++i) {
    outer.add([&, i](IAsyncSteps& asi) {
      auto& inner = asi.parallel();
      for (std::uint64_t j = 0; j < 3; ++j) {
        inner.add([&, i, j](IAsyncSteps& branch) {
          branch.add([i, j](IAsyncSteps& giver) {
            large values{};
            values.fill(i * 10 + j);
            giver.success(values);
          });
          branch.add([&](IAsyncSteps&, const large& values) { sums.push_back(values[0] + values[19]); });
        });
      }
    });
  }
  flow.execute();
  b.drain();
  CHECK(sums == std::vector<std::uint64_t>{0, 2, 4, 20, 22, 24});
  CHECK(b.unhandled.empty());
}

TEST_CASE_TEMPLATE("a thousand parallels, one after the other, take the memory of one", Flow, STEPS_FLOWS) {
  bench b;
  int ran = 0;
  Flow flow{b.loop};
  flow.repeat(1000, [&](IAsyncSteps& asi, std::size_t) {
    auto& p = asi.parallel();
    for (int i = 0; i < 8; ++i) p.add([&](IAsyncSteps&) { ++ran; });
  });
  flow.execute();
  b.drain();
  CHECK(ran == 8000);
  CHECK(b.unhandled.empty());
}

TEST_CASE_TEMPLATE("what parallel() and race() return is true while branches may be added", Flow, STEPS_FLOWS) {
  for (const bool races : {false, true}) {
    CAPTURE(races);
    bench b;
    Flow flow{b.loop};
    const auto make = [races](IAsyncSteps& asi) { return races ? &asi.race() : &asi.parallel(); };
    IAsyncSteps* const outer = make(flow);
    IAsyncSteps* inner = nullptr;
    CHECK(bool(*outer));
    IAsyncSteps* const nested = &outer->parallel();
    CHECK(bool(*nested));
    nested->add([](IAsyncSteps&) {});
    outer->add([&](IAsyncSteps& asi) {
      CHECK(!*outer);
      inner = make(asi);
      CHECK(bool(*inner));
      inner->add([&](IAsyncSteps& branch) {
        CHECK(!*inner);
        CHECK(bool(branch));
      });
    });
    flow.execute();
    CHECK(!*outer);
    b.drain();
    CHECK(inner != nullptr);
    CHECK(b.unhandled.empty());
  }
}
