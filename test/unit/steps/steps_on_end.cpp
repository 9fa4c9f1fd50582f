// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "async/threadpool.hpp"
#include "support/flows.hpp"

// onEnd(): functions that are called when a step has ended. Rule 10 of steps/RULES.md.

using steps::ErrorCode;
using steps::IAsyncSteps;
using testing::bench;
using testing::lines;
using namespace std::chrono_literals;

namespace {

/// Notes its end.
struct noted {
  noted(lines& l, std::string t) : seen(l), text(std::move(t)) {}
  noted(const noted&) = delete;
  noted& operator=(const noted&) = delete;
  ~noted() { seen.push_back(text); }
  lines& seen;
  std::string text;
};

}  // namespace

TEST_CASE_TEMPLATE(
    "rule 10: functions of onEnd() are called after a success, newest first, in turn with stack() objects", Flow,
    STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.add([&](IAsyncSteps& asi) {
    asi.onEnd([&] { seen.push_back("first"); });
    asi.stack<noted>(seen, "object");
    asi.onEnd([&, owned = std::make_unique<int>(2)] { seen.push_back("second " + std::to_string(*owned)); });
    asi.add([&](IAsyncSteps& inner) {
      inner.onEnd([&] { seen.push_back("inner"); });
      inner.success(7);
    });
    asi.add([&](IAsyncSteps& last, int seven) {
      seen.push_back("last");
      last.success(seven);
    });
  });
  flow.add([&](IAsyncSteps&, int seven) { seen.push_back("next " + std::to_string(seven)); });
  flow.add([&](IAsyncSteps& asi) { asi.onEnd([&] { seen.push_back("not held"); }); });
  flow.execute();
  b.drain();
  CHECK(seen == lines{"inner", "last", "second 2", "object", "first", "next 7", "not held"});
  CHECK(bool(flow));
}

TEST_CASE_TEMPLATE("rule 10: functions of onEnd() are called after cancel and error handlers", Flow, STEPS_FLOWS) {
  for (const bool by_timeout : {false, true}) {
    bench b;
    lines seen;
    Flow flow{b.loop};
    flow.add(
        [&](IAsyncSteps& asi) {
          asi.onEnd([&] { seen.push_back("end"); });
          asi.setCancel([&] { seen.push_back("cancel"); });
          if (by_timeout) return asi.setTimeout(1ms);
          asi.add([&](IAsyncSteps& inner) {
            inner.onEnd([&] { seen.push_back("inner"); });
            inner.error("E");
          });
        },
        [&](IAsyncSteps& asi, ErrorCode code) {
          seen.emplace_back(code);
          asi.onEnd([&] { seen.push_back("of the handler"); });
          asi.add([&](IAsyncSteps&) { seen.push_back("instead"); });
        });
    flow.add([&](IAsyncSteps&) { seen.push_back("next"); });
    flow.execute();
    b.pass(2ms);
    lines expected{"cancel", by_timeout ? "Timeout" : "E", "instead", "of the handler", "end", "next"};
    if (!by_timeout) expected.insert(expected.begin(), "inner");
    CHECK(seen == expected);
  }
}

TEST_CASE_TEMPLATE("rule 10: cancel() and destruction call the functions of onEnd() of all active steps", Flow,
                   STEPS_FLOWS) {
  for (const bool destroys : {false, true}) {
    bench b;
    lines seen;
    auto flow = std::make_unique<Flow>(b.loop);
    flow->add([&](IAsyncSteps& asi) {
      asi.onEnd([&] { seen.push_back("outer"); });
      asi.add([&](IAsyncSteps& inner) {
        inner.onEnd([&] { seen.push_back("inner"); });
        inner.setCancel([&] { seen.push_back("cancel"); });
      });
      asi.add([&](IAsyncSteps& never) { never.onEnd([&] { seen.push_back("never"); }); });
    });
    flow->execute();
    b.drain();
    CHECK(seen.empty());
    destroys ? flow.reset() : flow->cancel();
    CHECK(seen == lines{"cancel", "inner", "outer"});
  }
}

