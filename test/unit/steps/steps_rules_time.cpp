// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <initializer_list>
#include <memory>
#include <ratio>
#include <stdexcept>
#include <string>

#include "support/flows.hpp"

// Time, cancel and the ends of waits. Rules 16, 17 and 19 to 21 of steps/RULES.md. Across threads:
// steps_rules_threads.cpp.

using steps::ErrorCode;
using steps::IAsyncSteps;
using testing::bench;
using testing::lines;
using testing::noting_code;
using namespace std::chrono_literals;

namespace {

template <class Future>
bool is_ready(const Future& f) {
  return f.wait_for(0s) == std::future_status::ready;
}

}  // namespace

TEST_CASE_TEMPLATE("rule 16: a timeout fires when due, not earlier, for any duration from zero on", Flow, STEPS_FLOWS) {
  for (const std::chrono::nanoseconds limit : {0ns, 1ns, std::chrono::nanoseconds(50us), std::chrono::nanoseconds(7ms),
                                               std::chrono::nanoseconds(99ms), std::chrono::nanoseconds(2s)}) {
    CAPTURE(limit.count());
    bench b;
    lines seen;
    Flow flow{b.loop};
    flow.add([&](IAsyncSteps& asi) { asi.setTimeout(limit); }, noting_code(seen));
    flow.execute();
    b.loop.iterate();
    if (limit >= 2ms) {
      b.pass(std::chrono::duration_cast<std::chrono::milliseconds>(limit) - 1ms);
      CHECK(seen.empty());
    }
    b.pass(4ms);
    CHECK(seen == lines{"Timeout"});
  }
}

TEST_CASE_TEMPLATE("rule 16: it is raised at the innermost active step; inner handlers see it first", Flow,
                   STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.add(
      [&](IAsyncSteps& asi) {
        asi.setTimeout(5ms);
        asi.setCancel([&](IAsyncSteps&) { seen.push_back("outer cancel"); });
        asi.add(
            [&](IAsyncSteps& middle) {
              middle.add([&](IAsyncSteps& inner) { inner.setCancel([&](IAsyncSteps&) { seen.push_back("cancel"); }); },
                         [&](IAsyncSteps&, ErrorCode code) { seen.push_back("inner " + std::string(code)); });
            },
            [&](IAsyncSteps&, ErrorCode code) { seen.push_back("middle " + std::string(code)); });
      },
      [&](IAsyncSteps& asi, ErrorCode code) {
        seen.push_back("outer " + std::string(code));
        asi.success();
      });
  flow.execute();
  b.pass(10ms);
  CHECK(seen == lines{"cancel", "inner Timeout", "middle Timeout", "outer cancel", "outer Timeout"});
  CHECK(static_cast<bool>(flow));
}

TEST_CASE_TEMPLATE("rule 16: an inner handler recovers from an outer timeout, which does not fire again", Flow,
                   STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.add([&](IAsyncSteps& asi) {
    asi.setTimeout(5ms);
    asi.add([](IAsyncSteps& inner) { inner.waitExternal(); }, noting_code(seen));
    asi.add([&](IAsyncSteps& inner) {
      seen.push_back("next");
      inner.waitExternal();
    });
  });
  flow.execute();
  b.pass(100ms);
  CHECK(seen == lines{"Timeout", "next"});
  CHECK(!flow);
}

TEST_CASE_TEMPLATE("rule 16: a step that has succeeded when its limit comes in the same turn passes its results on",
                   Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.add(
      [&](IAsyncSteps& asi) {
        asi.setTimeout(6ms);
        b.loop.deferred(3ms, [&asi] { asi.success(1); });
      },
      noting_code(seen));
  flow.add([&](IAsyncSteps&, int n) { seen.push_back(std::to_string(n)); });
  flow.execute();
  b.loop.iterate();
  b.clock.advance(50ms);
  b.drain();
  CHECK(seen == lines{"1"});
}

TEST_CASE_TEMPLATE("rule 16: when two limits come in the same turn, the outer one ends what handles the inner one",
                   Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.add(
      [&](IAsyncSteps& outer) {
        outer.setTimeout(5ms);
        outer.add([](IAsyncSteps& inner) { inner.setTimeout(3ms); },
                  [&](IAsyncSteps& handler, ErrorCode code) {
                    seen.push_back("inner " + std::string(code));
                    handler.add([](IAsyncSteps& wait) { wait.waitExternal(); });
                  });
      },
      noting_code(seen));
  flow.execute();
  b.drain();
  b.clock.advance(10ms);
  b.pass(5ms);
  CHECK(seen == lines{"inner Timeout", "Timeout"});
}

