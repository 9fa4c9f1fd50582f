// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "support/flows.hpp"

// race() on one event loop. Rules 36 and 37 of steps/RULES.md; see also steps_race_pool.cpp.

using steps::ErrorCode;
using steps::IAsyncSteps;
using testing::bench;
using testing::counted;
using testing::lines;
using testing::noting;
using namespace std::chrono_literals;

namespace {

/// Makes the step wait, and notes its cancel.
void wait_in(IAsyncSteps& asi, lines& seen, const std::string& name) {
  asi.stack<counted>();
  asi.setCancel([&seen, name](IAsyncSteps&) { seen.push_back("cancel " + name); });
}

/// Makes the step succeed with `result` after a while.
void win_after(IAsyncSteps& asi, bench& b, std::chrono::milliseconds time, int result) {
  b.loop.deferred(time, [done = asi.completion<int>(), result] { done.success(result); });
}

/// Makes the step fail after a while.
void fail_after(IAsyncSteps& asi, bench& b, std::chrono::milliseconds time, std::string code) {
  b.loop.deferred(time, [done = asi.completion<>(), code] { done.error(code, "info of " + code); });
}

/// Notes the result that the step gets, and how many objects are left.
auto noting_result(lines& seen) {
  return [&seen](IAsyncSteps&, int n) {
    seen.push_back("got " + std::to_string(n) + ", left " + std::to_string(counted::alive));
  };
}

}  // namespace

TEST_CASE_TEMPLATE("rule 36: a race without branches completes at once", Flow, STEPS_FLOWS) {
  bench b;
  bool after = false;
  Flow flow{b.loop};
  flow.race();
  flow.add([&](IAsyncSteps&) { after = true; });
  flow.execute();
  b.drain();
  CHECK(after);
}

TEST_CASE_TEMPLATE("rule 36: the first branch that succeeds wins, at once or after a wait", Flow, STEPS_FLOWS) {
  for (const bool waits : {false, true}) {
    for (int winner = 0; winner < 3; ++winner) {
      CAPTURE(waits);
      CAPTURE(winner);
      bench b;
      lines seen;
      counted::alive = 0;
      Flow flow{b.loop};
      flow.add([](IAsyncSteps& asi) { asi.success(9); });  // which is no result of the race
      auto& race = flow.race(noting(seen));
      for (int i = 0; i < 3; ++i) {
        race.add([&, waits, winner, i, object = counted()](IAsyncSteps& asi) {
          if (i != winner) return wait_in(asi, seen, std::to_string(i));
          waits ? win_after(asi, b, 5ms, 40 + i) : asi.success(40 + i);
        });
      }
      flow.add(noting_result(seen));
      flow.execute();
      b.pass(4ms);
      CHECK(seen.empty() == waits);
      b.pass(4ms);
      lines expected;  // at once, those behind the winner have not begun
      for (int i = 0; i < (waits ? 3 : winner); ++i) {
        if (i != winner) expected.push_back("cancel " + std::to_string(i));
      }
      expected.push_back("got " + std::to_string(40 + winner) + ", left 0");
      CHECK(seen == expected);
      CHECK(b.unhandled.empty());
    }
  }
}

namespace {

/// Functions whose copy throws.
template <class... A>
struct not_copied {
  not_copied() = default;
  not_copied(const not_copied&) { throw std::runtime_error("not copied"); }
  void operator()(IAsyncSteps&, A...) const {}
};

/// Adds a branch that wins after a while, and before and behind it functions that throw as they are added.
void add_between(IAsyncSteps& race, bench& b) {
  const not_copied<> f;
  CHECK_THROWS_AS(race.add(f), std::runtime_error);
  race.add([&b](IAsyncSteps& asi) { win_after(asi, b, 5ms, 42); });
  CHECK_THROWS_AS(race.loop(f, "label"), std::runtime_error);
  CHECK_THROWS_AS(race.parallel(not_copied<ErrorCode>()), std::runtime_error);
  race.add([](IAsyncSteps& asi) { asi.waitExternal(); });
}

}  // namespace

