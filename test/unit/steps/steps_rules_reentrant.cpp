// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "support/flows.hpp"

// Users' functions that use the flow while the engine works on it: constructors of stack() objects, destructors of
// captures. Rules 6, 7 and 17 of steps/RULES.md; for results see steps_rules_ends.cpp.

using steps::ErrorCode;
using steps::IAsyncSteps;
using testing::bench;
using testing::lines;
using namespace std::chrono_literals;

namespace {

/// Calls a function at its end, once.
class on_end {
 public:
  explicit on_end(std::function<void()> f) : act_(std::move(f)) {}
  on_end(on_end&& other) noexcept : act_(std::exchange(other.act_, nullptr)) {}
  on_end(const on_end&) = delete;
  on_end& operator=(const on_end&) = delete;
  ~on_end() {
    if (act_) act_();
  }

 private:
  std::function<void()> act_;
};

/// A flow that captures of its steps cancel or destroy.
template <class Flow>
struct ended_flow {
  explicit ended_flow(bool d) : destroys(d), flow(std::make_unique<Flow>(b.loop)) {}

  void end() { destroys ? flow.reset() : flow->cancel(); }
  auto ends_it() {
    return [x = on_end([this] { end(); })](IAsyncSteps&) {};
  }
  auto notes_its_end() {
    return [x = on_end([this] { seen.push_back("dropped"); })](IAsyncSteps&) {};
  }
  auto notes(const char* what) {
    return [this, what](IAsyncSteps& asi, auto...) {
      seen.push_back(what);
      asi.success();
    };
  }
  /// The flow has ended as by cancel(), and can be used again unless it is gone.
  void check(const lines& expected) {
    CHECK(seen == expected);
    CHECK(b.unhandled.empty());
    if (destroys) return;
    flow->add([this](IAsyncSteps&) { seen.push_back("again"); });
    flow->execute();
    b.drain();
    CHECK(seen.back() == "again");
  }

  bool destroys;
  lines seen;
  bench b;
  std::unique_ptr<Flow> flow;
};

/// An action of a stack() object's constructor before it throws.
enum class before { making_an_object, adding_a_step, setting_a_timeout, setting_a_handler };

struct throwing {
  throwing(IAsyncSteps& asi, before what, lines& seen) {
    const std::string text = "a text that is longer than what fits into a string";
    switch (what) {
      case before::making_an_object:
        asi.stack<std::string>(text);
        break;
      case before::adding_a_step:
        asi.add([text, &seen](IAsyncSteps&) { seen.push_back("sub"); });
        break;
      case before::setting_a_timeout:
        asi.setTimeout(1s);
        break;
      case before::setting_a_handler:
        asi.setCancel([text, &seen] { seen.push_back("cancel"); });
    }
    asi.error("Refused");
  }
  std::byte room[64]{};
};

}  // namespace

TEST_CASE_TEMPLATE("rule 6: the constructor of a stack() object adds to its step, and throws", Flow, STEPS_FLOWS) {
  for (const auto what :
       {before::making_an_object, before::adding_a_step, before::setting_a_timeout, before::setting_a_handler}) {
    for (const bool steps_before : {false, true}) {
      CAPTURE(static_cast<int>(what));
      CAPTURE(steps_before);
      bench b;
      lines seen;
      Flow flow{b.loop};
      flow.add(
          [&](IAsyncSteps& asi) {
            if (steps_before) asi.add([text = std::string(60, 'x')](IAsyncSteps&) {});
            asi.stack<throwing>(asi, what, seen);
          },
          [&](IAsyncSteps& asi, ErrorCode code) {
            seen.emplace_back(code);
            asi.stack<std::string>("another text that is longer than what fits into a string");
            asi.add([&, text = std::string(60, 'y')](IAsyncSteps&) { seen.push_back(text.substr(0, 2)); });
          });
      flow.execute();
      b.pass(2000ms);
      lines expected{"Refused", "yy"};
      if (what == before::setting_a_handler) expected.insert(expected.begin(), "cancel");
      CHECK(seen == expected);
      CHECK(b.unhandled.empty());

      seen.clear();
      flow.add([&](IAsyncSteps& asi) {
        try {
          asi.stack<throwing>(asi, what, seen);
        } catch (const steps::Error&) {
          seen.push_back("caught");
        }
        asi.stack<std::string>("another text that is longer than what fits into a string");
      });
      flow.execute();
      b.drain();
      CHECK(seen.front() == "caught");
      CHECK(b.unhandled == lines{"Refused"});
    }
  }
}

