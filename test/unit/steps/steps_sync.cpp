// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "support/flows.hpp"

// sync() with Mutex, Throttle and Limiter on one event loop. Rules 18 and 29 to 31 of steps/RULES.md.

using steps::ErrorCode;
using steps::IAsyncSteps;
using steps::Limiter;
using steps::Mutex;
using steps::Throttle;
using testing::bench;
using testing::lines;
using namespace std::chrono_literals;

namespace {

/// Flows that each pass a guarded section of some milliseconds, and a log of events with their times.
template <class Flow>
struct crowd {
  explicit crowd(bench& b) : bench_(b), start_(b.clock.now()) {}

  void add(steps::ISync& object, std::chrono::milliseconds stay = 0ms) {
    flows_.push_back(std::make_unique<Flow>(bench_.loop));
    const std::string me = std::to_string(flows_.size() - 1);
    flows_.back()->add(
        [this, me, stay, &object](IAsyncSteps& asi) {
          asi.sync(object, [this, me, stay](IAsyncSteps& inner) {
            note(me + " in");
            if (stay.count() == 0) return;
            inner.waitExternal();
            bench_.loop.deferred(stay, [&inner] { inner.success(); });
          });
          asi.add([this, me](IAsyncSteps&) { note(me + " out"); });
        },
        [this, me](IAsyncSteps& asi, ErrorCode code) {
          note(me + " " + std::string(code));
          asi.success();
        });
    flows_.back()->execute();
  }
  Flow& flow(std::size_t i) { return *flows_[i]; }
  /// Rounds to ten milliseconds, since timers may be a tick late.
  void note(const std::string& what) {
    seen.push_back(std::to_string((bench_.clock.now() - start_) / 10ms * 10) + ": " + what);
  }

  lines seen;

 private:
  bench& bench_;
  const async::manual_clock::time_point start_;
  std::vector<std::unique_ptr<Flow>> flows_;
};

}  // namespace

TEST_CASE_TEMPLATE("rule 29: arguments pass into the critical step, its results out", Flow, STEPS_FLOWS) {
  bench b;
  Mutex mutex;
  int result = 0;
  Flow flow{b.loop};
  flow.add([](IAsyncSteps& asi) { asi.success(20); });
  flow.sync(mutex, [](IAsyncSteps& asi, int x) { asi.success(x + 1); });
  flow.add([&](IAsyncSteps&, int x) { result = x; });
  flow.execute();
  b.drain();
  CHECK(result == 21);
}

TEST_CASE_TEMPLATE("rule 29: the handler of sync runs before the unlock", Flow, STEPS_FLOWS) {
  bench b;
  Mutex mutex;
  lines seen;
  Flow first{b.loop};
  Flow second{b.loop};
  first.sync(
      mutex, [](IAsyncSteps& asi) { asi.add([](IAsyncSteps& inner) { inner.error("MyError"); }); },
      [&](IAsyncSteps& asi, ErrorCode code) {
        seen.push_back("first " + std::string(code));
        asi.add([&](IAsyncSteps&) { seen.push_back("first repairs"); });
      });
  second.sync(mutex, [&](IAsyncSteps&) { seen.push_back("second"); });
  first.execute();
  second.execute();
  b.drain();
  CHECK(seen == lines{"first MyError", "first repairs", "second"});
}

TEST_CASE_TEMPLATE("rule 30: one flow at a time, in the order of arrival", Flow, STEPS_FLOWS) {
  bench b;
  Mutex mutex;
  crowd<Flow> c(b);
  for (int i = 0; i < 3; ++i) c.add(mutex, 10ms);
  b.pass(50ms);
  CHECK(c.seen == lines{"0: 0 in", "10: 0 out", "10: 1 in", "20: 1 out", "20: 2 in", "30: 2 out"});
}

TEST_CASE_TEMPLATE("rule 30: max flows are inside, max_queue flows wait, others are rejected", Flow, STEPS_FLOWS) {
  bench b;
  Mutex mutex(2, 1);
  crowd<Flow> c(b);
  for (int i = 0; i < 5; ++i) c.add(mutex, 10ms);
  b.pass(50ms);
  CHECK(c.seen == lines{"0: 0 in", "0: 1 in", "0: 3 DefenseRejected", "0: 4 DefenseRejected", "10: 0 out", "10: 1 out",
                        "10: 2 in", "20: 2 out"});
}

