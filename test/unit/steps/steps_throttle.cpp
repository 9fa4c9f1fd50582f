// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

#include "async/event_loop.hpp"
#include "async/manual_clock.hpp"
#include "async/threadpool.hpp"
#include "steps/steps.hpp"
#include "support/flows.hpp"

// Flows that wait at a Throttle: one watches the time, and passes that on when it goes. One that ends when it has just
// been let in passes its entry on. Rules 18 and 31 of steps/RULES.md.

using async::event_loop;
using steps::ErrorCode;
using steps::IAsyncSteps;
using steps::Throttle;
using namespace std::chrono_literals;

namespace {

/// Loops in virtual time, and flows on them that pass one object; `order` logs which flow has come in, and when.
template <class Flow>
struct course {
  explicit course(steps::ISync& o) : object(o) {}

  /// A flow that passes once, or gives up when the time is over; 0: never.
  void add(event_loop& loop, std::chrono::milliseconds limit = 0ms) {
    const std::size_t me = flows.size();
    flows.push_back(std::make_unique<Flow>(loop));
    flows.back()->add(
        [this, me, limit](IAsyncSteps& asi) {
          if (limit != 0ms) asi.setTimeout(limit);
          asi.sync(object, [this, me](IAsyncSteps&) { note(me); });
        },
        [](IAsyncSteps& asi, ErrorCode) { asi.success(); });
    flows.back()->execute();
  }
  void note(std::size_t flow) {
    order.push_back(flow);
    periods.push_back((clock.now() - begin) / 100ms);
  }
  void drain() {
    for (bool more = true; more;) {
      more = false;
      for (event_loop* loop : {&one, &other}) {
        const auto next = loop->iterate();
        more = more || (next.have_work && next.delay.count() == 0);
      }
    }
  }
  void pass(std::chrono::milliseconds time) {
    for (drain(); time.count() > 0; time -= 10ms) {
      clock.advance(10ms);
      drain();
    }
  }

  async::manual_clock clock;
  const async::manual_clock::time_point begin = clock.now();
  event_loop one{clock};
  event_loop other{clock};
  steps::ISync& object;
  std::vector<std::unique_ptr<Flow>> flows;
  std::vector<std::size_t> order;
  std::vector<long long> periods;
};

using places = std::vector<std::size_t>;
using times = std::vector<long long>;

/// Objects that let one flow in per period of 100 ms; in the last one, one flow at a time waits for the period.
struct objects {
  Throttle throttle{1, 100ms};
  steps::Limiter limiter{{.concurrent = 9, .rate = 1, .period = 100ms}};
  steps::Limiter narrow{{.concurrent = 1, .rate = 1, .period = 100ms}};
  steps::ISync* all[3] = {&throttle, &limiter, &narrow};
};

enum class ending { cancelled, destroyed, timed_out };

/// Counts how often its time is read.
struct counted_clock {
  operator async::time_source() noexcept {
    return {[](void* self) noexcept {
              auto& clock = *static_cast<counted_clock*>(self);
              ++clock.reads;
              return clock.now;
            },
            nullptr, this};
  }
  async::time_source::time_point now{1h};
  int reads = 0;
};

}  // namespace

TEST_CASE_TEMPLATE("one of many flows that wait at a throttle watches the time", Flow, STEPS_FLOWS) {
  counted_clock clock;
  event_loop loop(clock);
  Throttle closed(0, 100ms, 100);
  std::vector<std::unique_ptr<Flow>> flows;
  const auto reads_per_period = [&] {
    clock.reads = 0;
    for (int period = 0; period < 10; ++period) {
      clock.now += 110ms;
      for (int turn = 0; turn < 3; ++turn) loop.iterate();
    }
    return clock.reads / 10;
  };
  const auto add = [&] {
    flows.push_back(std::make_unique<Flow>(loop));
    flows.back()->sync(closed, [](IAsyncSteps&) {});
    flows.back()->execute();
    loop.iterate();
  };
  add();
  const int of_one = reads_per_period();
  while (flows.size() < 50) add();
  CHECK(reads_per_period() == of_one);
  while (flows.size() > 1) flows.pop_back();  // the last to come first
  CHECK(reads_per_period() == of_one);
  flows.pop_back();
  CHECK_FALSE(loop.iterate().have_work);
}