TEST_CASE_TEMPLATE("rule 16: the later call in a step replaces the earlier", Flow, STEPS_FLOWS) {
  for (const bool shortens : {true, false}) {
    bench b;
    lines seen;
    Flow flow{b.loop};
    flow.add(
        [&](IAsyncSteps& asi) {
          asi.setTimeout(shortens ? 50ms : 5ms);
          asi.setTimeout(shortens ? 5ms : 50ms);
        },
        noting_code(seen));
    flow.add([](IAsyncSteps& asi) { asi.waitExternal(); });
    flow.execute();
    b.pass(20ms);
    CHECK(seen.size() == (shortens ? 1 : 0));
    b.pass(200ms);
    CHECK(seen == lines{"Timeout"});  // once
    CHECK(b.unhandled.empty());
  }
}

TEST_CASE_TEMPLATE("rule 16: a deadline fires when it has come, not earlier, for any moment", Flow, STEPS_FLOWS) {
  using moment = async::manual_clock::time_point;
  for (const moment start : {moment(-1h), moment(), moment(1h)}) {
    for (const auto ahead : std::initializer_list<std::chrono::nanoseconds>{-90min, -1ns, 0ns, 1ns, 7ms, 2s}) {
      CAPTURE(ahead.count());
      async::manual_clock clock(start - 1us);
      async::event_loop loop(clock);
      clock.advance(1us);  // between two ticks of the loop's timers
      Flow flow{loop};
      lines seen;
      flow.add([&](IAsyncSteps& asi) { asi.setDeadline(start + ahead); }, noting_code(seen));
      flow.execute();
      loop.iterate();
      clock.advance_to(start + ahead - 1ns);
      loop.iterate();
      CHECK(seen.empty() == (ahead > 0ns));
      clock.advance_to(start + ahead + 66us);  // a tick
      for (int i = 0; i < 2; ++i) loop.iterate();
      CHECK(seen == lines{"Timeout"});
    }
  }
}

TEST_CASE_TEMPLATE("rule 16: the first and the last moment there are, and moments of unusual units", Flow,
                   STEPS_FLOWS) {
  using std::chrono::steady_clock;
  using far_moment = std::chrono::time_point<steady_clock, std::chrono::duration<double, std::ratio<3600>>>;
  bench b;
  lines seen;
  Flow flow{b.loop};
  SUBCASE("passed") {
    flow.add([](IAsyncSteps& asi) { asi.setDeadline((steady_clock::time_point::min)()); }, noting_code(seen));
    flow.add([](IAsyncSteps& asi) { asi.setDeadline(far_moment(-1e30h)); }, noting_code(seen));
    flow.add([&](IAsyncSteps& asi) { asi.setDeadline(b.loop.now() + 1.5ms); }, noting_code(seen));
    flow.execute();
    b.pass(5ms);
    CHECK(seen == lines{"Timeout", "Timeout", "Timeout"});
  }
  SUBCASE("never") {
    flow.add([](IAsyncSteps& asi) { asi.setDeadline((steady_clock::time_point::max)()); }, noting_code(seen));
    SUBCASE("as given") {}
    SUBCASE("in a unit that has more") {
      flow.cancel();
      flow.add([](IAsyncSteps& asi) { asi.setDeadline(far_moment(1e30h)); }, noting_code(seen));
    }
    flow.execute();
    b.pass(5ms);
    b.clock.advance(24h * 365 * 100);
    b.drain();
    CHECK(seen.empty());
    flow.cancel();
  }
}

TEST_CASE_TEMPLATE("rule 16: neither a slow turn nor a late begin moves a deadline", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  const auto end = b.loop.now() + 20ms;
  Flow flow{b.loop};
  for (const bool is_late : {false, true}) {
    flow.add(
        [&, is_late](IAsyncSteps& asi) {
          CHECK(b.loop.now() >= end - (is_late ? 0ms : 20ms));
          asi.setDeadline(end);
          b.clock.advance(5ms);  // the function takes long
        },
        noting_code(seen));
  }
  flow.execute();
  b.drain();
  CHECK(seen.empty());
  b.clock.advance_to(end - 1ms);
  b.drain();
  CHECK(seen.empty());
  b.clock.advance_to(end + 66us);
  b.drain();
  CHECK(seen == lines{"Timeout", "Timeout"});  // the second one has no time left
}