TEST_CASE_TEMPLATE("rule 30: a flow that is inside enters again, a branch of it does not", Flow, STEPS_FLOWS) {
  bench b;
  Mutex mutex;
  lines seen;
  Flow flow{b.loop};
  flow.sync(mutex, [&](IAsyncSteps& asi) {
    asi.sync(mutex, [&](IAsyncSteps& inner) {
      seen.push_back("again");
      inner.sync(mutex, [&](IAsyncSteps&) { seen.push_back("and again"); });
    });
    asi.add([&](IAsyncSteps& inner) {
      inner.setTimeout(10ms);
      inner.parallel().sync(mutex, [&](IAsyncSteps&) { seen.push_back("never"); });
    });
  });
  flow.add([&](IAsyncSteps&) { seen.push_back("after"); });
  flow.state().set_unhandled_error([&](ErrorCode code) { seen.push_back(std::string(code)); });
  flow.execute();
  b.pass(20ms);
  CHECK(seen == lines{"again", "and again", "Timeout"});
  bool free = false;
  Flow other{b.loop};
  other.sync(mutex, [&](IAsyncSteps&) { free = true; });
  other.execute();
  b.drain();
  CHECK(free);
}

TEST_CASE_TEMPLATE("rule 18: a flow that is cancelled while it waits leaves the queue", Flow, STEPS_FLOWS) {
  bench b;
  Mutex mutex;
  crowd<Flow> c(b);
  for (int i = 0; i < 4; ++i) c.add(mutex, 10ms);
  b.drain();
  c.flow(1).cancel();
  c.flow(3).cancel();
  b.pass(50ms);
  CHECK(c.seen == lines{"0: 0 in", "10: 0 out", "10: 2 in", "20: 2 out"});
}

TEST_CASE_TEMPLATE("rule 18: a flow that is cancelled when it has just been let in gives the place on", Flow,
                   STEPS_FLOWS) {
  bench b;
  Mutex mutex;
  lines seen;
  Flow first{b.loop};
  Flow second{b.loop};
  Flow third{b.loop};
  first.sync(mutex, [](IAsyncSteps& asi) { asi.waitExternal(); });
  second.sync(mutex, [&](IAsyncSteps&) { seen.push_back("second"); });
  third.sync(mutex, [&](IAsyncSteps&) { seen.push_back("third"); });
  first.execute();
  second.execute();
  third.execute();
  b.drain();
  first.cancel();  // lets the second in, which has not run yet
  second.cancel();
  b.drain();
  CHECK(seen == lines{"third"});
}

TEST_CASE_TEMPLATE("a timeout that meets the grant: the error goes on, and so does the place", Flow, STEPS_FLOWS) {
  bench b;
  Mutex mutex;
  lines seen;
  Flow first{b.loop};
  Flow second{b.loop};
  Flow third{b.loop};
  first.sync(mutex, [](IAsyncSteps& asi) { asi.waitExternal(); });
  second.add(
      [&](IAsyncSteps& asi) {
        asi.setTimeout(10ms);
        asi.sync(mutex, [&](IAsyncSteps&) { seen.push_back("second"); });
      },
      [&](IAsyncSteps& asi, ErrorCode code) {
        seen.push_back(std::string(code));
        asi.success();
      });
  third.sync(mutex, [&](IAsyncSteps&) { seen.push_back("third"); });
  first.execute();
  second.execute();
  third.execute();
  b.drain();
  // Due after the timeout, in the same turn, before the second flow has its turn.
  b.loop.deferred(10ms, [&] { first.cancel(); });
  b.clock.advance(11ms);
  b.drain();
  CHECK(seen == lines{"Timeout", "third"});
}

TEST_CASE_TEMPLATE("rule 31: a throttle lets in its number of flows per period, and the queue waits", Flow,
                   STEPS_FLOWS) {
  bench b;
  Throttle throttle(2, 100ms, 3);
  crowd<Flow> c(b);
  for (int i = 0; i < 6; ++i) c.add(throttle);
  b.pass(300ms);
  const lines expected{"0: 0 in",   "0: 1 in",    "0: 5 DefenseRejected", "0: 0 out",  "0: 1 out",  "100: 2 in",
                       "100: 3 in", "100: 2 out", "100: 3 out",           "200: 4 in", "200: 4 out"};
  CHECK(c.seen.size() == expected.size());
  for (const std::string& line : expected) {
    CAPTURE(line);
    CHECK(std::count(c.seen.begin(), c.seen.end(), line) == 1);
  }
}