TEST_CASE_TEMPLATE("rule 17: captures of a sub-step cancel or destroy the flow as an error drops them", Flow,
                   STEPS_FLOWS) {
  for (const bool destroys : {false, true}) {
    ended_flow<Flow> f(destroys);
    f.flow->add(
        [&](IAsyncSteps& asi) {
          asi.setCancel([&] { f.seen.push_back("cancel"); });
          asi.add(f.ends_it());
          asi.errorNoThrow("E");
        },
        f.notes("handler"));
    f.flow->add(f.notes("next"));
    f.flow->execute();
    f.b.drain();
    f.check({"cancel"});
  }
}

TEST_CASE_TEMPLATE("rule 17: captures of a sub-step cancel or destroy the flow as a timeout drops them", Flow,
                   STEPS_FLOWS) {
  for (const bool destroys : {false, true}) {
    ended_flow<Flow> f(destroys);
    f.flow->add(
        [&](IAsyncSteps& asi) {
          asi.setTimeout(1ms);
          asi.add([](IAsyncSteps& step) { step.relinquish(); });
          asi.add([&](IAsyncSteps& step) {
            step.relinquish();
            step.add(f.ends_it());
            step.add(f.notes_its_end());
            f.seen.push_back("gave way");
          });
        },
        f.notes("handler"));
    f.flow->execute();
    f.b.loop.iterate();
    f.b.loop.iterate();
    CHECK(f.seen == lines{"gave way"});
    f.b.clock.advance(2ms);
    f.b.drain();
    f.check({"gave way", "dropped"});
  }
}

TEST_CASE_TEMPLATE("rule 17: captures of steps cancel or destroy the flow as a mistake drops them", Flow, STEPS_FLOWS) {
  for (const bool destroys : {false, true}) {
    for (const bool before_start : {false, true}) {
      CAPTURE(before_start);
      ended_flow<Flow> f(destroys);
      f.flow->add(f.ends_it());
      f.flow->add(f.notes_its_end());
      if (before_start) f.flow->setTimeout(1ms);
      f.flow->execute();
      if (!before_start) f.flow->execute();
      f.b.drain();
      f.check({"dropped"});
    }
  }
}

TEST_CASE_TEMPLATE("rule 17: captures of a branch cancel or destroy the flow as a mistake drops them", Flow,
                   STEPS_FLOWS) {
  for (const bool destroys : {false, true}) {
    ended_flow<Flow> f(destroys);
    f.flow->add(
        [&](IAsyncSteps& asi) {
          asi.setCancel([&] { f.seen.push_back("cancel"); });
          auto& outer = asi.parallel();
          outer.add(f.notes_its_end());
          auto& inner = outer.parallel();
          inner.add(f.ends_it());
          inner.waitExternal();
          outer.add(f.notes_its_end());
        },
        f.notes("handler"));
    f.flow->execute();
    f.b.drain();
    f.check({"dropped", "dropped", "cancel"});
  }
}

TEST_CASE("rule 17: a flow is cancelled after a mistake between two of its steps: each is destroyed once") {
  bench b;
  int destroyed = 0;
  const auto step = [&destroyed] { return [x = on_end([&destroyed] { ++destroyed; })](IAsyncSteps&) {}; };
  steps::NitroSteps<steps::nitro::BurstSize<1>> flow{b.loop};
  flow.add(step()).add(step()).add(step());
  steps::AsyncSteps other{b.loop};
  other.add([&](IAsyncSteps&) {
    CHECK(destroyed == 1);
    flow.execute();
    flow.cancel();
    CHECK(destroyed == 3);
  });
  flow.execute();
  other.execute();
  b.drain();
  CHECK(destroyed == 3);
  CHECK(b.unhandled.empty());
}

