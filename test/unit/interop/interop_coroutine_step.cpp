// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "steps/interop/coroutine.hpp"
#include "support/flows.hpp"
#include "support/live_count.hpp"

// Coroutines as steps. Across threads: interop_coroutine_threads.cpp. The awaiters: interop_coroutine.cpp.

using steps::ErrorCode;
using steps::IAsyncSteps;
using steps::interop::co;
using steps::interop::sleep_for;
using steps::interop::task;
using testing::bench;
using testing::lines;
using testing::noting_code;
using namespace std::chrono_literals;

namespace {

struct local : testing::live_count<local> {};

}  // namespace

TEST_CASE_TEMPLATE("results go in and out, across waits", Flow, STEPS_FLOWS) {
  bench b;
  std::string got;
  Flow flow{b.loop};
  flow.add([](IAsyncSteps& asi) { asi.success(20, std::make_unique<int>(3)); })
      .add(co([](IAsyncSteps& asi, int x, std::unique_ptr<int> y) -> task<std::string> {
        co_await sleep_for(asi.tool(), 5ms);
        x += *y;
        co_await sleep_for(asi.tool(), 5ms);
        co_return std::to_string(x);
      }))
      .add([&](IAsyncSteps&, const std::string& text) { got = text; });
  flow.execute();
  b.pass(9ms);
  CHECK(got.empty());
  b.pass(3ms);
  CHECK(got == "23");
  CHECK(b.unhandled.empty());
}

TEST_CASE_TEMPLATE("a coroutine that does not wait, and one without results", Flow, STEPS_FLOWS) {
  bench b;
  int got = 0;
  bool after = false;
  Flow flow{b.loop};
  flow.add(co([](IAsyncSteps&) -> task<int> { co_return 4; }))
      .add(co([&](IAsyncSteps&, int x) -> task<> {
        got = x;
        co_return;
      }))
      .add([&](IAsyncSteps&) { after = true; });
  flow.execute();
  b.drain();
  CHECK(got == 4);
  CHECK(after);
}

TEST_CASE_TEMPLATE("a coroutine's function may have captures, and is kept", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  {
    Flow flow{b.loop};
    auto text = std::make_unique<std::string>("kept");
    flow.add(co([&seen, text = std::move(text)](IAsyncSteps& asi) -> task<> {
      co_await sleep_for(asi.tool(), 1ms);
      seen.push_back(*text);
    }));
    flow.execute();
    b.pass(3ms);
  }
  CHECK(seen == lines{"kept"});
}

TEST_CASE_TEMPLATE("a step of co() that has a name may be added several times", Flow, STEPS_FLOWS) {
  bench b;
  int sum = 0;
  auto adds = co([&sum](IAsyncSteps& asi) -> task<> {
    co_await sleep_for(asi.tool(), 1ms);
    ++sum;
  });
  Flow flow{b.loop};
  flow.add(adds).add(std::as_const(adds)).add(std::move(adds));
  flow.execute();
  b.pass(10ms);
  CHECK(sum == 3);
}

TEST_CASE_TEMPLATE("an exception is the step's error, before a wait, after it, and from a task below", Flow,
                   STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  const auto note = [&seen](IAsyncSteps& asi, ErrorCode code) {
    seen.emplace_back(code);
    seen.emplace_back(asi.state().error_info());
    asi.success();
  };
  flow.add(co([](IAsyncSteps&) -> task<> {
             throw std::runtime_error("Early");
             co_return;
           }),
           note);
  flow.add(co([](IAsyncSteps& asi) -> task<> {
             co_await sleep_for(asi.tool(), 1ms);
             asi.error("Code", "info");
           }),
           note);
  flow.add(co([](IAsyncSteps& asi) -> task<> {
             const auto below = [](IAsyncSteps& s) -> task<int> {
               co_await sleep_for(s.tool(), 1ms);
               throw steps::Error("Below", "deep");
             };
             co_await below(asi);
           }),
           note);
  flow.add(co([](IAsyncSteps& asi) -> task<int> {
             co_await sleep_for(asi.tool(), 1ms);
             asi.errorNoThrow("Marked");
             co_return 1;
           }),
           note);
  flow.add(co([](IAsyncSteps& asi) -> task<> {
             co_await sleep_for(asi.tool(), 1ms);
             throw 1;
           }),
           note);
  flow.execute();
  b.pass(20ms);
  CHECK(seen == lines{"Early", "", "Code", "info", "Below", "deep", "Marked", "", "InternalError",
                      "an exception that is no std::exception"});
}