TEST_CASE_TEMPLATE("rule 31: a throttle counts each entry of a recursion", Flow, STEPS_FLOWS) {
  bench b;
  Throttle throttle(2, 100ms, 0);
  lines seen;
  Flow flow{b.loop};
  flow.sync(throttle, [&](IAsyncSteps& one) {
    seen.push_back("one");
    one.sync(throttle, [&](IAsyncSteps& two) {
      seen.push_back("two");
      two.sync(throttle, [&](IAsyncSteps&) { seen.push_back("three"); });
    });
  });
  flow.state().set_unhandled_error([&](ErrorCode code) { seen.push_back(std::string(code)); });
  flow.execute();
  b.pass(200ms);
  CHECK(seen == lines{"one", "two", "DefenseRejected"});
}

TEST_CASE_TEMPLATE("rule 31: a throttle has no timer while no flow waits, and works after it was idle", Flow,
                   STEPS_FLOWS) {
  bench b;
  Throttle throttle(1, 100ms, 10);
  for (int round = 0; round < 3; ++round) {
    crowd<Flow> c(b);
    c.add(throttle);
    b.drain();
    const auto next = b.loop.iterate();
    CHECK_FALSE(next.have_work);
    c.add(throttle);
    b.pass(150ms);
    CHECK(c.seen == lines{"0: 0 in", "0: 0 out", "100: 1 in", "100: 1 out"});
    b.pass(1000ms);
    CHECK_FALSE(b.loop.iterate().have_work);
  }
}

TEST_CASE_TEMPLATE("cancelling the first waiting flow of a throttle does not hold up the others", Flow, STEPS_FLOWS) {
  bench b;
  Throttle throttle(1, 100ms, 10);
  crowd<Flow> c(b);
  for (int i = 0; i < 5; ++i) c.add(throttle);
  b.drain();
  c.flow(1).cancel();
  c.flow(2).cancel();
  b.pass(250ms);
  CHECK(c.seen == lines{"0: 0 in", "0: 0 out", "100: 3 in", "100: 3 out", "200: 4 in", "200: 4 out"});
}

TEST_CASE_TEMPLATE("rule 31: a limiter limits those inside and those per period", Flow, STEPS_FLOWS) {
  bench b;
  Limiter::Params params;
  params.concurrent = 2;
  params.max_queue = 3;
  params.rate = 3;
  params.period = 100ms;
  params.burst = 2;
  Limiter limiter(params);
  crowd<Flow> c(b);
  for (int i = 0; i < 6; ++i) c.add(limiter, 10ms);
  b.pass(300ms);
  CHECK(c.seen == lines{"0: 0 in", "0: 1 in", "0: 5 DefenseRejected", "10: 0 out", "10: 1 out", "10: 2 in", "20: 2 out",
                        "100: 3 in", "100: 4 in", "110: 3 out", "110: 4 out"});
}

TEST_CASE_TEMPLATE("a limiter whose rate is used up rejects, and keeps no place", Flow, STEPS_FLOWS) {
  bench b;
  Limiter::Params params;
  params.concurrent = 1;
  params.rate = 1;
  params.period = 100ms;
  params.burst = 0;
  Limiter limiter(params);
  crowd<Flow> c(b);
  for (int i = 0; i < 3; ++i) {
    c.add(limiter);
    b.drain();
  }
  b.pass(100ms);
  c.add(limiter);
  b.drain();
  CHECK(c.seen ==
        lines{"0: 0 in", "0: 0 out", "0: 1 DefenseRejected", "0: 2 DefenseRejected", "100: 3 in", "100: 3 out"});
}

TEST_CASE_TEMPLATE("rule 31: a limit of a limiter that is not set does not exist", Flow, STEPS_FLOWS) {
  const auto entered = [](const Limiter::Params& params) {
    bench b;
    Limiter limiter(params);
    crowd<Flow> c(b);
    for (int i = 0; i < 20; ++i) c.add(limiter, 10ms);
    b.pass(500ms);
    std::vector<std::ptrdiff_t> counts;
    for (const char* when : {"0: ", "10: ", "20: ", "100: "}) {
      counts.push_back(std::count_if(c.seen.begin(), c.seen.end(), [when](const std::string& line) {
        return line.starts_with(when) && line.ends_with(" in");
      }));
    }
    counts.push_back(std::count_if(c.seen.begin(), c.seen.end(),
                                   [](const std::string& line) { return line.ends_with("DefenseRejected"); }));
    return counts;
  };
  using counts = std::vector<std::ptrdiff_t>;
  CHECK(entered({}) == counts{20, 0, 0, 0, 0});
  CHECK(entered({.concurrent = 2, .max_queue = 20}) == counts{2, 2, 2, 0, 0});
  CHECK(entered({.concurrent = 2}) == counts{2, 2, 2, 0, 0});
  CHECK(entered({.concurrent = 2, .max_queue = 3}) == counts{2, 2, 1, 0, 15});
  CHECK(entered({.rate = 3, .period = 100ms}) == counts{3, 0, 0, 3, 0});
  CHECK(entered({.rate = 3, .period = 100ms, .burst = 5}) == counts{3, 0, 0, 3, 12});
}

