// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/flows.hpp"

// retry() on one event loop. Rules 47 and 48 of steps/RULES.md; see also steps_retry_pool.cpp.

using steps::ErrorCode;
using steps::IAsyncSteps;
using steps::Retry;
using testing::bench;
using testing::counted;
using testing::lines;
using testing::noting;
using namespace std::chrono_literals;

namespace {

/// Pauses of 10, 20, 40 ms …, without chance.
constexpr Retry exact(std::size_t attempts) { return {.attempts = attempts, .delay = 10ms, .jitter = 0}; }

/// Milliseconds of virtual time since the bench was made.
struct stopwatch {
  explicit stopwatch(bench& b) : of(b), start(b.clock.now()) {}
  std::string operator()() const { return std::to_string((of.clock.now() - start) / 1ms); }
  bench& of;
  async::manual_clock::time_point start;
};

/// Fails the first `failures` attempts, noting each with its time.
auto failing(lines& seen, const stopwatch& time, std::size_t failures) {
  return [&seen, time, failures](IAsyncSteps& asi, std::size_t attempt) {
    seen.push_back("attempt " + std::to_string(attempt) + " at " + time());
    if (attempt < failures) asi.error("Busy", "number " + std::to_string(attempt));
    asi.success(std::string("done"));
  };
}

}  // namespace

TEST_CASE_TEMPLATE("rule 47: attempts are made until one succeeds, and its results go to the next step", Flow,
                   STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.add([](IAsyncSteps& asi) { asi.success(9); });  // which attempts do not get
  flow.retry(exact(4), failing(seen, stopwatch(b), 2));
  flow.add([&](IAsyncSteps& asi, const std::string& text) {
    seen.push_back(text + asi.state().error_info().str());
    CHECK(asi.state().last_exception() != nullptr);
  });
  flow.execute();
  b.run(100ms);
  CHECK(seen == lines{"attempt 0 at 0", "attempt 1 at 10", "attempt 2 at 30", "done"});
  CHECK(b.unhandled.empty());
}

TEST_CASE_TEMPLATE("rule 48: the last error goes on with its info and exception", Flow, STEPS_FLOWS) {
  for (const bool has_handler : {false, true}) {
    bench b;
    lines seen;
    Flow flow{b.loop};
    const auto note = [&](IAsyncSteps& asi, ErrorCode code) {
      seen.push_back(std::string(code) + ": " + asi.state().error_info().str());
      CHECK_THROWS_WITH(std::rethrow_exception(asi.state().last_exception()), "Busy");
      asi.success(7);
    };
    if (has_handler) {
      flow.retry(exact(3), failing(seen, stopwatch(b), 99), note);
    } else {
      flow.add([&](IAsyncSteps& asi) { asi.retry(exact(3), failing(seen, stopwatch(b), 99)); }, note);
    }
    flow.add([&](IAsyncSteps&, int n) { seen.push_back(std::to_string(n)); });
    flow.execute();
    b.run(100ms);
    CHECK(seen == lines{"attempt 0 at 0", "attempt 1 at 10", "attempt 2 at 30", "Busy: number 2", "7"});
    CHECK(b.unhandled.empty());
  }
}

TEST_CASE_TEMPLATE("rule 48: the handler may add steps, whose errors are not retried", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.add(
      [&](IAsyncSteps& asi) {
        asi.retry(exact(2), failing(seen, stopwatch(b), 99), [&](IAsyncSteps& failed, ErrorCode code) {
          seen.emplace_back(code);
          failed.add([](IAsyncSteps& step) { step.error("Worse"); });
        });
      },
      noting(seen));
  flow.execute();
  b.run(100ms);
  CHECK(seen == lines{"attempt 0 at 0", "attempt 1 at 10", "Busy", "Worse: "});
}