TEST_CASE_TEMPLATE("an error that the coroutine swallows after asi.error() stands", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.add(co([](IAsyncSteps& asi) -> task<int> {
             co_await sleep_for(asi.tool(), 1ms);
             try {
               asi.error("Stands");
             } catch (...) {
             }
             co_return 1;
           }),
           noting_code(seen));
  flow.execute();
  b.pass(5ms);
  CHECK(seen == lines{"Stands"});
}

TEST_CASE_TEMPLATE("a timeout destroys a coroutine where it waits: after cancel handlers, before the error handler",
                   Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  struct leaving {
    lines& to;
    ~leaving() { to.emplace_back("frame"); }
  };
  Flow flow{b.loop};
  flow.add(co([&seen](IAsyncSteps& asi) -> task<> {
             const leaving at_end{seen};
             asi.setTimeout(5ms);
             int mine = 7;
             asi.setCancel([&] { seen.push_back("cancel " + std::to_string(mine)); });
             co_await sleep_for(asi.tool(), 1ms);
             mine = 8;
             co_await sleep_for(asi.tool(), 1h);
             seen.emplace_back("never");
           }),
           noting_code(seen));
  flow.add([&](IAsyncSteps&) { seen.emplace_back("next"); });
  flow.execute();
  b.pass(20ms);
  CHECK(seen == lines{"cancel 8", "frame", "Timeout", "next"});
}

TEST_CASE_TEMPLATE("locals of a coroutine may refer to its stack() objects, in whatever way the step ends", Flow,
                   STEPS_FLOWS) {
  enum class end { success, early_success, success_from_outside, exception, error, timeout, cancel };
  struct noted {
    noted(lines& l, const char* n) : to(l), name(n) {}
    noted(const noted&) = delete;
    noted& operator=(const noted&) = delete;
    ~noted() { to.push_back(name + " ends"); }
    lines& to;
    const std::string name;
  };
  struct referring {
    noted& object;
    ~referring() { object.to.push_back("local of " + object.name); }
  };
  for (const end how : {end::success, end::early_success, end::success_from_outside, end::exception, end::error,
                        end::timeout, end::cancel}) {
    CAPTURE(static_cast<int>(how));
    bench b;
    lines seen;
    IAsyncSteps* step = nullptr;
    Flow flow{b.loop};
    flow.add(co([&](IAsyncSteps& asi) -> task<> {
               step = &asi;
               if (how == end::timeout) asi.setTimeout(5ms);
               const referring first{asi.stack<noted>(seen, "a")};
               asi.setCancel([&] { seen.emplace_back("cancel"); });
               co_await sleep_for(asi.tool(), 1ms);
               const referring second{asi.stack<noted>(seen, "b")};
               if (how == end::exception) throw std::runtime_error("mine");
               if (how == end::error) asi.error("mine");
               if (how == end::early_success) asi.success();
               if (how != end::success) co_await sleep_for(asi.tool(), 1h);
             }),
             noting_code(seen));
    flow.execute();
    b.pass(3ms);
    if (how == end::cancel) flow.cancel();
    if (how == end::success_from_outside) step->success();
    b.pass(20ms);
    lines expected{"local of b", "local of a", "b ends", "a ends"};
    if (how == end::timeout || how == end::cancel) expected.insert(expected.begin(), "cancel");
    if (how == end::exception || how == end::error) expected.insert(expected.begin() + 2, "cancel");
    if (how == end::timeout) expected.emplace_back("Timeout");
    if (how == end::exception || how == end::error) expected.emplace_back("mine");
    CHECK(seen == expected);
    CHECK(b.unhandled.empty());
  }
}