TEST_CASE_TEMPLATE("rule 10: each iteration and branch calls its functions of onEnd()", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.repeat(3, [&](IAsyncSteps& asi, std::size_t i) {
    asi.onEnd([&, i] { seen.push_back(std::to_string(i)); });
    if (i == 1) asi.breakLoop();
  });
  auto& branches = flow.race();
  for (const char* name : {"a", "b"}) {
    branches.add([&, name](IAsyncSteps& asi) {
      asi.onEnd([&, name] { seen.push_back(name); });
      if (*name == 'a') asi.waitExternal();
    });
  }
  flow.execute();
  b.drain();
  CHECK(seen == lines{"0", "1", "b", "a"});
}

TEST_CASE_TEMPLATE("an exception of a function of onEnd() is an unhandled error, and the flow goes on", Flow,
                   STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.add([](IAsyncSteps& asi) { asi.onEnd([] { throw std::runtime_error("thrown"); }); },
           [&](IAsyncSteps&, ErrorCode) { seen.push_back("handler"); });
  flow.add([&](IAsyncSteps&) { seen.push_back("next"); });
  flow.execute();
  b.drain();
  CHECK(seen == lines{"next"});
  CHECK(b.unhandled == lines{"thrown"});
}

TEST_CASE_TEMPLATE("a flow's future is ready before on_unhandled() gets the exception of a function of onEnd()", Flow,
                   STEPS_FLOWS) {
  bench b;
  Flow flow{b.loop};
  flow.add([](IAsyncSteps& asi) { asi.onEnd([] { throw std::runtime_error("thrown"); }); });
  const async::future<void> end = flow.promise();
  bool was_ready = false;
  b.loop.on_unhandled([&](std::exception_ptr) { was_ready = end.is_ready(); });
  b.drain();
  CHECK(was_ready);
}

TEST_CASE_TEMPLATE("rule 10: onEnd() and stack() of a root end when the next execution is built, or with the flow",
                   Flow, STEPS_FLOWS) {
  enum class at { build, execute, end };
  for (const at when : {at::build, at::execute, at::end}) {
    for (const bool cancels : {false, true}) {
      CAPTURE(static_cast<int>(when));
      CAPTURE(cancels);
      bench b;
      lines seen;
      auto flow = std::make_unique<Flow>(b.loop);
      flow->onEnd([&] { seen.push_back("function"); });
      flow->template stack<noted>(seen, "object");
      flow->add([cancels](IAsyncSteps& asi) {
        if (cancels) asi.waitExternal();
      });
      flow->execute();
      b.drain();
      if (cancels) flow->cancel();
      CHECK(bool(*flow));
      CHECK(seen.empty());
      switch (when) {
        case at::build:
          flow->add([](IAsyncSteps&) {});
          break;
        case at::execute:
          flow->execute();
          break;
        case at::end:
          flow.reset();
      }
      CHECK(seen == lines{"object", "function"});
    }
  }
}

TEST_CASE_TEMPLATE("a function of onEnd() cancels or destroys its flow", Flow, STEPS_FLOWS) {
  for (const bool destroys : {false, true}) {
    bench b;
    lines seen;
    auto flow = std::make_unique<Flow>(b.loop);
    flow->add([&](IAsyncSteps& asi) {
      asi.onEnd([&] { seen.push_back("older"); });
      asi.onEnd([&, object = std::make_shared<int>()] {
        destroys ? flow.reset() : flow->cancel();
        seen.push_back(std::to_string(object.use_count()));
      });
    });
    flow->add([&](IAsyncSteps&) { seen.push_back("next"); });
    flow->execute();
    b.drain();
    CHECK(seen == lines{"1", "older"});
  }
}

TEST_CASE("a flow with fixed memory has room for as many functions of onEnd() as for stack() objects") {
  bench b;
  lines seen;
  steps::NitroSteps<steps::nitro::MaxStackAllocs<1>> flow{b.loop};
  flow.add(
      [&](IAsyncSteps& asi) {
        asi.onEnd([&] { seen.push_back("first"); });
        asi.onEnd([&] { seen.push_back("second"); });
      },
      testing::noting(seen));
  flow.execute();
  b.drain();
  CHECK(seen == lines{"InternalError: the flow exceeds nitro::MaxStackAllocs", "first"});
}