TEST_CASE_TEMPLATE("rule 47: all that belongs to an attempt has ended before the pause", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  counted::alive = 0;
  Flow flow{b.loop};
  flow.retry(exact(2), [&](IAsyncSteps& asi, int attempt) {
    asi.stack<counted>();
    asi.onEnd([&, attempt] { seen.push_back("end " + std::to_string(attempt)); });
    asi.setCancel([&] { seen.emplace_back("cancel"); });
    asi.setTimeout(50ms);
    asi.add([attempt](IAsyncSteps& inner) {
      inner.stack<counted>();
      if (attempt == 0) inner.error("Busy");
    });
    asi.add([&, attempt](IAsyncSteps&) { seen.push_back("second " + std::to_string(attempt)); });
  });
  flow.execute();
  b.drain();
  CHECK(seen == lines{"cancel", "end 0"});
  CHECK(counted::alive == 0);
  b.run(100ms);
  CHECK(seen == lines{"cancel", "end 0", "second 1", "end 1"});
  CHECK(b.unhandled.empty());
}

TEST_CASE_TEMPLATE("rule 47: pauses grow by the factor up to the longest, and lose a random part", Flow, STEPS_FLOWS) {
  bench b;
  const stopwatch time(b);
  std::vector<std::chrono::nanoseconds> pauses;
  auto last = b.clock.now();
  const auto note_pause = [&](IAsyncSteps& asi, std::size_t attempt) {
    if (attempt != 0) pauses.push_back(b.clock.now() - last);
    last = b.clock.now();
    asi.error("Busy");
  };
  constexpr auto tick = 66us;  // of a loop's timers
  SUBCASE("without jitter") {
    Flow flow{b.loop};
    flow.retry({.attempts = 6, .delay = 10ms, .factor = 3, .max_delay = 100ms, .jitter = 0}, note_pause);
    flow.execute();
    b.run(1min);
    REQUIRE(pauses.size() == 5);
    const std::chrono::nanoseconds expected[] = {10ms, 30ms, 90ms, 100ms, 100ms};
    for (std::size_t i = 0; i < 5; ++i) {
      CHECK(pauses[i] >= expected[i]);
      CHECK(pauses[i] <= expected[i] + tick);
    }
  }
  SUBCASE("with jitter") {
    Flow flow{b.loop};
    flow.retry({.attempts = 201, .delay = 10ms, .factor = 1, .jitter = 0.5}, note_pause);
    flow.execute();
    b.run(1min);
    REQUIRE(pauses.size() == 200);
    int short_ones = 0;
    for (const auto pause : pauses) {
      CHECK(pause >= 5ms);
      CHECK(pause <= 10ms + tick);
      short_ones += pause < 7500us;
    }
    CHECK(short_ones > 50);  // about half of them; fewer once in 10^12 runs
    CHECK(short_ones < 150);
  }
  SUBCASE("without a pause") {
    Flow flow{b.loop};
    flow.retry({.attempts = 300, .delay = -1s}, note_pause);
    flow.execute();
    b.drain();
    REQUIRE(pauses.size() == 299);
    CHECK(time() == "0");
  }
  SUBCASE("with what is no number") {
    Flow flow{b.loop};
    constexpr double none = std::numeric_limits<double>::quiet_NaN();
    flow.retry({.attempts = 4, .delay = 10ms, .factor = none, .max_delay = 20ms, .jitter = none}, note_pause);
    flow.execute();
    b.run(1min);
    REQUIRE(pauses.size() == 3);
    CHECK(pauses[1] >= 20ms);
    CHECK(pauses[2] <= 20ms + tick);
  }
  SUBCASE("with none that would grow without end") {
    Flow flow{b.loop};
    constexpr double endless = std::numeric_limits<double>::infinity();
    flow.retry({.attempts = 4, .delay = 0ms, .factor = endless, .max_delay = 3s}, note_pause);
    flow.execute();
    b.run(1min);
    REQUIRE(pauses.size() == 3);
    CHECK(pauses[2] <= tick);
  }
}