TEST_CASE_TEMPLATE("any flow that waits at a throttle is cancelled at any time: the others come in, one a period", Flow,
                   STEPS_FLOWS) {
  constexpr unsigned count = 4;  // that wait
  for (const auto when : {0ms, 50ms, 100ms, 150ms, 200ms}) {
    for (unsigned first = 0; first < 1U << count; ++first) {
      for (unsigned second = 0; second < 1U << count; ++second) {
        CAPTURE(when.count());
        CAPTURE(first);
        CAPTURE(second);
        Throttle throttle(1, 100ms, 10);
        course<Flow> c(throttle);
        std::vector<bool> is_cancelled(count + 1, false);
        const auto cancel = [&](unsigned which) {
          for (unsigned i = 0; i < count; ++i) {
            if ((which >> i & 1U) == 0) continue;
            c.flows[i + 1]->cancel();
            is_cancelled[i + 1] = true;
          }
        };
        for (unsigned i = 0; i <= count; ++i) c.add(c.one);
        c.drain();
        // In the second rounds the timer may have fired, and the flow that was let in has not run yet.
        c.one.deferred(when, [&] { cancel(first); });
        c.one.deferred(when + 100ms, [&] { cancel(second); });
        c.pass(1000ms);
        for (std::size_t i = 1; i < c.order.size(); ++i) {
          REQUIRE(c.order[i] > c.order[i - 1]);
          REQUIRE(c.periods[i] > c.periods[i - 1]);
        }
        std::size_t next = 0;
        for (unsigned i = 0; i <= count; ++i) {
          const bool came_in = next < c.order.size() && c.order[next] == i;
          if (came_in) ++next;
          REQUIRE((came_in || is_cancelled[i]));
          REQUIRE(static_cast<bool>(*c.flows[i]));
        }
        REQUIRE_FALSE(c.one.iterate().have_work);
      }
    }
  }
}

TEST_CASE_TEMPLATE("flows of two loops wait at a throttle: all come in, in order, when those of one loop are cancelled",
                   Flow, STEPS_FLOWS) {
  for (unsigned cancelled = 0; cancelled < 4; ++cancelled) {
    for (unsigned mixed = 0; mixed < 64; ++mixed) {
      CAPTURE(cancelled);
      CAPTURE(mixed);
      Throttle throttle(2, 100ms, 10);
      course<Flow> c(throttle);
      const auto is_on_other = [mixed](std::size_t i) { return i >= 2 && (mixed >> (i - 2) & 1U) != 0; };
      for (std::size_t i = 0; i < 8; ++i) {
        c.add(is_on_other(i) ? c.other : c.one);
        c.drain();
      }
      c.pass(110ms);  // two of them are in
      std::vector<std::size_t> expected{0, 1, 2, 3};
      for (std::size_t i = 4; i < 8; ++i) {
        if ((cancelled >> (is_on_other(i) ? 1U : 0U) & 1U) != 0) {
          c.flows[i]->cancel();
        } else {
          expected.push_back(i);
        }
      }
      c.pass(500ms);
      // Two a period; those of two loops in any order.
      for (std::size_t i = 0; i + 1 < c.order.size(); i += 2) std::sort(&c.order[i], &c.order[i] + 2);
      REQUIRE(c.order == expected);
      for (std::size_t i = 0; i < c.order.size(); ++i) REQUIRE(c.periods[i] == static_cast<long long>(i / 2));
      REQUIRE_FALSE(c.one.iterate().have_work);
      REQUIRE_FALSE(c.other.iterate().have_work);
    }
  }
}

