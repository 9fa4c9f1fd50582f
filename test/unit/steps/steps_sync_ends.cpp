// SPDX-License-Identifier: BSL-1.0
//
// All ways out of a section of sync(), and all ends of a wait for it, give the place back once, and results arrive.
// Rules 18 and 29 to 32 of steps/RULES.md.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/flows.hpp"

using steps::ErrorCode;
using steps::IAsyncSteps;
using steps::Limiter;
using steps::Mutex;
using steps::Throttle;
using testing::bench;
using testing::counted;
using testing::lines;
using namespace std::chrono_literals;

namespace {

/// The number of flows that the object lets in at the same time, of ten that try.
template <class Flow>
int places(bench& b, steps::ISync& object) {
  int in = 0;
  std::vector<std::unique_ptr<Flow>> flows;
  for (int i = 0; i < 10; ++i) {
    flows.push_back(std::make_unique<Flow>(b.loop));
    flows.back()->sync(object, [&in](IAsyncSteps& asi) {
      ++in;
      asi.waitExternal();
    });
    flows.back()->state().set_unhandled_error([](ErrorCode) {});
    flows.back()->execute();
  }
  b.drain();
  return in;
}

Limiter::Params two_at_a_time() {
  Limiter::Params p;
  p.concurrent = 2;
  p.max_queue = 20;
  p.rate = 1000;
  p.period = 10ms;
  return p;
}

struct way {
  const char* name;
  std::function<void(IAsyncSteps&)> leave;
};

/// Ways out of a section; those that wait end by the timeout around the loop.
const std::vector<way>& ways() {
  static const std::vector<way> all{
      {"return", [](IAsyncSteps&) {}},
      {"success", [](IAsyncSteps& asi) { asi.success(1, "two"); }},
      {"sub-steps", [](IAsyncSteps& asi) { asi.add([](IAsyncSteps& sub) { sub.relinquish(); }); }},
      {"error", [](IAsyncSteps& asi) { asi.error("MyError"); }},
      {"errorNoThrow", [](IAsyncSteps& asi) { asi.errorNoThrow("MyError"); }},
      {"an exception", [](IAsyncSteps&) { throw std::runtime_error("MyError"); }},
      {"an error of a sub-step", [](IAsyncSteps& asi) { asi.add([](IAsyncSteps& sub) { sub.error("MyError"); }); }},
      {"an error of a branch",
       [](IAsyncSteps& asi) { asi.parallel().add([](IAsyncSteps& sub) { sub.error("MyError"); }); }},
      {"breakLoop", [](IAsyncSteps& asi) { asi.breakLoop(); }},
      {"continueLoop", [](IAsyncSteps& asi) { asi.continueLoop(); }},
      {"breakLoop of an outer loop", [](IAsyncSteps& asi) { asi.loop([](IAsyncSteps& i) { i.breakLoop("outer"); }); }},
      {"a timeout", [](IAsyncSteps& asi) { asi.setTimeout(1ms); }},
      {"an outer timeout", [](IAsyncSteps& asi) { asi.waitExternal(); }},
      {"misuse", [](IAsyncSteps& asi) {
         asi.success();
         asi.success();
       }}};
  return all;
}

}  // namespace

TEST_CASE_TEMPLATE("a place is given back once, however the section is left", Flow, STEPS_FLOWS) {
  for (const bool handled : {false, true}) {
    for (const bool nested : {false, true}) {
      for (const way& w : ways()) {
        CAPTURE(w.name);
        CAPTURE(handled);
        CAPTURE(nested);
        bench b;
        Mutex mutex(2);
        Limiter limiter(two_at_a_time());
        Throttle throttle(1000, 10ms);
        for (steps::ISync* object : {static_cast<steps::ISync*>(&mutex), static_cast<steps::ISync*>(&limiter),
                                     static_cast<steps::ISync*>(&throttle)}) {
          Flow flow{b.loop};
          flow.add([&](IAsyncSteps& asi) {
            asi.setTimeout(5ms);
            asi.repeat(
                3,
                [&](IAsyncSteps& round, std::size_t) {
                  const auto section = [&](IAsyncSteps& in) {
                    if (nested) {
                      in.sync(*object, w.leave);
                    } else {
                      w.leave(in);
                    }
                  };
                  if (handled) {
                    round.sync(*object, section, [](IAsyncSteps& in, ErrorCode code) {
                      if (code == "MyError") in.success();
                    });
                  } else {
                    round.sync(*object, section);
                  }
                },
                "outer");
          });
          flow.state().set_unhandled_error([](ErrorCode) {});
          flow.execute();
          b.pass(20ms);
          CHECK(places<Flow>(b, *object) == (object == &throttle ? 10 : 2));
        }
      }
    }
  }
}