TEST_CASE_TEMPLATE("rule 48: on() and when() say which errors are retried", Flow, STEPS_FLOWS) {
  const Retry four = exact(4);
  const auto attempts_of = [](const auto& policy, ErrorCode code) {
    bench b;
    std::size_t count = 0;
    Flow flow{b.loop};
    flow.retry(policy, [&](IAsyncSteps& asi) {
      ++count;
      asi.error(code);
    });
    flow.execute();
    b.run(200ms);
    CHECK(b.unhandled == lines{std::string(code)});
    return count;
  };
  const auto listed = four.on(steps::errors::Timeout, "Busy");
  CHECK(attempts_of(listed, "Busy") == 4);
  CHECK(attempts_of(listed, "Timeout") == 4);
  CHECK(attempts_of(listed, "NotFound") == 1);
  CHECK(attempts_of(four.on("A"), "A") == 4);
  int left = 2;
  const auto counting = four.when([&left](ErrorCode code) { return code == "Busy" && left-- > 0; });
  CHECK(attempts_of(counting, "Other") == 1);
  CHECK(attempts_of(counting, "Busy") == 3);
  CHECK(attempts_of(four.when([](ErrorCode) { return false; }), "Busy") == 1);
  CHECK(attempts_of(exact(1), "Busy") == 1);
}

TEST_CASE_TEMPLATE(
    "rule 48: no attempt begins after the limit of a step around, also when no turn of the loop has come", Flow,
    STEPS_FLOWS) {
  bench b;
  lines seen;
  const stopwatch time(b);
  Flow flow{b.loop};
  const auto end = testing::noting_code(seen);  // recovers
  SUBCASE("a limit that is set in the turn of the attempts") {
    flow.add([&](IAsyncSteps& asi) {
      asi.setTimeout(50ms);
      asi.retry(
          {.attempts = Retry::unlimited, .delay = 0ms},
          [&](IAsyncSteps& attempt) {
            seen.push_back("attempt at " + time());
            b.clock.advance(30ms);
            attempt.error("Busy");
          },
          end);
    });
    flow.execute();
    b.drain();
    CHECK(seen == lines{"attempt at 0", "attempt at 30", "Busy"});
  }
  SUBCASE("a limit that comes due together with that of the attempt") {
    flow.add([&](IAsyncSteps& asi) {
      asi.setTimeout(1s);
      asi.retry(
          {.attempts = 10, .delay = 0ms},
          [&](IAsyncSteps& attempt) {
            seen.push_back("attempt at " + time());
            attempt.setTimeout(10ms);
          },
          end);
    });
    flow.execute();
    b.drain();
    b.clock.advance(1h);
    b.drain();
    CHECK(seen == lines{"attempt at 0", "Timeout"});
  }
  SUBCASE("a deadline that has passed and takes the place of another limit") {
    for (const bool is_time : {true, false}) {
      flow.add([&, is_time](IAsyncSteps& asi) {
        if (is_time) {
          asi.setTimeout(1h);
        } else {
          asi.setDeadline(b.clock.now() + 1h);
        }
        asi.setDeadline(b.clock.now() - 1s);
        asi.retry(
            {.attempts = 10, .delay = 0ms},
            [&](IAsyncSteps& attempt) {
              seen.push_back("attempt at " + time());
              attempt.error("Busy");
            },
            end);
      });
    }
    flow.execute();
    b.drain();
    CHECK(seen == lines{"attempt at 0", "Busy", "attempt at 0", "Busy"});
  }
  CHECK(b.unhandled.empty());
}