TEST_CASE_TEMPLATE("rule 17: a flow is cancelled before its start, and used wrongly: nothing is raised", Flow,
                   STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  const auto note = [&](IAsyncSteps&) { seen.push_back("ran"); };
  flow.add(note);
  std::thread([&] { flow.execute(); }).join();
  flow.cancel();
  flow.add(note);
  b.drain();
  CHECK(seen.empty());
  CHECK(b.unhandled.empty());
  CHECK(static_cast<bool>(flow));
}

TEST_CASE_TEMPLATE("rule 7: an object of the last execution that uses the flow in its destructor makes a mistake", Flow,
                   STEPS_FLOWS) {
  for (const bool executes : {false, true}) {
    bench b;
    lines seen;
    Flow flow{b.loop};
    const auto note = [&](IAsyncSteps&) { seen.push_back("ran"); };
    flow.template stack<on_end>([&] {
      seen.push_back("left");
      if (executes) return flow.execute();
      flow.add(note);
    });
    flow.add(note);
    flow.execute();
    b.drain();
    CHECK(seen == lines{"ran"});
    flow.add(note).add(note);
    CHECK(seen == lines{"ran", "left"});
    flow.execute();
    b.drain();
    CHECK(seen == lines{"ran", "left"});
    CHECK(b.unhandled == lines{"InternalError"});
    flow.add(note);
    flow.execute();
    b.drain();
    CHECK(seen == lines{"ran", "left", "ran"});
  }
}

namespace {

/// Calls a function, unless null, when it is copied or moved.
struct on_copy {
  explicit on_copy(std::function<void()>* f) : act(f) {}
  on_copy(const on_copy& other) : act(other.act) { call(); }
  on_copy(on_copy&& other) noexcept : act(other.act) { call(); }
  on_copy& operator=(const on_copy&) = delete;
  ~on_copy() = default;
  void operator()() const {}
  void call() const {
    if (*act) std::exchange(*act, nullptr)();
  }
  std::function<void()>* act;
};

}  // namespace

TEST_CASE_TEMPLATE("rule 17: a flow is cancelled or destroyed as its results are moved to a step", Flow, STEPS_FLOWS) {
  for (const bool destroys : {false, true}) {
    ended_flow<Flow> f(destroys);
    std::function<void()> act;
    f.flow->add([&](IAsyncSteps& asi) {
      asi.success(std::string(60, 'a'), on_copy(&act), std::string(60, 'b'));
      act = [&f] { f.end(); };
    });
    f.flow->add([&](IAsyncSteps&, std::string, on_copy, std::string) { f.seen.push_back("next"); });
    f.flow->execute();
    f.b.drain();
    CHECK(!act);
    CHECK(f.seen.empty());
    f.check({});
  }
}

TEST_CASE_TEMPLATE("rule 17: a flow is cancelled as a cancel handler takes the place of another", Flow, STEPS_FLOWS) {
  ended_flow<Flow> f(false);
  std::function<void()> act;
  f.flow->add([&](IAsyncSteps& asi) {
    const on_copy second(&act);
    asi.setCancel([&] { f.seen.push_back("cancel"); });
    act = [&f] { f.end(); };
    asi.setCancel(second);
  });
  f.flow->execute();
  f.b.drain();
  CHECK(!act);
  f.check({"cancel"});
}

namespace {

/// A function whose copy does something to the flow.
struct meddling {
  explicit meddling(std::function<void()> f) : on_copy(std::move(f)) {}
  meddling(const meddling& other) : on_copy(other.on_copy) {
    if (on_copy) std::exchange(on_copy, nullptr)();
  }
  meddling(meddling&&) = default;
  ~meddling() = default;
  meddling& operator=(const meddling&) = delete;
  meddling& operator=(meddling&&) = delete;
  void operator()(IAsyncSteps&) const { ++*calls; }