TEST_CASE_TEMPLATE("a flow that is cancelled or destroyed inside gives its place to the next", Flow, STEPS_FLOWS) {
  bench b;
  Mutex mutex;
  for (const bool destroy : {false, true}) {
    auto first = std::make_unique<Flow>(b.loop);
    Flow second{b.loop};
    lines seen;
    first->sync(mutex, [&](IAsyncSteps& asi) {
      asi.sync(mutex, [&](IAsyncSteps& in) { in.setCancel([&] { seen.push_back("cancelled"); }); });
    });
    second.sync(mutex, [&](IAsyncSteps&) { seen.push_back("second"); });
    first->execute();
    second.execute();
    b.drain();
    if (destroy) {
      first.reset();
    } else {
      first->cancel();
    }
    CHECK(seen == lines{"cancelled"});
    b.drain();
    CHECK(seen == lines{"cancelled", "second"});
    first.reset();
    CHECK(places<Flow>(b, mutex) == 1);
  }
}

TEST_CASE_TEMPLATE("rule 29: results are kept while the flow waits", Flow, STEPS_FLOWS) {
  bench b;
  Mutex mutex;
  Flow holder{b.loop};
  holder.sync(mutex, [](IAsyncSteps& asi) { asi.waitExternal(); });
  holder.execute();
  b.drain();
  std::string seen;
  Flow flow{b.loop};
  flow.add([](IAsyncSteps& asi) { asi.success(std::make_unique<int>(4), "two"); });
  flow.sync(mutex, [](IAsyncSteps& asi, std::unique_ptr<int> number, const std::string& text) {
    asi.add([n = *number, text](IAsyncSteps& sub) { sub.success(text + std::to_string(n)); });
  });
  flow.add([&](IAsyncSteps&, std::string&& text) { seen = text; });
  flow.execute();
  b.pass(5ms);
  CHECK(seen == "");
  holder.cancel();
  b.drain();
  CHECK(seen == "two4");
}

TEST_CASE_TEMPLATE("rule 29: results are destroyed when the wait ends before their step runs", Flow, STEPS_FLOWS) {
  const int before = counted::alive;
  {
    bench b;
    Mutex mutex(0);
    Flow flow{b.loop};
    flow.add([](IAsyncSteps& asi) {
      asi.setTimeout(5ms);
      asi.add([](IAsyncSteps& in) { in.success(counted()); });
      asi.sync(*asi.state<Mutex*>("mutex"), [](IAsyncSteps&, counted) {});
    });
    flow.state("mutex", &mutex);
    std::string code;
    flow.state().set_unhandled_error([&](ErrorCode c) { code = c; });
    flow.execute();
    b.drain();
    CHECK(counted::alive == before + 1);
    b.pass(10ms);
    CHECK(code == "Timeout");
    CHECK(counted::alive == before);
    flow.execute();
    b.drain();
    flow.cancel();
    CHECK(counted::alive == before);
  }
  CHECK(counted::alive == before);
}

TEST_CASE_TEMPLATE("rule 29: a rejection goes to the enclosing handler, not to that of the section", Flow,
                   STEPS_FLOWS) {
  bench b;
  Mutex mutex(0, 0);
  Throttle throttle(0, 10ms, 0);
  Limiter limiter([] {
    Limiter::Params p = two_at_a_time();
    p.concurrent = 0;
    p.max_queue = 0;
    return p;
  }());
  for (steps::ISync* object : {static_cast<steps::ISync*>(&mutex), static_cast<steps::ISync*>(&throttle),
                               static_cast<steps::ISync*>(&limiter)}) {
    lines seen;
    Flow flow{b.loop};
    flow.add(
        [&](IAsyncSteps& asi) {
          asi.sync(
              *object, [&](IAsyncSteps&) { seen.push_back("in"); },
              [&](IAsyncSteps&, ErrorCode) { seen.push_back("own handler"); });
        },
        [&](IAsyncSteps& asi, ErrorCode code) {
          seen.push_back(std::string(code));
          CHECK(asi.state().error_info() != "");
          asi.success();
        });
    flow.add([&](IAsyncSteps&) { seen.push_back("on"); });
    flow.execute();
    b.drain();
    CHECK(seen == lines{"DefenseRejected", "on"});
  }
}