TEST_CASE("functions of onEnd() of a flow on a pool are called once, whatever ends it") {
  async::threadpool pool(2);
  std::atomic<int> begun{0};
  std::atomic<int> calls{0};
  const auto note = [&](IAsyncSteps& asi) {
    ++begun;
    asi.onEnd([&calls] { ++calls; });
  };
  std::vector<async::future<void>> ends;
  for (int i = 0; i < 200; ++i) {
    ends.push_back(steps::post(pool, [&note, i](IAsyncSteps& asi) {
      note(asi);
      auto& branches = asi.parallel();
      for (int k = 0; k < 3; ++k) {
        branches.add([&note, i, k](IAsyncSteps& branch) {
          note(branch);
          branch.setTimeout(std::chrono::microseconds(i));
          if (k == 2 && i % 3 == 0) branch.errorNoThrow("E");
        });
      }
    }));
  }
  for (auto& end : ends) end.wait();
  CHECK(begun >= 200);
  CHECK(calls == begun);
}

TEST_CASE_TEMPLATE("an exception of onEnd() of a root on a pool that has no loop goes to the pool's hook", Flow,
                   STEPS_FLOWS) {
  for (const bool executes : {false, true}) {
    CAPTURE(executes);
    std::atomic<int> unhandled{0};
    async::threadpool_options o;
    o.on_unhandled = [&unhandled](std::exception_ptr) { ++unhandled; };
    o.threads = 1;
    async::threadpool pool(std::move(o));
    auto flow = std::make_unique<Flow>(pool);
    flow->onEnd([] { throw std::runtime_error("thrown"); });
    flow->add([](IAsyncSteps&) {});
    if (executes) flow->template promise<void>().get();
    pool.wait_idle();
    CHECK(unhandled == 0);
    flow.reset();
    CHECK(unhandled == 1);
  }
}

TEST_CASE_TEMPLATE("rule 6: a function of a root's onEnd() destroys the flow as its next execution is built", Flow,
                   STEPS_FLOWS) {
  enum class next { add, execute, promise, stack, destroy };
  for (const next what : {next::add, next::execute, next::promise, next::stack, next::destroy}) {
    for (const bool throws : {false, true}) {
      bench b;
      lines seen;
      auto flow = std::make_unique<Flow>(b.loop);
      Flow& was = *flow;
      if (throws) {
        flow->state().set_unhandled_error([&](ErrorCode code) {
          seen.emplace_back(code);
          flow.reset();
        });
      }
      flow->onEnd([&] { seen.push_back("older"); });
      flow->onEnd([&] {
        seen.push_back("end");
        if (throws) throw steps::Error("Thrown");
        flow.reset();
      });
      flow->add([](IAsyncSteps&) {});
      flow->execute();
      b.drain();
      if (what == next::add) was.add([&](IAsyncSteps&) { seen.push_back("ran"); });
      if (what == next::execute) was.execute();
      if (what == next::promise) CHECK_THROWS_AS(was.template promise<void>(), steps::Error);
      if (what == next::stack) CHECK_THROWS_AS(was.template stack<int>(1), steps::Error);
      if (what == next::destroy) flow.reset();
      b.drain();
      CHECK(flow == nullptr);
      CHECK(seen == (throws ? lines{"end", "Thrown", "older"} : lines{"end", "older"}));
    }
  }
}

TEST_CASE_TEMPLATE("rule 6: the last exception destroys the flow as its next execution begins", Flow, STEPS_FLOWS) {
  struct owning : std::exception {
    explicit owning(std::shared_ptr<Flow> f) : flow(std::move(f)) {}
    std::shared_ptr<Flow> flow;
  };
  bench b;
  bool ran = false;
  std::weak_ptr<Flow> seen;
  Flow* was = nullptr;
  {
    auto flow = std::shared_ptr<Flow>(std::make_unique<Flow>(b.loop));
    flow->add([flow](IAsyncSteps&) { throw owning(flow); }, [](IAsyncSteps& asi, ErrorCode) { asi.success(); });
    flow->execute();
    b.drain();
    seen = flow;
    was = flow.get();
  }
  REQUIRE(!seen.expired());
  was->add([&](IAsyncSteps&) { ran = true; });
  was->execute();
  b.drain();
  CHECK(seen.expired());
  CHECK(!ran);
}