TEST_CASE_TEMPLATE("rule 48: a predicate may throw, fail, cancel or destroy the flow", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  counted::alive = 0;
  auto flow = std::make_unique<Flow>(b.loop);
  int attempts = 0;
  const auto attempt = [&](IAsyncSteps& asi) {
    ++attempts;
    asi.stack<counted>();
    asi.error("Busy");
  };
  SUBCASE("throw") {
    flow->retry(exact(3).when([](ErrorCode) -> bool { throw std::runtime_error("Broken"); }), attempt);
    flow->execute();
    b.run(100ms);
    CHECK(b.unhandled == lines{"Broken"});
  }
  SUBCASE("cancel") {
    flow->retry(exact(3).when([&](ErrorCode) { return flow->cancel(), true; }), attempt);
    flow->execute();
    b.run(100ms);
    CHECK(b.unhandled.empty());
  }
  SUBCASE("destroy") {
    flow->retry(exact(3).when([&](ErrorCode) { return flow.reset(), true; }), attempt);
    flow->execute();
    b.run(100ms);
    CHECK(b.unhandled.empty());
  }
  SUBCASE("use the step") {
    IAsyncSteps* known = nullptr;
    flow->retry(exact(3).when([&](ErrorCode) {
      known->add([object = counted()](IAsyncSteps&) {});
      return true;
    }),
                [&](IAsyncSteps& asi) {
                  known = &asi;
                  attempt(asi);
                });
    flow->execute();
    b.run(100ms);
    CHECK(b.unhandled.empty());  // the step that has been added takes the place of the attempts
  }
  CHECK(attempts == 1);
  CHECK(counted::alive == 0);
}

TEST_CASE_TEMPLATE("rule 48: the limit of an attempt is retried, the limit of a step around is not", Flow,
                   STEPS_FLOWS) {
  bench b;
  lines seen;
  const stopwatch time(b);
  Flow flow{b.loop};
  SUBCASE("of an attempt, or below it") {
    for (const bool below : {false, true}) {
      flow.retry(
          exact(3),
          [&, below](IAsyncSteps& asi) {
            seen.push_back(time());
            const auto wait = [](IAsyncSteps& step) {
              step.setTimeout(5ms);
              step.waitExternal();
            };
            below ? void(asi.add(wait)) : wait(asi);
          },
          noting(seen));
    }
    flow.execute();
    b.run(200ms);
    CHECK(seen == lines{"0", "15", "40", "Timeout: ", "45", "60", "85", "Timeout: "});
  }
  SUBCASE("around, during an attempt") {
    flow.add(
        [&](IAsyncSteps& asi) {
          asi.setTimeout(25ms);
          asi.retry(exact(9), [&](IAsyncSteps& step) {
            seen.push_back(time());
            step.setTimeout(10ms);
          });
        },
        noting(seen));
    flow.execute();
    b.run(200ms);
    CHECK(seen == lines{"0", "20", "Timeout: "});
  }
  SUBCASE("around, during a pause") {
    bool is_deadline = false;
    SUBCASE("a duration") {}
    SUBCASE("a moment") { is_deadline = true; }
    flow.add(
        [&](IAsyncSteps& asi) {
          is_deadline ? asi.setDeadline(b.loop.now() + 15ms) : asi.setTimeout(15ms);
          asi.retry(exact(9), [&](IAsyncSteps& step) {
            seen.push_back(time());
            if (seen.size() == 1) step.error("Busy");
            step.error("Late");
          });
        },
        [&](IAsyncSteps& asi, ErrorCode code) {
          seen.push_back(std::string(code) + " at " + time());
          asi.success();
        });
    flow.execute();
    b.run(200ms);
    CHECK(seen == lines{"0", "10", "Timeout at 15"});
  }
  SUBCASE("around, with another code from an inner handler") {
    bool is_deadline = false;
    SUBCASE("a duration") {}
    SUBCASE("a moment") { is_deadline = true; }
    flow.add(
        [&](IAsyncSteps& asi) {
          is_deadline ? asi.setDeadline(b.loop.now() + 5ms) : asi.setTimeout(5ms);
          asi.retry(exact(9), [&](IAsyncSteps& step) {
            seen.push_back(time());
            step.add([](IAsyncSteps& inner) { inner.waitExternal(); },
                     [](IAsyncSteps& inner, ErrorCode) { inner.error("Slow"); });
          });
        },
        noting(seen));
    flow.execute();
    b.run(200ms);
    CHECK(seen == lines{"0", "Slow: "});
  }
  CHECK(b.unhandled.empty());
}