TEST_CASE_TEMPLATE("a throttle that lets no flow in arms no timer, whatever its period", Flow, STEPS_FLOWS) {
  for (const auto period : {0ns, 1ns, 1'000'000ns}) {
    Throttle throttle(0, period, 2);
    course<Flow> c(throttle);
    c.add(c.one);
    c.add(c.one);
    c.one.iterate();
    CHECK_FALSE(c.one.iterate().have_work);
    c.flows[0]->cancel();
    CHECK_FALSE(c.one.iterate().have_work);
    c.pass(10ms);
    CHECK(c.order.empty());
  }
}

TEST_CASE_TEMPLATE("a throttle begins its periods at any time of the clock", Flow, STEPS_FLOWS) {
  using time_point = async::manual_clock::time_point;
  for (const time_point start : {time_point(0s), time_point(-1h), (time_point::min)(), (time_point::max)() - 1h}) {
    async::manual_clock clock(start);
    async::event_loop loop(clock);
    Throttle throttle(1, 1s);
    std::vector<std::unique_ptr<Flow>> flows;
    int entered = 0;
    for (int i = 0; i < 3; ++i) {
      flows.push_back(std::make_unique<Flow>(loop));
      flows.back()->sync(throttle, [&entered](IAsyncSteps&) { ++entered; });
      flows.back()->execute();
    }
    for (int second = 0; second < 3; ++second) {
      while (loop.iterate().delay == 0ns && entered != second + 1) {
      }
      CHECK(entered == second + 1);
      clock.advance(1s + 1ms);
    }
  }
}

TEST_CASE_TEMPLATE("rule 18: flows that end in the turn that lets them in pass their entry on, within the period", Flow,
                   STEPS_FLOWS) {
  constexpr unsigned count = 4;  // that wait
  for (const ending how : {ending::cancelled, ending::destroyed, ending::timed_out}) {
    for (const bool backwards : {false, true}) {
      for (unsigned which = 0; which < 1U << count; ++which) {
        objects of;
        for (steps::ISync* object : of.all) {
          CAPTURE(static_cast<int>(how));
          CAPTURE(backwards);
          CAPTURE(which);
          course<Flow> c(*object);
          places expected{0};
          c.add(c.one);
          for (unsigned i = 0; i < count; ++i) {
            const bool ends = (which >> i & 1U) != 0;
            c.add(c.one, ends && how == ending::timed_out ? 105ms : 0ms);
            if (!ends) expected.push_back(i + 1);
          }
          c.drain();
          c.one.deferred(100ms, [&] {  // after the timer of the throttle
            for (unsigned n = 0; n < count && how != ending::timed_out; ++n) {
              const unsigned i = backwards ? count - 1 - n : n;
              if ((which >> i & 1U) == 0) continue;
              if (how == ending::cancelled) {
                c.flows[i + 1]->cancel();
              } else {
                c.flows[i + 1].reset();
              }
            }
          });
          c.pass(150ms);
          c.add(c.one);
          expected.push_back(count + 1);
          c.pass(1000ms);
          REQUIRE(c.order == expected);
          for (std::size_t i = 0; i < c.order.size(); ++i) REQUIRE(c.periods[i] == static_cast<long long>(i));
          REQUIRE_FALSE(c.one.iterate().have_work);
        }
      }
    }
  }
}

TEST_CASE_TEMPLATE("rule 18: a flow that another loop lets in, and that ends before it runs, passes its entry on", Flow,
                   STEPS_FLOWS) {
  enum class moment { in_period, before_next, in_next };
  for (const moment when : {moment::in_period, moment::before_next, moment::in_next}) {
    objects of;
    for (steps::ISync* object : {of.all[0], of.all[1]}) {
      CAPTURE(static_cast<int>(when));
      course<Flow> c(*object);
      const auto pass_one = [&c](std::chrono::milliseconds time) {
        c.clock.advance(time);
        for (int turn = 0; turn < 3; ++turn) c.one.iterate();
      };
      c.add(c.one);
      c.drain();
      c.add(c.other);
      c.drain();
      c.add(c.one);
      c.drain();
      pass_one(110ms);  // lets the flow of the other loop in
      REQUIRE(c.order == places{0});
      if (when == moment::before_next) c.clock.advance(100ms);  // and no timer has fired yet
      if (when == moment::in_next) {
        pass_one(100ms);
        REQUIRE(c.order == places{0, 2});
      }
      c.flows[1]->cancel();
      c.add(c.one);
      c.pass(500ms);
      REQUIRE(c.order == places{0, 2, 3});
      REQUIRE(c.periods == (when == moment::in_period ? times{0, 1, 2} : times{0, 2, 3}));
    }
  }
}