TEST_CASE_TEMPLATE("a parameter of a coroutine may refer to its stack() objects", Flow, STEPS_FLOWS) {
  struct using_text {
    std::string* text = nullptr;
    std::string* to = nullptr;
    using_text(std::string& last) : to(&last) {}
    using_text(using_text&& other) noexcept : text(std::exchange(other.text, nullptr)), to(other.to) {}
    using_text& operator=(using_text&&) = delete;
    ~using_text() {
      if (text != nullptr) *to = *text;
    }
  };
  bench b;
  std::string last;
  const auto body = [](IAsyncSteps& asi, using_text guard) -> task<> {
    guard.text = &asi.stack<std::string>(50U, 'z');
    co_await sleep_for(asi.tool(), 1ms);
  };
  Flow flow{b.loop};
  flow.add(co([&](IAsyncSteps& asi) { return body(asi, using_text(last)); }));
  flow.execute();
  b.pass(5ms);
  CHECK(last == std::string(50, 'z'));
}

TEST_CASE_TEMPLATE("a timeout may be set after a wait, and recovered from around the step", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.add(
      [](IAsyncSteps& asi) {
        asi.add(co([](IAsyncSteps& inner) -> task<> {
          co_await sleep_for(inner.tool(), 3ms);
          inner.setTimeout(3ms);
          co_await sleep_for(inner.tool(), 1ms);
          co_await sleep_for(inner.tool(), 1h);
        }));
      },
      noting_code(seen));
  flow.execute();
  b.pass(5ms);
  CHECK(seen.empty());
  b.pass(3ms);
  CHECK(seen == lines{"Timeout"});
}

TEST_CASE_TEMPLATE("cancel at each wait destroys the coroutine and those that it awaits", Flow, STEPS_FLOWS) {
  for (int waits = 0; waits <= 6; ++waits) {
    CAPTURE(waits);
    bench b;
    bool finished = false;
    {
      Flow flow{b.loop};
      flow.add(co([&finished](IAsyncSteps& asi) -> task<> {
        const local outer;
        const auto below = [](IAsyncSteps& s, local) -> task<int> {
          const local inner;
          co_await sleep_for(s.tool(), 10ms);
          co_await steps::interop::schedule(s.tool());
          co_await sleep_for(s.tool(), 10ms);
          co_return 1;
        };
        co_await below(asi, local());
        co_await sleep_for(asi.tool(), 10ms);
        co_await below(asi, local());
        finished = true;
      }));
      flow.execute();
      b.drain();
      b.pass(10ms * waits + 5ms);
      if (waits == 6) {
        CHECK(finished);
      } else if (waits < 5) {
        CHECK_FALSE(finished);
        CHECK(local::live() > 0);
      }
      if (waits % 2 == 0) flow.cancel();
    }
    CHECK(local::live() == 0);
    b.pass(100ms);
    CHECK(b.unhandled.empty());
  }
}

TEST_CASE_TEMPLATE("a coroutine that cancels its own flow runs on to its next wait", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.add(co([&](IAsyncSteps& asi) -> task<> {
    const local mine;
    co_await sleep_for(asi.tool(), 1ms);
    flow.cancel();
    seen.emplace_back(local::live() == 1 ? "alive" : "dead");
    co_await sleep_for(asi.tool(), 1ms);
    seen.emplace_back("never");
  }));
  flow.execute();
  b.pass(5ms);
  CHECK(seen == lines{"alive"});
  CHECK(local::live() == 0);
}

TEST_CASE_TEMPLATE("state(), stack(), success() and loops work in a coroutine", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.add([](IAsyncSteps& asi) { asi.state()["n"] = 0; });
  flow.loop(co([](IAsyncSteps& asi) -> task<> {
    co_await sleep_for(asi.tool(), 1ms);
    int& kept = asi.stack<int>(asi.template state<int>("n"));
    co_await sleep_for(asi.tool(), 1ms);
    asi.template state<int>("n") = kept + 1;
    if (kept == 4) asi.breakLoop();
  }));
  flow.add(co([](IAsyncSteps& asi) -> task<> {
    co_await sleep_for(asi.tool(), 1ms);
    asi.success(asi.template state<int>("n"));
  }));
  flow.add([&](IAsyncSteps&, int n) { seen.push_back(std::to_string(n)); });
  flow.execute();
  b.pass(30ms);
  CHECK(seen == lines{"5"});
  CHECK(b.unhandled.empty());
}