  std::function<void()> on_copy;
  std::shared_ptr<int> calls = std::make_shared<int>(0);
};

}  // namespace

TEST_CASE_TEMPLATE("a function whose copy adds a step runs before that step", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.add([&](IAsyncSteps& asi) {
    const meddling f([&] { asi.add([&](IAsyncSteps&) { seen.push_back("added by the copy"); }); });
    asi.add(f);
    asi.add([&](IAsyncSteps&) { seen.push_back("last"); });
  });
  const meddling at_root([&] { flow.add([&](IAsyncSteps&) { seen.push_back("added to the root"); }); });
  flow.add(at_root);
  flow.execute();
  b.drain();
  CHECK(seen == lines{"added by the copy", "last", "added to the root"});
  CHECK(b.unhandled.empty());
}

TEST_CASE_TEMPLATE("a function whose copy ends the step is not added: that is a mistake", Flow, STEPS_FLOWS) {
  bench b;
  Flow flow{b.loop};
  std::weak_ptr<int> kept;
  flow.add([&](IAsyncSteps& asi) {
    meddling f([&] { asi.success(); });
    kept = f.calls;
    asi.add(std::as_const(f));
  });
  flow.execute();
  b.drain();
  CHECK(b.unhandled == lines{"InternalError"});
  CHECK(kept.expired());
}

namespace {

/// Uses a root in its destructor.
struct late_user {
  late_user(IAsyncSteps& of, std::function<void(IAsyncSteps&)> f) : root(&of), use(std::move(f)) {}
  late_user(late_user&& other) noexcept : root(std::exchange(other.root, nullptr)), use(std::move(other.use)) {}
  late_user& operator=(late_user&&) = delete;
  ~late_user() {
    if (root == nullptr) return;
    try {
      use(*root);
    } catch (const steps::Error&) {  // a mistake
    }
  }
  IAsyncSteps* root;
  std::function<void(IAsyncSteps&)> use;
};

}  // namespace

TEST_CASE_TEMPLATE("rule 17: captures, objects and values use the root as it is destroyed, which starts nothing", Flow,
                   STEPS_FLOWS) {
  lines seen;
  const auto note = [&](IAsyncSteps&) { seen.push_back("ran"); };
  const std::function<void(IAsyncSteps&)> uses[]{
      [](IAsyncSteps& root) { root.execute(); },    [](IAsyncSteps& root) { static_cast<void>(root.promise<void>()); },
      [&](IAsyncSteps& root) { root.add(note); },   [&](IAsyncSteps& root) { root.parallel().add(note); },
      [](IAsyncSteps& root) { root.cancel(); },     [](IAsyncSteps& root) { root.state()["key"] = 1; },
      [](IAsyncSteps& root) { root.onEnd([] {}); },
  };
  for (const auto& use : uses) {
    for (const bool executes : {false, true}) {
      for (const int where : {0, 1, 2, 3}) {
        CAPTURE(executes);
        CAPTURE(where);
        bench b;
        auto flow = std::make_unique<Flow>(b.loop);
        if (where == 0) flow->template stack<late_user>(*flow, use);
        if (where == 1) flow->state()["value"] = std::make_shared<late_user>(*flow, use);
        if (where == 3) {
          flow->state().set_unhandled_error([of = std::make_shared<late_user>(*flow, use)](steps::ErrorCode) {});
        }
        flow->add(
            [of = late_user(*flow, where == 2 ? use : [](IAsyncSteps&) {})](IAsyncSteps& asi) { asi.waitExternal(); });
        if (executes) flow->execute();
        b.drain();
        flow.reset();
        b.drain();
        CHECK(seen.empty());
        CHECK(b.unhandled.empty());
      }
    }
  }
}