TEST_CASE_TEMPLATE("rule 18: a loop that ends with a flow that has just been let in passes the entry on", Flow,
                   STEPS_FLOWS) {
  objects of;
  for (steps::ISync* object : {of.all[0], of.all[1]}) {
    course<Flow> c(*object);
    c.add(c.one);
    c.drain();
    auto last = std::make_unique<event_loop>(c.clock);
    c.add(*last);
    last->iterate();
    c.add(c.one);
    c.drain();
    c.clock.advance(110ms);
    c.one.iterate();
    REQUIRE(c.order == places{0});
    c.flows[1].reset();
    last.reset();
    c.pass(300ms);
    REQUIRE(c.order == places{0, 2});
    REQUIRE(c.periods == times{0, 1});
  }
}

TEST_CASE_TEMPLATE("rule 18: a flow that ends as it is let into a limiter again passes the entry and the place on",
                   Flow, STEPS_FLOWS) {
  objects of;
  course<Flow> c(of.narrow);
  Flow twice{c.one};
  twice.sync(of.narrow, [&](IAsyncSteps& asi) {
    c.note(9);
    asi.sync(of.narrow, [&](IAsyncSteps&) { c.note(9); });
  });
  twice.execute();
  c.drain();
  c.add(c.one);
  c.drain();
  c.one.deferred(100ms, [&] { twice.cancel(); });
  c.pass(300ms);
  CHECK(c.order == places{9, 0});
  CHECK(c.periods == times{0, 1});
}

TEST_CASE("rule 18: a flow on a pool that times out in the turn that lets it in passes its entry on") {
  using clock = std::chrono::steady_clock;
  constexpr auto period = 50ms;
  for (bool met = false; !met;) {  // until the turn begins after both moments
    async::threadpool pool(1);
    Throttle throttle(1, period);
    bool has_entered = false;
    bool is_passed_on = false;
    steps::post(pool, [&](IAsyncSteps& asi) { asi.sync(throttle, [](IAsyncSteps&) {}); }).get();
    steps::post(pool, [&](IAsyncSteps& asi) {
      asi.add(
          [&](IAsyncSteps& waiting) {
            waiting.setTimeout(period + 1ms);
            waiting.sync(throttle, [&](IAsyncSteps&) { has_entered = true; });
            pool.post([until = clock::now() + period + 5ms] {
              while (clock::now() < until) std::this_thread::yield();
            });
          },
          [&](IAsyncSteps& late, ErrorCode) {
            is_passed_on = throttle.try_enter(false) == steps::ISync::entry::entered;
            late.success();
          });
    }).get();
    met = !has_entered;
    CHECK(is_passed_on == met);
  }
}

TEST_CASE(
    "a throttle whose period is zero rejects nobody, also no flow whose time is earlier than that of the last entry") {
  async::manual_clock ahead(async::manual_clock::time_point(1h));
  async::manual_clock behind(async::manual_clock::time_point(1min));
  Throttle throttle(1, 0ns, 0);
  steps::Limiter limiter({.rate = 1, .period = 0ns, .burst = 0});
  for (steps::ISync* object : {static_cast<steps::ISync*>(&throttle), static_cast<steps::ISync*>(&limiter)}) {
    int entered = 0;
    for (async::manual_clock* clock : {&ahead, &behind, &ahead, &behind, &behind}) {
      event_loop loop(*clock);
      steps::AsyncSteps flow{loop};
      flow.sync(*object, [&entered](IAsyncSteps&) { ++entered; });
      flow.execute();
      loop.iterate();
    }
    CHECK(entered == 5);
  }
}