TEST_CASE("adding steps inside a coroutine is an InternalError") {
  bench b;
  lines seen;
  steps::AsyncSteps flow{b.loop};
  flow.add(co([](IAsyncSteps& asi) -> task<> {
             asi.add([](IAsyncSteps&) {});
             co_await sleep_for(asi.tool(), 1ms);
           }),
           noting_code(seen));
  flow.execute();
  b.pass(5ms);
  CHECK(seen == lines{"InternalError"});
}

TEST_CASE("co_await of a flow in a step: its value, its error, and its cancel with the step") {
  bench b;
  lines seen;
  steps::AsyncSteps flow{b.loop};
  bool cancelled = false;
  flow.add(co([](IAsyncSteps& asi) -> task<int> {
        const auto inner = asi.newInstance();
        inner->add([](IAsyncSteps& s) { s.success(6); });
        co_return co_await steps::interop::execute<int>(*inner);
      }))
      .add([&](IAsyncSteps&, int x) { seen.push_back(std::to_string(x)); })
      .add(co([](IAsyncSteps& asi) -> task<> {
             const auto inner = asi.newInstance();
             inner->add([](IAsyncSteps& s) { s.error("Inner", "why"); });
             co_await steps::interop::execute(*inner);
           }),
           [&](IAsyncSteps& asi, ErrorCode code) {
             seen.emplace_back(code);
             seen.emplace_back(asi.state().error_info());
             asi.success();
           })
      .add(co([&](IAsyncSteps& asi) -> task<> {
             asi.setTimeout(3ms);
             const auto inner = asi.newInstance();
             inner->add([&](IAsyncSteps& s) { s.setCancel([&] { cancelled = true; }); });
             co_await steps::interop::execute(*inner);
           }),
           noting_code(seen));
  flow.execute();
  b.pass(10ms);
  CHECK(seen == lines{"6", "Inner", "why", "Timeout"});
  CHECK(cancelled);
}

TEST_CASE("a coroutine that gives way by relinquish() may end, and a wait after it is InternalError") {
  bench b;
  lines seen;
  steps::AsyncSteps flow{b.loop};
  flow.add(co([](IAsyncSteps& asi) -> task<> {
    co_await steps::interop::sleep_for(asi.tool(), 1ms);
    asi.relinquish();
  }));
  flow.add(co([&](IAsyncSteps& asi) -> task<> {
             asi.relinquish();
             co_await steps::interop::sleep_for(asi.tool(), 1ms);
             seen.push_back("not reached");
           }),
           testing::noting(seen));
  flow.add([&](IAsyncSteps&) { seen.push_back("end"); });
  flow.execute();
  b.pass(10ms);
  CHECK(seen ==
        lines{"InternalError: a coroutine gives way by relinquish() and waits: co_await schedule(asi.tool())", "end"});
  CHECK(b.unhandled.empty());
}

TEST_CASE_TEMPLATE("a function of co() that gives away a task that it has not is the step's error", Flow, STEPS_FLOWS) {
  for (const bool awaited : {false, true}) {
    bench b;
    lines seen;
    std::string info;
    int runs = 0;
    const auto work = [&runs]() -> task<> {
      ++runs;
      co_return;
    };
    task<> kept = work();
    if (awaited) {
      const auto first = [](task<>& t) -> task<> { co_await std::move(t); };
      steps::interop::start(first(kept)).get();
    } else {
      const task<> taken = std::move(kept);
    }
    Flow flow{b.loop};
    flow.add(co([&kept](IAsyncSteps&) { return std::move(kept); }), [&](IAsyncSteps& asi, ErrorCode code) {
      seen.emplace_back(code.view());
      info = asi.state().error_info();
      asi.success();
    });
    flow.execute();
    b.drain();
    CHECK(seen == lines{"InternalError"});
    CHECK(info == "a task that has been moved from or awaited");
    CHECK(runs == (awaited ? 1 : 0));
  }
}