TEST_CASE_TEMPLATE("rule 16: setTimeout() and setDeadline() of a step replace each other", Flow, STEPS_FLOWS) {
  for (const bool is_deadline_first : {true, false}) {
    for (const bool shortens : {true, false}) {
      bench b;
      lines seen;
      Flow flow{b.loop};
      const std::chrono::milliseconds first = shortens ? 50ms : 5ms, last = shortens ? 5ms : 50ms;
      flow.add(
          [&](IAsyncSteps& asi) {
            if (!is_deadline_first) asi.setTimeout(first);
            asi.setDeadline(b.loop.now() + (is_deadline_first ? first : last));
            if (is_deadline_first) asi.setTimeout(last);
          },
          noting_code(seen));
      flow.add([](IAsyncSteps& asi) { asi.waitExternal(); });
      flow.execute();
      b.pass(20ms);
      CHECK(seen.size() == (shortens ? 1 : 0));
      b.pass(200ms);
      CHECK(seen == lines{"Timeout"});  // once
    }
  }
}

TEST_CASE_TEMPLATE("rule 16: a deadline is raised at the innermost active step; one that is met does nothing", Flow,
                   STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.add([&](IAsyncSteps& asi) {
    asi.setDeadline(b.loop.now());  // no timer fires within a turn
    asi.add([](IAsyncSteps&) {});
  });
  flow.add(
      [&](IAsyncSteps& asi) {
        asi.setDeadline(b.loop.now() + 5ms);
        asi.add([](IAsyncSteps& inner) { inner.setTimeout(1h); },
                [&](IAsyncSteps&, ErrorCode code) { seen.push_back("inner " + std::string(code)); });
      },
      noting_code(seen));
  flow.execute();
  b.pass(10ms);
  CHECK(seen == lines{"inner Timeout", "Timeout"});
  CHECK(static_cast<bool>(flow));
  CHECK(!b.loop.iterate().have_work);  // no timer is left
}

TEST_CASE("rule 16: a deadline on a pool, in branches too") {
  async::threadpool pool(2);
  steps::AsyncSteps flow(pool);
  const auto end = std::chrono::steady_clock::now() + 20ms;
  std::atomic<int> timeouts{0};
  flow.add([&](IAsyncSteps& asi) {
    auto& branches = asi.parallel();
    for (int i = 0; i < 3; ++i) {
      branches.add([end](IAsyncSteps& branch) { branch.setDeadline(end); },
                   [&](IAsyncSteps& branch, ErrorCode code) {
                     CHECK(code == steps::errors::Timeout);
                     CHECK(branch.tool().now() >= end);
                     ++timeouts;
                     branch.success();
                   });
    }
  });
  flow.promise().get();
  CHECK(timeouts == 3);
}

TEST_CASE_TEMPLATE("rule 16: a timeout ends a loop, around it and in its body", Flow, STEPS_FLOWS) {
  for (const bool around : {true, false}) {
    bench b;
    lines seen;
    int rounds = 0;
    Flow flow{b.loop};
    flow.add(
        [&](IAsyncSteps& asi) {
          if (around) asi.setTimeout(20ms);
          asi.loop([&](IAsyncSteps& body) {
            ++rounds;
            if (!around && rounds == 3) return body.setTimeout(1ms);
            b.loop.deferred(5ms, [done = body.completion<>()] { done.success(); });
          });
        },
        noting_code(seen));
    flow.execute();
    b.pass(40ms);
    CHECK(seen == lines{"Timeout"});
    CHECK(rounds >= 3);
    CHECK(rounds <= 4);
    CHECK(static_cast<bool>(flow));
  }
}