TEST_CASE_TEMPLATE("rule 48: breaks and continues of a loop around are not retried", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  int rounds = 0;
  flow.loop(
      [&](IAsyncSteps& asi) {
        ++rounds;
        asi.retry(exact(5), [&](IAsyncSteps& step) {
          seen.push_back(std::to_string(rounds));
          if (rounds == 1) step.continueLoop();
          step.breakLoop("outer");
        });
      },
      "outer");
  flow.add([&](IAsyncSteps&) { seen.emplace_back("after"); });
  flow.execute();
  b.drain();
  CHECK(seen == lines{"1", "2", "after"});
}

TEST_CASE_TEMPLATE("rule 48: cancel() ends attempts and pauses", Flow, STEPS_FLOWS) {
  for (const auto time : {0ms, 2ms, 7ms}) {  // before the start, in an attempt, in a pause
    bench b;
    lines seen;
    counted::alive = 0;
    Flow flow{b.loop};
    flow.retry(
        exact(3),
        [&, object = counted()](IAsyncSteps& asi) {
          asi.setCancel([&] { seen.emplace_back("cancel"); });
          asi.setTimeout(5ms);
        },
        noting(seen));
    flow.execute();
    if (time != 0ms) b.run(time);
    flow.cancel();
    CHECK(counted::alive == 0);
    CHECK_FALSE(b.loop.iterate().have_work);  // no timer is left
    CHECK(seen.size() == (time == 0ms ? 0 : 1));
    CHECK(b.unhandled.empty());
  }
}

TEST_CASE_TEMPLATE("rule 48: an error from outside in a pause counts as that of an attempt", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  const stopwatch time(b);
  Flow flow{b.loop};
  IAsyncSteps* last = nullptr;
  flow.retry(
      exact(3),
      [&](IAsyncSteps& asi, std::size_t attempt) {
        seen.push_back(std::to_string(attempt) + " at " + time());
        last = &asi;
        if (attempt == 0) asi.error("First");
      },
      noting(seen));
  flow.execute();
  b.run(4ms);
  last->errorNoThrow("Outside");
  b.run(100ms);
  CHECK(seen == lines{"0 at 0", "2 at 24"});
}

TEST_CASE_TEMPLATE("rule 47: without attempts it is misuse; without a limit it goes on", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  int attempts = 0;
  flow.retry({.attempts = 0}, [&](IAsyncSteps&) { ++attempts; }, noting(seen));
  flow.retry({.attempts = Retry::unlimited, .delay = 0ms}, [&](IAsyncSteps& asi) {
    if (++attempts < 1'000) asi.errorNoThrow("Busy");
  });
  flow.execute();
  b.drain();
  CHECK(seen == lines{"InternalError: retry() with Retry::attempts of 0"});
  CHECK(attempts == 1'000);
}

TEST_CASE_TEMPLATE("retry() within retry(), in branches, and with steps of all kinds inside", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  int inner_attempts = 0;
  flow.retry(exact(2), [&](IAsyncSteps& asi) {
    asi.retry(exact(3), [&](IAsyncSteps& step) {
      if (++inner_attempts < 5) step.error("Busy");
    });
  });
  auto& race = flow.race();
  race.retry(exact(2), [&](IAsyncSteps& asi, std::size_t attempt) {
    if (attempt == 0) asi.error("Busy");
    asi.success(std::string("first"));
  });
  race.retry(exact(3), [&](IAsyncSteps& asi, std::size_t attempt) {
    if (attempt != 2) asi.error("Busy");
    asi.success(std::string("second"));
  });
  flow.add([&](IAsyncSteps&, const std::string& text) { seen.push_back(text); });
  flow.retry(
      exact(3),
      [&](IAsyncSteps& asi, std::size_t attempt) {
        auto& both = asi.parallel();
        both.add([attempt](IAsyncSteps& step) {
          if (attempt < 2) step.error("Busy");
        });
        both.add([&](IAsyncSteps& step) { step.setCancel([&] { seen.emplace_back("cancel"); }); });
        if (attempt == 2) both.add([](IAsyncSteps& step) { step.error("Again"); });
      },
      noting(seen));
  flow.execute();
  b.run(500ms);
  CHECK(inner_attempts == 5);
  CHECK(seen.front() == "first");
  CHECK(seen.back() == "Again: ");
  CHECK(b.unhandled.empty());
}
