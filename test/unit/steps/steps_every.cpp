// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "support/flows.hpp"

// every() on one event loop. Rules 49 and 50 of steps/RULES.md.

using steps::ErrorCode;
using steps::IAsyncSteps;
using steps::MissedTicks;
using steps::Tick;
using testing::bench;
using testing::counted;
using testing::lines;
using testing::noting;
using namespace std::chrono_literals;

namespace {

std::string in_ms(std::chrono::nanoseconds time) { return std::to_string(time / 1ms); }

/// Notes each round: "number@time missed late previous", in milliseconds; ends the loop in round `rounds`. Rounds take
/// the times in `lengths`, and no time when there are no more.
auto noting_rounds(lines& seen, bench& b, std::size_t rounds, std::vector<std::chrono::milliseconds> lengths) {
  return [&seen, &b, rounds, lengths, start = b.clock.now()](IAsyncSteps& asi, const Tick& tick) {
    seen.push_back(std::to_string(tick.number) + "@" + in_ms(b.clock.now() - start) + " " +
                   std::to_string(tick.missed) + " " + in_ms(tick.late) + " " + in_ms(tick.previous));
    if (tick.number == rounds) asi.breakLoop();
    if (tick.number < lengths.size()) {
      b.loop.deferred(lengths[tick.number], [done = asi.completion<>()] { done.success(); });
    }
  };
}

}  // namespace

TEST_CASE_TEMPLATE("rule 49: rounds begin at ticks that are a period apart, the first one at once", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.every(10ms, noting_rounds(seen, b, 3, {0ms, 7ms, 10ms}));
  flow.add([&](IAsyncSteps&) { seen.emplace_back("after"); });
  flow.execute();
  b.drain();
  CHECK(seen == lines{"0@0 0 0 0"});
  b.run(100ms);
  CHECK(seen == lines{"0@0 0 0 0", "1@10 0 0 0", "2@20 0 0 7", "3@30 0 0 10", "after"});
}