TEST_CASE_TEMPLATE("rule 17: cancel() calls cancel handlers only, innermost first, and the flow is idle", Flow,
                   STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  const auto never = [&](IAsyncSteps&, ErrorCode) { seen.push_back("handler"); };
  flow.add(
      [&](IAsyncSteps& asi) {
        asi.setTimeout(5ms);
        asi.setCancel([&](IAsyncSteps&) { seen.push_back("1"); });
        asi.loop([&](IAsyncSteps& body) {
          body.setCancel([&](IAsyncSteps&) { seen.push_back("2"); });
          body.add(
              [&](IAsyncSteps& inner) {
                inner.setTimeout(3ms);
                inner.setCancel([&](IAsyncSteps&) { seen.push_back("3"); });
              },
              never);
        });
      },
      never);
  flow.add([&](IAsyncSteps&) { seen.push_back("next"); });
  flow.execute();
  b.drain();
  flow.cancel();
  CHECK(seen == lines{"3", "2", "1"});
  CHECK(static_cast<bool>(flow));
  CHECK(!b.loop.iterate().have_work);  // no timer is left
  b.pass(10ms);
  CHECK(seen.size() == 3);
  flow.cancel();  // does nothing: the flow is idle
  CHECK(b.unhandled.empty());
}

TEST_CASE_TEMPLATE("rule 17: cancel() of a flow that is queued, and has not run yet", Flow, STEPS_FLOWS) {
  bench b;
  bool ran = false;
  Flow flow{b.loop};
  flow.add([&](IAsyncSteps&) { ran = true; });
  flow.execute();
  flow.cancel();
  CHECK(static_cast<bool>(flow));
  b.drain();
  CHECK(!ran);
  flow.add([&](IAsyncSteps&) { ran = true; });
  flow.execute();
  b.drain();
  CHECK(ran);
}

TEST_CASE_TEMPLATE("rule 17: destroying a flow that runs cancels it", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  {
    Flow flow{b.loop};
    flow.add([&](IAsyncSteps& asi) {
      asi.setCancel([&](IAsyncSteps&) { seen.push_back("outer"); });
      asi.add([&](IAsyncSteps& inner) { inner.setCancel([&](IAsyncSteps&) { seen.push_back("inner"); }); });
    });
    flow.execute();
    b.drain();
    CHECK(seen.empty());
  }
  CHECK(seen == lines{"inner", "outer"});
}

TEST_CASE_TEMPLATE("rule 19: the promise gives the value, and the error as a handler has re-coded it", Flow,
                   STEPS_FLOWS) {
  bench b;
  Flow flow{b.loop};
  flow.add([](IAsyncSteps& asi) { asi.success(std::string("value"), 1); });
  auto value = flow.template promise<std::string>();
  b.drain();
  CHECK(value.get() == "value");

  flow.add([](IAsyncSteps&) { throw std::runtime_error("first"); },
           [](IAsyncSteps& asi, ErrorCode) { asi.error("Second", "the info"); });
  auto failed = flow.promise();
  b.drain();
  try {
    failed.get();
    FAIL("no error");
  } catch (const steps::Error& e) {
    CHECK(e.code() == "Second");
    CHECK(e.error_info() == "the info");
  }

  flow.add([](IAsyncSteps&) { throw std::out_of_range("kept"); }, [](IAsyncSteps&, ErrorCode) {});
  auto kept = flow.promise();
  b.drain();
  CHECK_THROWS_AS(kept.get(), std::out_of_range);

  flow.add([](IAsyncSteps& asi) { asi.success(1); });
  auto wrong = flow.template promise<std::string>();
  b.drain();
  CHECK_THROWS_WITH_AS(wrong.get(), "InternalError", steps::Error);
  CHECK(b.unhandled.empty());
}

TEST_CASE_TEMPLATE("rule 19: after cancel() or destruction the future is ready at once: broken_promise", Flow,
                   STEPS_FLOWS) {
  for (const bool destroys : {false, true}) {
    bench b;
    auto flow = std::make_unique<Flow>(b.loop);
    flow->add([](IAsyncSteps& asi) { asi.waitExternal(); });
    auto result = flow->promise();
    b.drain();
    CHECK(!is_ready(result));
    if (destroys) {
      flow.reset();
    } else {
      flow->cancel();
    }
    REQUIRE(is_ready(result));
    try {
      result.get();
      FAIL("no error");
    } catch (const std::future_error& e) {
      CHECK(e.code() == std::future_errc::broken_promise);
    }
  }
}