TEST_CASE_TEMPLATE("rule 31: every flow that comes to a throttle waits when no length of the queue is given", Flow,
                   STEPS_FLOWS) {
  bench b;
  Throttle throttle(1, 100ms);
  crowd<Flow> c(b);
  for (int i = 0; i < 4; ++i) c.add(throttle);
  b.pass(350ms);
  CHECK(c.seen ==
        lines{"0: 0 in", "0: 0 out", "100: 1 in", "100: 1 out", "200: 2 in", "200: 2 out", "300: 3 in", "300: 3 out"});
}

TEST_CASE_TEMPLATE("a rejection names the limits that are used up", Flow, STEPS_FLOWS) {
  bench b;
  const auto info_of_second = [&b](steps::ISync& object) {
    lines seen;
    Flow first{b.loop};
    Flow second{b.loop};
    for (Flow* flow : {&first, &second}) {
      flow->add([&object](IAsyncSteps& asi) { asi.sync(object, [](IAsyncSteps& inside) { inside.waitExternal(); }); },
                testing::noting(seen));
      flow->execute();
    }
    b.drain();
    return seen;
  };
  Mutex mutex(1, 0);
  CHECK(info_of_second(mutex) == lines{"DefenseRejected: Mutex: `max` flows are inside, and `max_queue` flows wait"});
  Throttle throttle(1, 1s, 0);
  CHECK(info_of_second(throttle) ==
        lines{"DefenseRejected: Throttle: `max` flows have entered in this period, and `max_queue` flows wait"});
  Limiter full({.concurrent = 1, .max_queue = 0});
  CHECK(info_of_second(full) ==
        lines{"DefenseRejected: Limiter: `concurrent` flows are inside, and `max_queue` flows wait"});
  const lines over_rate{
      "DefenseRejected: Limiter: `rate` flows have entered in this period, and `burst` flows wait for the next"};
  Limiter fast({.rate = 1, .burst = 0});
  CHECK(info_of_second(fast) == over_rate);
  Limiter late({.concurrent = 1, .rate = 1, .burst = 0});  // the second flow waits for the first one's place before
  lines seen;
  Flow first{b.loop};
  Flow second{b.loop};
  for (Flow* flow : {&first, &second}) {
    flow->add([&](IAsyncSteps& asi) { asi.sync(late, [](IAsyncSteps& inside) { inside.relinquish(); }); },
              testing::noting(seen));
    flow->execute();
  }
  b.drain();
  CHECK(seen == over_rate);
}

TEST_CASE_TEMPLATE("flows that wait for a limiter can be cancelled at each stage", Flow, STEPS_FLOWS) {
  bench b;
  Limiter::Params params;
  params.concurrent = 1;
  params.max_queue = 10;
  params.rate = 1;
  params.period = 100ms;
  params.burst = 1;
  Limiter limiter(params);
  crowd<Flow> c(b);
  for (int i = 0; i < 4; ++i) c.add(limiter);
  b.drain();
  c.flow(1).cancel();  // has the place and waits for the next period
  c.flow(2).cancel();  // has been given the place by that
  b.pass(300ms);
  CHECK(c.seen == lines{"0: 0 in", "0: 0 out", "100: 3 in", "100: 3 out"});
}

TEST_CASE_TEMPLATE("rule 31: a flow that waits for the rate of a limiter has a place, which its cancel gives on", Flow,
                   STEPS_FLOWS) {
  bench b;
  Limiter limiter({.concurrent = 1, .max_queue = 0, .rate = 1, .period = 100ms});
  crowd<Flow> c(b);
  for (int i = 0; i < 3; ++i) c.add(limiter);  // the first is in and out, the second waits for the next period
  b.drain();
  CHECK(c.seen == lines{"0: 0 in", "0: 0 out", "0: 2 DefenseRejected"});
  c.flow(1).cancel();
  c.add(limiter);
  b.pass(150ms);
  CHECK(c.seen == lines{"0: 0 in", "0: 0 out", "0: 2 DefenseRejected", "100: 3 in", "100: 3 out"});
}

TEST_CASE_TEMPLATE("a limiter that rejects a flow which has got a place keeps no place for it", Flow, STEPS_FLOWS) {
  bench b;
  Limiter limiter({.concurrent = 1, .rate = 1, .period = 100ms, .burst = 0});
  crowd<Flow> c(b);
  c.add(limiter, 50ms);
  c.add(limiter);  // waits for the place, and is over the rate when it gets it
  b.pass(150ms);
  c.add(limiter);
  b.drain();
  CHECK(c.seen == lines{"0: 0 in", "50: 0 out", "50: 1 DefenseRejected", "150: 2 in", "150: 2 out"});
}