TEST_CASE_TEMPLATE("a timeout while a flow waits for a throttle or limiter leaves the queue to the others", Flow,
                   STEPS_FLOWS) {
  bench b;
  Throttle throttle(1, 100ms, 10);
  Limiter limiter([] {
    Limiter::Params p;
    p.concurrent = 1;
    p.max_queue = 10;
    p.rate = 1;
    p.period = 100ms;
    p.burst = 10;
    return p;
  }());
  for (steps::ISync* object : {static_cast<steps::ISync*>(&throttle), static_cast<steps::ISync*>(&limiter)}) {
    lines seen;
    std::vector<std::unique_ptr<Flow>> flows;
    for (int i = 0; i < 4; ++i) {
      flows.push_back(std::make_unique<Flow>(b.loop));
      flows.back()->add(
          [&, i](IAsyncSteps& asi) {
            if (i % 2 == 1) asi.setTimeout(50ms);
            asi.sync(*object, [&, i](IAsyncSteps&) { seen.push_back(std::to_string(i)); });
          },
          [&, i](IAsyncSteps& asi, ErrorCode code) {
            seen.push_back(std::to_string(i) + " " + std::string(code));
            asi.success();
          });
      flows.back()->execute();
    }
    b.pass(150ms);
    CHECK(seen == lines{"0", "1 Timeout", "3 Timeout", "2"});
    b.pass(300ms);
  }
}

TEST_CASE_TEMPLATE("branches of one flow pass a mutex one after the other", Flow, STEPS_FLOWS) {
  bench b;
  Mutex mutex;
  int inside = 0;
  int most = 0;
  int passed = 0;
  Flow flow{b.loop};
  IAsyncSteps& branches = flow.parallel();
  for (int i = 0; i < 3; ++i) {
    branches.sync(mutex, [&](IAsyncSteps& asi) {
      most = (std::max)(most, ++inside);
      asi.relinquish();
      asi.sync(mutex, [&](IAsyncSteps& in) { in.relinquish(); });
      asi.add([&](IAsyncSteps&) {
        --inside;
        ++passed;
      });
    });
  }
  flow.execute();
  b.drain();
  CHECK(most == 1);
  CHECK(passed == 3);
}

TEST_CASE("rule 32: flows of two loops take two mutexes in opposite order, and both loops go on") {
  bench one;
  bench two;
  Mutex first;
  Mutex second;
  int passed = 0;
  // Each flow gives its mutex back before it takes the next: only a blocking hand-over could stop them.
  const auto use = [&](Mutex& a, Mutex& c) {
    return [&](IAsyncSteps& asi, std::size_t) {
      asi.sync(a, [](IAsyncSteps& in) { in.relinquish(); });
      asi.sync(c, [](IAsyncSteps& in) { in.relinquish(); });
      asi.add([&](IAsyncSteps&) { ++passed; });
    };
  };
  steps::AsyncSteps left{one.loop};
  steps::AsyncSteps right{two.loop};
  left.repeat(10, use(first, second));
  right.repeat(10, use(second, first));
  left.execute();
  right.execute();
  for (int turn = 0; turn < 200; ++turn) {
    one.drain();
    two.drain();
  }
  CHECK(passed == 20);
}

TEST_CASE("a wait is granted on the waiting flow's loop, in a turn of it") {
  bench one;
  bench two;
  Mutex mutex;
  steps::AsyncSteps holder{one.loop};
  steps::AsyncSteps waiting{two.loop};
  bool in = false;
  holder.sync(mutex, [](IAsyncSteps& asi) { asi.waitExternal(); });
  waiting.sync(mutex, [&](IAsyncSteps& asi) {
    in = true;
    CHECK(async::event_loop::current() == &two.loop);
    CHECK(&asi.tool() == &two.loop);
  });
  holder.execute();
  one.drain();
  waiting.execute();
  two.drain();
  holder.cancel();
  one.drain();
  CHECK_FALSE(in);
  two.drain();
  CHECK(in);
}