TEST_CASE_TEMPLATE("rule 20: the first of several ends of a wait wins, the others return false", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  steps::completion<int, std::string> token;
  CHECK(!token.success(0, "no wait"));
  flow.add([&](IAsyncSteps& asi) { token = asi.completion<int, std::string>(); });
  flow.add(
      [&](IAsyncSteps& asi, int n, std::string&& s) {
        seen.push_back(s + std::to_string(n));
        token = {};
        asi.setTimeout(1ms);
        token = asi.completion<int, std::string>();
      },
      noting_code(seen));
  flow.add(
      [&](IAsyncSteps& asi) {
        CHECK(!token.success(1, "late"));
        token = asi.completion<int, std::string>();
      },
      noting_code(seen));
  flow.execute();
  b.drain();
  const auto copy = token;
  CHECK(static_cast<bool>(copy));
  CHECK(copy.success(7, "seven"));
  CHECK(!token.success(8, "eight"));
  CHECK(!token.error("late"));
  CHECK(!copy);
  b.pass(5ms);
  CHECK(seen == lines{"seven7", "Timeout"});
  CHECK(token.error("Mine"));
  b.drain();
  CHECK(seen == lines{"seven7", "Timeout", "Mine"});
  CHECK(!token.success(9, "after the end"));
}

TEST_CASE_TEMPLATE("rule 20: a token outlives cancel, flow and loop", Flow, STEPS_FLOWS) {
  steps::completion<std::string> token;
  {
    bench b;
    Flow flow{b.loop};
    const auto wait = [&](IAsyncSteps& asi) { token = asi.completion<std::string>(); };
    flow.add(wait);
    flow.execute();
    b.drain();
    flow.cancel();
    CHECK(!token.success("late"));
    flow.add(wait);
    flow.execute();
    b.drain();
    CHECK(static_cast<bool>(token));
  }
  CHECK(!token.success("too late"));
  CHECK(!token.error("TooLate"));
}

TEST_CASE_TEMPLATE("rule 20: a token may be used inside the step that has made it", Flow, STEPS_FLOWS) {
  bench b;
  int got = 0;
  Flow flow{b.loop};
  flow.add([](IAsyncSteps& asi) { CHECK(asi.completion<int>().success(3)); });
  flow.add([&](IAsyncSteps&, int n) { got = n; });
  flow.execute();
  b.drain();
  CHECK(got == 3);
}

TEST_CASE_TEMPLATE("rule 20: a success() that throws leaves the wait to later calls", Flow, STEPS_FLOWS) {
  struct positive {
    int n;
    explicit positive(int i) : n(i) {
      if (i <= 0) throw std::invalid_argument("not positive");
    }
  };
  bench b;
  int got = 0;
  Flow flow{b.loop};
  flow.add([&](IAsyncSteps& asi) {
    b.loop.immediate([done = asi.completion<positive>()] {
      CHECK_THROWS_AS(done.success(-1), std::invalid_argument);
      CHECK(static_cast<bool>(done));
      CHECK(done.success(2));
    });
  });
  flow.add([&](IAsyncSteps&, positive p) { got = p.n; });
  flow.execute();
  b.drain();
  CHECK(got == 2);
}

TEST_CASE_TEMPLATE("rule 21: success() and error() on a waiting step work directly on the loop's thread", Flow,
                   STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  IAsyncSteps* waiting = nullptr;
  const auto wait = [&](IAsyncSteps& asi) {
    waiting = &asi;
    asi.waitExternal();
  };
  flow.add(wait);
  flow.add(
      [&](IAsyncSteps& asi, int n, const std::string& s) {
        seen.push_back(s + std::to_string(n));
        wait(asi);
      },
      noting_code(seen));
  flow.execute();
  b.drain();
  waiting->success(4, "four");
  b.drain();
  waiting->errorNoThrow("Mine");
  b.drain();
  CHECK(seen == lines{"four4", "Mine"});
  CHECK(static_cast<bool>(flow));
}

TEST_CASE_TEMPLATE("rule 21: they are ignored while the step does not wait itself", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  IAsyncSteps* outer = nullptr;
  IAsyncSteps* inner = nullptr;
  flow.add(
      [&](IAsyncSteps& asi) {
        outer = &asi;
        asi.add([&](IAsyncSteps& sub) {
          inner = &sub;
          sub.waitExternal();
        });
      },
      noting_code(seen));
  flow.add([&](IAsyncSteps&, int n) { seen.push_back(std::to_string(n)); });
  flow.execute();
  b.drain();
  outer->success(1);
  outer->errorNoThrow("No");
  b.drain();
  CHECK(seen.empty());
  inner->success(2);
  inner->success(3);  // it has been ended
  b.drain();
  CHECK(seen == lines{"2"});
  CHECK(b.unhandled.empty());
}