TEST_CASE_TEMPLATE("rule 49: ticks do not drift, though timers are late", Flow, STEPS_FLOWS) {
  bench b;
  Flow flow{b.loop};
  std::size_t rounds = 0;
  const auto start = b.clock.now();
  flow.every(1ms, [&](IAsyncSteps& asi, const Tick& tick) {
    CHECK(tick.number == rounds);
    CHECK(tick.missed == 0);
    CHECK(b.clock.now() - start >= rounds * 1ms);
    CHECK(b.clock.now() - start <= rounds * 1ms + 100us);
    if (++rounds == 2'000) asi.breakLoop();
  });
  flow.execute();
  static_cast<void>(b.turns_in(1999ms));
  b.drain();
  CHECK(rounds == 2'000);
}

TEST_CASE_TEMPLATE("rule 49: the first tick may be later", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.every({.period = 10ms, .first = 3ms}, noting_rounds(seen, b, 2, {}));
  flow.execute();
  b.run(50ms);
  CHECK(seen == lines{"0@3 0 0 0", "1@13 0 0 0", "2@23 0 0 0"});
}

TEST_CASE_TEMPLATE("rule 50: ticks that have passed are dropped, delayed or made up for", Flow, STEPS_FLOWS) {
  const auto rounds_with = [](MissedTicks missed) {
    bench b;
    lines seen;
    Flow flow{b.loop};
    flow.every({.period = 10ms, .missed = missed}, noting_rounds(seen, b, 5, {0ms, 25ms, 0ms, 14ms}));
    flow.execute();
    b.run(100ms);
    return seen;
  };
  SUBCASE("skip") {
    CHECK(rounds_with(MissedTicks::skip) ==
          lines{"0@0 0 0 0", "1@10 0 0 0", "2@35 1 15 25", "3@40 0 0 0", "4@54 0 4 14", "5@60 0 0 0"});
  }
  SUBCASE("delay") {
    CHECK(rounds_with(MissedTicks::delay) ==
          lines{"0@0 0 0 0", "1@10 0 0 0", "2@35 1 15 25", "3@45 0 0 0", "4@59 0 4 14", "5@69 0 0 0"});
  }
  SUBCASE("burst") {
    CHECK(rounds_with(MissedTicks::burst) ==
          lines{"0@0 0 0 0", "1@10 0 0 0", "2@35 0 15 25", "3@35 0 5 0", "4@49 0 9 14", "5@50 0 0 0"});
  }
}

TEST_CASE_TEMPLATE("rule 50: a busy loop makes rounds late, too", Flow, STEPS_FLOWS) {
  for (const auto missed : {MissedTicks::skip, MissedTicks::delay, MissedTicks::burst}) {
    bench b;
    lines seen;
    Flow flow{b.loop};
    flow.every({.period = 10ms, .missed = missed}, noting_rounds(seen, b, 3, {}));
    flow.execute();
    b.drain();
    b.clock.advance(35ms);  // as a callback would that takes so long
    b.run(30ms);
    const bool bursts = missed == MissedTicks::burst;
    CHECK(seen[1] == (bursts ? "1@35 0 25 0" : "1@35 2 25 0"));
    CHECK(seen[2] == (bursts ? "2@35 0 15 0" : missed == MissedTicks::skip ? "2@40 0 0 0" : "2@45 0 0 0"));
  }
}

TEST_CASE_TEMPLATE("rule 49: rounds are iterations of a loop", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  counted::alive = 0;
  Flow flow{b.loop};
  int rounds = 0;
  flow.add([](IAsyncSteps& asi) { asi.success(1); });  // which the loop drops
  flow.every(
      10ms,
      [&](IAsyncSteps& asi) {
        CHECK(counted::alive == 0);
        asi.stack<counted>();
        if (++rounds == 1) asi.continueLoop();
        if (rounds == 2) return asi.success(5);
        asi.repeat(3, [&](IAsyncSteps& inner, int i) {
          seen.push_back(std::to_string(rounds) + "." + std::to_string(i));
          if (rounds == 4 && i == 1) inner.breakLoop("outer");
        });
      },
      "outer");
  flow.add([&](IAsyncSteps&) { seen.emplace_back("after"); });
  flow.execute();
  b.run(100ms);
  CHECK(seen == lines{"3.0", "3.1", "3.2", "4.0", "4.1", "after"});
  CHECK(counted::alive == 0);
  CHECK(b.unhandled.empty());
}

TEST_CASE_TEMPLATE("rule 49: an error ends it, and so do a timeout and cancel(), between rounds as well", Flow,
                   STEPS_FLOWS) {
  bench b;
  lines seen;
  counted::alive = 0;
  Flow flow{b.loop};
  SUBCASE("error") {
    flow.add([&](IAsyncSteps& asi) { asi.every(10ms, [](IAsyncSteps& round) { round.error("Enough"); }); },
             noting(seen));
    flow.execute();
    b.run(50ms);
    CHECK(seen == lines{"Enough: "});
  }
  SUBCASE("timeout around") {
    flow.add(
        [&](IAsyncSteps& asi) {
          asi.setTimeout(25ms);
          asi.every(10ms, [&](IAsyncSteps&, const Tick& tick) { seen.push_back(std::to_string(tick.number)); });
        },
        noting(seen));
    flow.execute();
    b.run(50ms);
    CHECK(seen == lines{"0", "1", "2", "Timeout: "});
  }
  SUBCASE("cancel") {
    flow.every(10ms, [&, object = counted()](IAsyncSteps&) { seen.emplace_back("round"); });
    flow.execute();
    b.run(15ms);
    flow.cancel();
    CHECK(counted::alive == 0);
    CHECK_FALSE(b.loop.iterate().have_work);  // no timer is left
    CHECK(seen.size() == 2);
  }
  SUBCASE("the end of the flow") {
    auto other = std::make_unique<Flow>(b.loop);
    other->every(10ms, [&](IAsyncSteps&) { seen.emplace_back("round"); });
    other->execute();
    b.run(15ms);
    other.reset();
    b.run(50ms);
    CHECK(seen.size() == 2);
  }
  CHECK(b.unhandled.empty());
}

TEST_CASE_TEMPLATE("rule 49: success() from outside between two rounds changes nothing", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  IAsyncSteps* last = nullptr;
  const auto note = noting_rounds(seen, b, 3, {0ms, 2ms});
  flow.every(10ms, [&](IAsyncSteps& asi, const Tick& tick) {
    last = &asi;
    note(asi, tick);
  });
  flow.execute();
  b.run(4ms);
  last->success(3);
  b.run(7ms);  // in round 1, which waits: the timer of the wait before must not end it
  b.run(50ms);
  CHECK(seen == lines{"0@0 0 0 0", "1@10 0 0 0", "2@20 0 0 2", "3@30 0 0 0"});
  CHECK(b.unhandled.empty());
}

TEST_CASE_TEMPLATE("rule 50: periods of no time and of all time", Flow, STEPS_FLOWS) {
  bench b;
  Flow flow{b.loop};
  std::size_t rounds = 0;
  bool waits = true;
  flow.every(-1s, [&](IAsyncSteps& asi, const Tick& tick) {
    CHECK(tick.late == 0ns);
    if (++rounds == 1'000) asi.breakLoop();
  });
  flow.every(std::chrono::hours::max(), [&](IAsyncSteps& asi) {
    if (!waits) asi.breakLoop();
    waits = false;
  });
  flow.execute();
  b.drain();
  CHECK(rounds == 1'000);
  CHECK_FALSE(waits);
  b.run(100ms);
  flow.cancel();
  flow.every({.period = 1ns, .first = (std::chrono::nanoseconds::max)()}, [](IAsyncSteps&) {});
  flow.execute();
  b.run(100ms);
  CHECK(b.unhandled.empty());
}