TEST_CASE_TEMPLATE("a flow that enters a limiter again, and waits for the rate or gives up, keeps its place", Flow,
                   STEPS_FLOWS) {
  for (const bool gives_up : {false, true}) {
    bench b;
    Limiter limiter({.concurrent = 1, .rate = 1, .period = 100ms});
    crowd<Flow> c(b);
    Flow first{b.loop};
    first.sync(limiter, [&](IAsyncSteps& asi) {
      asi.add(
          [&](IAsyncSteps& again) {
            if (gives_up) again.setTimeout(50ms);
            again.sync(limiter, [&c](IAsyncSteps&) { c.note("again"); });
          },
          [&c](IAsyncSteps& failed, ErrorCode code) {
            c.note(std::string(code));
            failed.success();
          });
      asi.add([&b](IAsyncSteps& stays) {
        stays.waitExternal();
        b.loop.deferred(400ms, [&stays] { stays.success(); });
      });
      asi.add([&c](IAsyncSteps&) { c.note("leaves"); });
    });
    first.execute();
    b.drain();
    for (int i = 0; i < 2; ++i) c.add(limiter);
    b.pass(1s);
    const lines in_time{"100: again", "500: leaves", "500: 0 in", "500: 0 out", "600: 1 in", "600: 1 out"};
    const lines given_up{"50: Timeout", "450: leaves", "450: 0 in", "450: 0 out", "550: 1 in", "550: 1 out"};
    CHECK(c.seen == (gives_up ? given_up : in_time));
  }
}

TEST_CASE_TEMPLATE("a mutex or throttle that lets no flow in, or every flow", Flow, STEPS_FLOWS) {
  bench b;
  Mutex closed(0, 0);
  Throttle open(1, 0ms);
  crowd<Flow> c(b);
  c.add(closed);
  for (int i = 0; i < 3; ++i) c.add(open);
  b.drain();
  CHECK(std::count_if(c.seen.begin(), c.seen.end(), [](const std::string& s) { return s.ends_with(" in"); }) == 3);
  CHECK(std::count(c.seen.begin(), c.seen.end(), "0: 0 DefenseRejected") == 1);
}

TEST_CASE_TEMPLATE("rule 29: object.sync(asi, f, onerror) is asi.sync(object, f, onerror)", Flow, STEPS_FLOWS) {
  bench b;
  Mutex mutex(1, 0);
  steps::ISync& object = mutex;
  lines seen;
  Flow flow{b.loop};
  flow.add([](IAsyncSteps& asi) { asi.success(1); });
  Flow late{b.loop};  // finds the mutex held
  object.sync(late, [&](IAsyncSteps&) { seen.push_back("never"); });
  late.state().set_unhandled_error([&](ErrorCode code) { seen.emplace_back(code); });
  object.sync(flow, [](IAsyncSteps& asi, int one) { asi.success(one + 1); });
  flow.add([&](IAsyncSteps& asi, int two) {
    seen.push_back(std::to_string(two));
    mutex.sync(
        asi,
        [&](IAsyncSteps& inside) {
          seen.push_back("inside");
          late.execute();
          b.loop.immediate([done = inside.completion()] { done.error("Mine"); });
        },
        [&](IAsyncSteps& failed, ErrorCode code) {
          seen.emplace_back(code);
          failed.success("recovered");
        });
  });
  flow.add([&](IAsyncSteps&, const std::string& text) { seen.push_back(text); });
  flow.execute();
  b.drain();
  CHECK(seen == lines{"2", "inside", "DefenseRejected", "Mine", "recovered"});
}

TEST_CASE("destroying a loop withdraws the flows that wait, and the place goes to another loop's") {
  bench b;
  Mutex mutex;
  lines seen;
  steps::AsyncSteps holder{b.loop};
  holder.sync(mutex, [](IAsyncSteps& asi) { asi.waitExternal(); });
  holder.execute();
  b.drain();
  bench other;
  steps::AsyncSteps last{other.loop};
  {
    bench short_lived;
    steps::AsyncSteps waiting{short_lived.loop};
    waiting.sync(mutex, [&](IAsyncSteps&) { seen.push_back("never"); });
    waiting.execute();
    short_lived.drain();
    last.sync(mutex, [&](IAsyncSteps&) { seen.push_back("last"); });
    last.execute();
    other.drain();
  }
  holder.cancel();
  other.drain();
  CHECK(seen == lines{"last"});
}