TEST_CASE_TEMPLATE("rule 36: an add() that throws adds no branch", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  counted::alive = 0;
  Flow flow{b.loop};
  add_between(flow.race(), b);
  flow.add(noting_result(seen));
  flow.add([&](IAsyncSteps& asi) {
    add_between(asi.race(), b);
    asi.add(noting_result(seen));
  });
  flow.add([&](IAsyncSteps& asi) {
    CHECK_THROWS_AS(asi.race().add(not_copied<>()), std::runtime_error);
    asi.add([&](IAsyncSteps&) { seen.push_back("empty"); });
  });
  flow.execute();
  b.pass(20ms);
  CHECK(seen == lines{"got 42, left 0", "got 42, left 0", "empty"});
  CHECK(b.unhandled.empty());
}

TEST_CASE("rule 36: an add() that throws takes no branch from nitro::MaxParallel") {
  bench b;
  lines seen;
  steps::NitroSteps<steps::nitro::MaxSteps<8>, steps::nitro::MaxParallel<2>> flow{b.loop};
  add_between(flow.race(), b);
  flow.add(noting_result(seen));
  flow.execute();
  b.pass(10ms);
  CHECK(seen == lines{"got 42, left 0"});
  CHECK(b.unhandled.empty());
}

TEST_CASE_TEMPLATE("rule 36: one of two branches that succeed at the same time wins", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  counted::alive = 0;
  Flow flow{b.loop};
  auto& race = flow.race();
  for (int i = 0; i < 2; ++i) {
    race.add([&, i](IAsyncSteps& asi) {
      win_after(asi, b, 5ms, i);
      asi.stack<counted>();
    });
  }
  flow.add(noting_result(seen));
  flow.execute();
  b.pass(10ms);
  CHECK(seen == lines{"got 0, left 0"});
}

TEST_CASE_TEMPLATE("rule 36: results of any size and kind are passed on, and none is lost", Flow, STEPS_FLOWS) {
  using large = std::array<std::uint64_t, 20>;
  bench b;
  counted::alive = 0;
  lines seen;
  Flow flow{b.loop};
  const auto lone = [&](auto give, auto take) {
    auto& race = flow.race();
    race.add([](IAsyncSteps& asi) { asi.waitExternal(); });
    race.add(give);
    flow.add(take);
  };
  lone([](IAsyncSteps& asi) { asi.success(std::make_unique<int>(7), counted()); },
       [&](IAsyncSteps&, std::unique_ptr<int> n, const counted&) { seen.push_back(std::to_string(*n)); });
  lone([](IAsyncSteps& asi) { asi.success("a text that is too long for a short string", 3); },
       [&](IAsyncSteps&, std::string text, int n) { seen.push_back(text + std::to_string(n)); });
  lone(
      [](IAsyncSteps& asi) {
        large values{};
        values.fill(11);
        asi.success(values);
      },
      [&](IAsyncSteps&, const large& values) { seen.push_back(std::to_string(values[0] + values[19])); });
  lone([](IAsyncSteps&) {}, [&](IAsyncSteps&) { seen.push_back("none"); });
  flow.execute();
  b.drain();
  CHECK(seen == lines{"7", "a text that is too long for a short string3", "22", "none"});
  CHECK(b.unhandled.empty());
  CHECK(counted::alive == 0);
}

TEST_CASE_TEMPLATE("rule 36: a result that cannot be moved is the error of the race", Flow, STEPS_FLOWS) {
  struct fragile {
    explicit fragile(bool* b) : breaks(b) {}
    fragile(const fragile&) = default;
    fragile(fragile&& other) : breaks(other.breaks) {
      if (*breaks) throw std::runtime_error("Broken");
    }
    bool* breaks;
    counted object;
  };
  bench b;
  lines seen;
  counted::alive = 0;
  bool breaks = false;
  Flow flow{b.loop};
  auto& race = flow.race(noting(seen));
  race.add([&](IAsyncSteps& asi) { asi.setCancel([&](IAsyncSteps&) { breaks = true; }); });
  race.add([&](IAsyncSteps& asi) { asi.success(fragile(&breaks)); });
  flow.add([&](IAsyncSteps&) { seen.push_back("after"); });
  flow.execute();
  b.drain();
  CHECK(seen == lines{"Broken: ", "after"});
  CHECK(counted::alive == 0);
}

TEST_CASE_TEMPLATE("rule 37: errors cancel no other branch; the last one is the step's", Flow, STEPS_FLOWS) {
  for (const bool one_wins : {false, true}) {
    CAPTURE(one_wins);
    bench b;
    lines seen;
    counted::alive = 0;
    Flow flow{b.loop};
    auto& race = flow.race(noting(seen));
    race.add([](IAsyncSteps& asi) { asi.error("Thrown"); });
    race.add([&](IAsyncSteps& asi) { fail_after(asi, b, 9ms, "Last"); });
    race.add([&](IAsyncSteps& asi) { one_wins ? win_after(asi, b, 6ms, 1) : fail_after(asi, b, 6ms, "Early"); });
    race.add([](IAsyncSteps&) { throw std::runtime_error("Exception"); });
    flow.add([&](IAsyncSteps&) { seen.push_back("after"); });
    flow.execute();
    b.pass(5ms);
    CHECK(seen.empty());
    b.pass(5ms);
    CHECK(seen == (one_wins ? lines{"after"} : lines{"Last: info of Last", "after"}));
    CHECK(b.unhandled.empty());
  }
}

TEST_CASE_TEMPLATE("rule 37: without a handler the last error goes outwards, with its exception", Flow, STEPS_FLOWS) {
  bench b;
  Flow flow{b.loop};
  auto& race = flow.race();
  race.add([](IAsyncSteps& asi) { asi.error("First"); });
  race.add([](IAsyncSteps&) { throw std::range_error("Range"); });
  auto end = flow.promise();
  b.drain();
  CHECK_THROWS_AS(end.get(), std::range_error);
}

TEST_CASE_TEMPLATE("rule 37: a break or continue out of a branch ends the race", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  int rounds = 0;
  Flow flow{b.loop};
  flow.loop([&](IAsyncSteps& asi) {
    ++rounds;
    auto& race = asi.race([&](IAsyncSteps&, ErrorCode code) { seen.emplace_back(code); });
    race.add([&](IAsyncSteps& inner) { wait_in(inner, seen, "round " + std::to_string(rounds)); });
    race.add([&](IAsyncSteps& inner) { rounds < 2 ? inner.continueLoop() : inner.breakLoop(); });
    asi.add([&](IAsyncSteps&) { seen.push_back("too far"); });
  });
  flow.add([&](IAsyncSteps&) { seen.push_back("after"); });
  flow.execute();
  b.drain();
  CHECK(seen == lines{"cancel round 1", "LoopCont", "cancel round 2", "LoopBreak", "after"});
}

TEST_CASE_TEMPLATE("rule 37: a timeout and a cancel of the step around cancel all branches", Flow, STEPS_FLOWS) {
  for (const bool cancels : {false, true}) {
    CAPTURE(cancels);
    bench b;
    lines seen;
    counted::alive = 0;
    Flow flow{b.loop};
    flow.add(
        [&](IAsyncSteps& asi) {
          asi.setTimeout(5ms);
          auto& race = asi.race();
          race.add([](IAsyncSteps& inner) { inner.error("Lost"); });
          for (int i = 0; i < 2; ++i) race.add([&, i](IAsyncSteps& inner) { wait_in(inner, seen, std::to_string(i)); });
        },
        noting(seen));
    flow.execute();
    b.pass(4ms);
    if (cancels) flow.cancel();
    b.pass(4ms);
    CHECK(seen == (cancels ? lines{"cancel 0", "cancel 1"} : lines{"cancel 0", "cancel 1", "Timeout: "}));
    CHECK(counted::alive == 0);
  }
}

TEST_CASE_TEMPLATE("rule 36: races nest in races and in parallels", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  counted::alive = 0;
  Flow flow{b.loop};
  auto& all = flow.parallel();
  for (int i = 0; i < 2; ++i) {
    all.add([&, i](IAsyncSteps& asi) {
      auto& outer = asi.race();
      outer.add([&, i](IAsyncSteps& branch) {
        auto& inner = branch.race();
        inner.add([&, i](IAsyncSteps& deep) { win_after(deep, b, 5ms * (i + 1), 10 + i); });
        inner.add([&, i](IAsyncSteps& deep) { wait_in(deep, seen, "inner " + std::to_string(i)); });
      });
      outer.add([&, i](IAsyncSteps& branch) {
        branch.parallel().add([&, i](IAsyncSteps& deep) { wait_in(deep, seen, "outer " + std::to_string(i)); });
      });
      asi.add(noting_result(seen));
    });
  }
  flow.execute();
  b.pass(20ms);
  CHECK(seen == lines{"cancel inner 0", "cancel outer 0", "got 10, left 2", "cancel inner 1", "cancel outer 1",
                      "got 11, left 0"});
}

TEST_CASE_TEMPLATE("a cancel handler of a loser, or the destructor of a result, cancels the flow", Flow, STEPS_FLOWS) {
  struct at_end {
    Flow* flow;
    explicit at_end(Flow* f) : flow(f) {}
    at_end(at_end&& other) noexcept : flow(std::exchange(other.flow, nullptr)) {}
    ~at_end() {
      if (flow != nullptr) flow->cancel();
    }
  };
  for (const bool by_handler : {false, true}) {
    CAPTURE(by_handler);
    bench b;
    lines seen;
    counted::alive = 0;
    Flow flow{b.loop};
    auto& race = flow.race(noting(seen));
    race.add([&, by_handler](IAsyncSteps& asi) {
      wait_in(asi, seen, "0");
      asi.setCancel([&, by_handler](IAsyncSteps&) {
        seen.push_back("cancel");
        if (by_handler) flow.cancel();
      });
    });
    race.add([&](IAsyncSteps& asi) { wait_in(asi, seen, "1"); });
    race.add([&](IAsyncSteps& asi) { asi.success(at_end(&flow)); });
    flow.add([&](IAsyncSteps&) { seen.push_back("went on"); });
    flow.execute();
    b.drain();
    CHECK(seen == lines{"cancel", "cancel 1"});
    CHECK(counted::alive == 0);
    CHECK(static_cast<bool>(flow));
  }
}

TEST_CASE_TEMPLATE("a loser leaves the queue of a mutex, or the mutex", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  counted::alive = 0;
  steps::Mutex mutex;
  Flow flow{b.loop};
  auto& race = flow.race();
  race.sync(mutex, [&](IAsyncSteps& asi) { wait_in(asi, seen, "inside"); });
  race.sync(mutex, [&](IAsyncSteps&) { seen.push_back("let in"); });
  race.add([&](IAsyncSteps& asi) { win_after(asi, b, 5ms, 1); });
  flow.add(noting_result(seen));
  flow.sync(mutex, [&](IAsyncSteps&) { seen.push_back("free"); });
  flow.execute();
  b.pass(10ms);
  CHECK(seen == lines{"cancel inside", "got 1, left 0", "free"});
}

TEST_CASE_TEMPLATE("rule 5: success() of a race is a mistake", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  IAsyncSteps* late = nullptr;
  flow.add([&](IAsyncSteps& asi) {
    late = &asi.race(noting(seen));
    late->add([](IAsyncSteps& inner) { inner.waitExternal(); });
  });
  flow.execute();
  b.drain();
  late->success();
  b.drain();
  CHECK(seen == lines{"InternalError: success() of a parallel() or race() step"});
}

TEST_CASE_TEMPLATE("a thousand races, one after the other, take the memory of one", Flow, STEPS_FLOWS) {
  bench b;
  int won = 0;
  Flow flow{b.loop};
  flow.repeat(1000, [&](IAsyncSteps& asi, std::size_t) {
    auto& race = asi.race();
    for (int i = 0; i < 8; ++i) {
      race.add([i](IAsyncSteps& branch) {
        i == 5 ? branch.success(i) : i < 3 ? branch.errorNoThrow("E") : branch.waitExternal();
      });
    }
    asi.add([&](IAsyncSteps&, int n) { won += n; });
  });
  flow.execute();
  b.drain();
  CHECK(won == 5000);
  CHECK(b.unhandled.empty());
}

TEST_CASE("a cancel handler of a loser destroys the flow of the race") {
  bench b;
  lines seen;
  counted::alive = 0;
  auto flow = std::make_unique<steps::AsyncSteps>(b.loop);
  auto& race = flow->race();
  race.add([&](IAsyncSteps& asi) {
    asi.setCancel([&](IAsyncSteps&) {
      flow.reset();
      seen.push_back("destroyed");
    });
  });
  race.add([&](IAsyncSteps& asi) { wait_in(asi, seen, "other"); });
  race.add([object = counted()](IAsyncSteps& asi) { asi.success(counted()); });
  flow->execute();
  b.drain();
  CHECK(seen == lines{"cancel other", "destroyed"});
  CHECK(counted::alive == 0);
}
