// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "async/threadpool.hpp"
#include "steps/mutex.hpp"
#include "support/ends_flow.hpp"
#include "support/flows.hpp"
#include "support/live_count.hpp"

// Users' functions that end the flow that calls them: a step its flow, a result's destructor the flow that drops it, a
// result's constructor the promise. Rules 17 and 19 of steps/RULES.md.

using steps::ErrorCode;
using steps::IAsyncSteps;
using testing::bench;
using testing::ends_flow;
using testing::lines;
using namespace std::chrono_literals;

namespace {

/// A result that cancels or destroys a flow when it is dropped.
template <class Flow>
class ender : testing::live_count<ender<Flow>> {
 public:
  ender(std::unique_ptr<Flow>& flow, bool destroys) noexcept : flow_(&flow), destroys_(destroys) {}
  ender(ender&& other) noexcept
      : testing::live_count<ender>(other), flow_(std::exchange(other.flow_, nullptr)), destroys_(other.destroys_) {}
  ~ender() {
    if (flow_ == nullptr) return;
    destroys_ ? flow_->reset() : (*flow_)->cancel();
  }
  using testing::live_count<ender<Flow>>::live;

 private:
  std::unique_ptr<Flow>* flow_;
  bool destroys_;
};

/// The same as an exception; a flow keeps the last one.
template <class Flow>
struct ending_error : std::exception {
  explicit ending_error(ender<Flow>&& e) noexcept : by(std::move(e)) {}
  ender<Flow> by;
};

/// A flow that one of its results ends.
template <class Flow>
struct ending_flow {
  explicit ending_flow(bool d) : destroys(d) {}

  ender<Flow> result() { return ender<Flow>(flow, destroys); }
  /// A step that must not run.
  auto too_late() {
    return [this](IAsyncSteps&) { ++late; };
  }
  auto handled_too_late() {
    return [this](IAsyncSteps&, ErrorCode) { ++late; };
  }
  template <class Build>
  void run(Build build) {
    flow->add(
        [this, build](IAsyncSteps& asi) {
          asi.setCancel([this](IAsyncSteps&) { ++cancelled; });
          build(asi);
        },
        handled_too_late());
    flow->add(too_late());
    end = flow->template promise<void>();
    b.pass(20ms);
  }
  void check() {
    CHECK(late == 0);
    CHECK(cancelled == 1);
    CHECK(ender<Flow>::live() == 0);
    CHECK(b.unhandled.empty());
    CHECK((flow == nullptr) == destroys);
    if (flow != nullptr) CHECK(static_cast<bool>(*flow));
    REQUIRE(end.wait_for(0s) == std::future_status::ready);
    CHECK_THROWS_AS(end.get(), std::future_error);
  }

  bool destroys;
  bench b;
  std::unique_ptr<Flow> flow = std::make_unique<Flow>(b.loop);
  std::future<void> end;
  int late = 0, cancelled = 0;
};

/// Throws at the move after which it cannot be moved again.
struct fragile {
  explicit fragile(int m) noexcept : moves_left(m) {}
  fragile(fragile&& other) : moves_left(other.moves_left - 1) {
    if (moves_left == 0) throw std::runtime_error("not moved");
  }
  int moves_left;
};

}  // namespace

TEST_CASE_TEMPLATE("rule 17: cancel() by a step has called the cancel handlers of all steps around when it returns",
                   Flow, STEPS_FLOWS) {
  for (const bool destroys : {false, true}) {
    for (const bool in_handler : {false, true}) {
      bench b;
      lines seen;
      auto flow = std::make_unique<Flow>(b.loop);
      const auto note = [&seen](std::string what) { return [&seen, what](IAsyncSteps&) { seen.push_back(what); }; };
      const auto end = [&] {
        destroys ? flow.reset() : flow->cancel();
        seen.push_back("returned");
      };
      flow->add([&](IAsyncSteps& outer) {
        outer.setCancel(note("outer"));
        outer.add([&](IAsyncSteps& between) {
          between.setTimeout(1h);
          between.add(
              [&](IAsyncSteps& inner) {
                inner.setCancel(note("inner"));
                if (in_handler) inner.error("Error");
                end();
                inner.add(note("sub-step"));
              },
              [&](IAsyncSteps&, ErrorCode) { end(); });
        });
        outer.add(note("next"));
      });
      flow->execute();
      b.pass(2ms);
      // An error calls the cancel handler of the step before its error handler.
      CHECK(seen == lines{"inner", "outer", "returned"});
      CHECK((flow == nullptr) == destroys);
    }
  }
}

TEST_CASE_TEMPLATE(
    "rule 17: cancel() by a cancel handler lets that step end before the handlers of the steps around run", Flow,
    STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.add([&](IAsyncSteps& outer) {
    outer.setCancel([&] { seen.emplace_back("outer"); });
    outer.add([&](IAsyncSteps& middle) {
      middle.setCancel([&] { seen.emplace_back("middle"); });
      middle.add([&](IAsyncSteps& inner) {
        inner.onEnd([&] { seen.emplace_back("inner end"); });
        inner.setCancel([&] {
          flow.cancel();
          seen.emplace_back("inner");
        });
        inner.error("Error");
      });
    });
  });
  flow.execute();
  b.drain();
  CHECK(seen == lines{"inner", "inner end", "middle", "outer"});
}

TEST_CASE_TEMPLATE("rule 17: steps that a handler has added before it cancels the flow are destroyed", Flow,
                   STEPS_FLOWS) {
  struct held : testing::live_count<held> {};
  bench b;
  Flow flow{b.loop};
  flow.add([](IAsyncSteps& asi) { asi.error("Error"); },
           [&flow](IAsyncSteps& asi, ErrorCode) {
             asi.add([h = held()](IAsyncSteps&) {});
             flow.cancel();
           });
  flow.execute();
  b.drain();
  CHECK(static_cast<bool>(flow));
  CHECK(held::live() == 0);
}

TEST_CASE_TEMPLATE("rule 17: a branch's result ends the flow when it is dropped", Flow, STEPS_FLOWS) {
  for (const bool destroys : {false, true}) {
    for (const int waiting : {0, 2}) {
      ending_flow<Flow> f(destroys);
      f.run([&](IAsyncSteps& asi) {
        auto& branches = asi.parallel();
        branches.add([&](IAsyncSteps& branch) { branch.success(f.result()); });
        for (int i = 0; i < waiting; ++i) branches.add([](IAsyncSteps& branch) { branch.waitExternal(); });
      });
      f.check();
    }
  }
}

TEST_CASE_TEMPLATE("rule 17: an object, or the last exception, of a branch ends the flow", Flow, STEPS_FLOWS) {
  for (const bool destroys : {false, true}) {
    for (const bool throws : {false, true}) {
      for (const int waiting : {0, 2}) {
        ending_flow<Flow> f(destroys);
        f.run([&](IAsyncSteps& asi) {
          auto& branches = asi.parallel();
          branches.add(
              [&](IAsyncSteps& branch) {
                if (throws) throw ending_error<Flow>(f.result());
                branch.template stack<ender<Flow>>(f.result());
              },
              [](IAsyncSteps& branch, ErrorCode) { branch.success(); });
          for (int i = 0; i < waiting; ++i) branches.add([](IAsyncSteps& branch) { branch.waitExternal(); });
        });
        f.check();
      }
    }
  }
}

TEST_CASE_TEMPLATE("rule 17: a result ends the flow that waits with it for a mutex, and times out", Flow, STEPS_FLOWS) {
  for (const bool destroys : {false, true}) {
    ending_flow<Flow> f(destroys);
    steps::Mutex mutex;
    Flow holder{f.b.loop};
    holder.sync(mutex, [](IAsyncSteps& asi) { asi.waitExternal(); });
    holder.execute();
    f.b.drain();
    f.run([&](IAsyncSteps& asi) {
      asi.setTimeout(5ms);
      asi.add([&](IAsyncSteps& step) { step.success(f.result()); });
      asi.sync(mutex, f.too_late());
    });
    f.check();
  }
}

TEST_CASE_TEMPLATE("rule 17: a result ends the flow that is queued with it, and times out", Flow, STEPS_FLOWS) {
  for (const bool destroys : {false, true}) {
    ending_flow<Flow> f(destroys);
    f.run([&](IAsyncSteps& asi) {
      asi.setTimeout(1ms);
      asi.add([&](IAsyncSteps& step) { step.success(f.result()); });
      asi.add([&](IAsyncSteps&, const ender<Flow>&) { f.b.clock.advance(1ms); });
      asi.add([&](IAsyncSteps& step) { step.success(f.result()); });
      asi.relinquish();
      asi.add(f.too_late());
    });
    f.check();
  }
}

TEST_CASE_TEMPLATE("rule 17: a result ends the flow where the next step does not take it, and does not run", Flow,
                   STEPS_FLOWS) {
  for (const bool destroys : {false, true}) {
    for (int what = 0; what < 7; ++what) {
      CAPTURE(what);
      ending_flow<Flow> f(destroys);
      async::threadpool pool(1);
      std::future<int> ready = pool.post([] { return 1; });
      f.run([&](IAsyncSteps& asi) {
        asi.add([&](IAsyncSteps& step) { step.success(1, f.result()); });
        switch (what) {
          case 0:
            asi.add(f.too_late());
            break;
          case 1:  // takes the number only
            asi.add([&](IAsyncSteps&, int) { ++f.late; });
            break;
          case 2:  // cannot take them
            asi.add([&](IAsyncSteps&, std::string) { ++f.late; }, f.handled_too_late());
            break;
          case 3:
            asi.parallel(f.handled_too_late()).add(f.too_late());
            break;
          case 4:
            asi.successStep(2);
            break;
          case 5:
            asi.await(std::move(ready));
            break;
          default:
            asi.repeat(2, [&](IAsyncSteps&, std::size_t) { ++f.late; });
        }
        asi.add(f.too_late());
      });
      f.check();
    }
  }
}

TEST_CASE_TEMPLATE("rule 17: a result ends the flow of the step that fails after it has passed it", Flow, STEPS_FLOWS) {
  for (const bool destroys : {false, true}) {
    ending_flow<Flow> f(destroys);
    f.run([&](IAsyncSteps& asi) {
      asi.add(
          [&](IAsyncSteps& step) {
            step.success(f.result());
            throw std::runtime_error("after success()");
          },
          f.handled_too_late());
    });
    f.check();
  }
}

TEST_CASE_TEMPLATE("rule 19: the constructor of the flow's result throws, and the future is ready with the exception",
                   Flow, STEPS_FLOWS) {
  int failed = 0, passed = 0;
  for (int moves = 1; moves < 12; ++moves) {
    bench b;
    Flow flow{b.loop};
    flow.add([moves](IAsyncSteps& asi) { asi.success(fragile(moves)); });
    auto result = flow.template promise<fragile>();
    b.drain();
    REQUIRE(result.wait_for(0s) == std::future_status::ready);
    try {
      result.get();
      ++passed;
    } catch (const std::runtime_error& e) {
      CHECK(std::string(e.what()) == "not moved");
      ++failed;
    }
    CHECK(static_cast<bool>(flow));
    CHECK(b.unhandled.empty());
  }
  CHECK(failed >= 3);  // into the slot, out of it, into the future
  CHECK(passed >= 3);
}

TEST_CASE_TEMPLATE("rule 19: the result cannot be copied into the future, and its end cancels the flow", Flow,
                   STEPS_FLOWS) {
  bench b;
  Flow flow{b.loop};
  std::function<void()> end;
  flow.add([&](IAsyncSteps& asi) {
    asi.success(ends_flow(end));
    end = [&flow] { flow.cancel(); };
  });
  auto result = flow.template promise<ends_flow>();
  b.drain();
  try {
    result.get();
    FAIL("there is a result");
  } catch (const async::dropped_call& dropped) {
    CHECK(dropped.why() == async::dropped_call::reason::cancelled);
  }
  CHECK(b.unhandled.empty());
}

TEST_CASE_TEMPLATE("rule 19: what then() adds to the future may execute the flow again", Flow, STEPS_FLOWS) {
  for (const bool is_cancelled : {false, true}) {
    bench b;
    Flow flow{b.loop};
    async::future<int> again;
    flow.add([is_cancelled](IAsyncSteps& asi) { is_cancelled ? asi.waitExternal() : asi.success(1); });
    async::future<bool> first = flow.template promise<int>().then([&](async::future<int> ended) {
      flow.add([](IAsyncSteps& asi) { asi.success(2); });
      again = flow.template promise<int>();
      try {
        return ended.get() == 1;
      } catch (const std::future_error&) {
        return false;
      }
    });
    b.drain();
    if (is_cancelled) flow.cancel();
    CHECK(first.get() != is_cancelled);
    b.drain();
    CHECK(again.get() == 2);
  }
}

TEST_CASE_TEMPLATE("rule 19: what then() adds to the future may destroy the flow", Flow, STEPS_FLOWS) {
  for (const bool is_cancelled : {false, true}) {
    bench b;
    auto flow = std::make_unique<Flow>(b.loop);
    flow->add([is_cancelled](IAsyncSteps& asi) { is_cancelled ? asi.waitExternal() : asi.success(1); });
    async::future<void> end = flow->template promise<int>().then([&flow](const async::future<int>&) { flow.reset(); });
    b.drain();
    if (is_cancelled) flow->cancel();
    CHECK(end.is_ready());
    CHECK(flow == nullptr);
    b.drain();
  }
}

TEST_CASE_TEMPLATE("rule 17: handlers may use the root while it is destroyed", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  auto flow = std::make_unique<Flow>(b.loop);
  Flow& root = *flow;
  root.state()["n"] = 7;
  root.add([&](IAsyncSteps& asi) {
    asi.setCancel([&](IAsyncSteps&) {
      seen.push_back(std::to_string(root.template state<int>("n")) + (root ? " usable" : " executes"));
    });
    asi.waitExternal();
  });
  root.execute();
  b.drain();
  flow.reset();
  CHECK(seen == lines{"7 executes"});
}

TEST_CASE("rule 17: handlers get the new flow while it is assigned to their root") {
  bench b;
  lines seen;
  steps::AsyncSteps flow{b.loop};
  flow.add([&](IAsyncSteps& asi) {
    asi.setCancel([&](IAsyncSteps&) { seen.push_back(flow.state().contains("new") ? "new" : "old"); });
    asi.waitExternal();
  });
  flow.execute();
  b.drain();
  steps::AsyncSteps other{b.loop};
  other.state()["new"] = 1;
  flow = std::move(other);
  CHECK(seen == lines{"new"});
  CHECK(bool(flow));
}

TEST_CASE("rule 17: a root that is destroyed gives its flow to nobody, and takes no other") {
  for (const bool assigns : {false, true}) {
    CAPTURE(assigns);
    bench b;
    const auto held = std::make_shared<int>(0);
    auto flow = std::make_unique<steps::AsyncSteps>(b.loop);
    steps::AsyncSteps& root = *flow;
    std::unique_ptr<steps::AsyncSteps> taken;
    root.add([&](IAsyncSteps& asi) {
      asi.setCancel([&](IAsyncSteps&) {
        if (assigns) {
          steps::AsyncSteps other{b.loop};
          other.add([h = held](IAsyncSteps&) {});
          root = std::move(other);
        } else {
          taken = std::make_unique<steps::AsyncSteps>(std::move(root));
        }
      });
      asi.waitExternal();
    });
    root.execute();
    b.drain();
    flow.reset();
    taken.reset();
    CHECK(b.unhandled.empty());
    CHECK(held.use_count() == 1);
  }
}

namespace {

/// A result that calls a function once, when it is moved or destroyed.
struct acting {
  enum class when { moved, destroyed } at;
  std::function<void()>* act;

  acting(when w, std::function<void()>& f) : at(w), act(&f) {}
  acting(acting&& other) noexcept : at(other.at), act(std::exchange(other.act, nullptr)) {
    if (at == when::moved) call();
  }
  acting& operator=(acting&&) = delete;
  ~acting() {
    if (act != nullptr && at == when::destroyed) call();
  }
  void call() const {
    if (*act) std::exchange(*act, nullptr)();
  }
};

using text = std::unique_ptr<std::string>;
text long_text() { return std::make_unique<std::string>(60, 'x'); }

}  // namespace

TEST_CASE_TEMPLATE("rule 5: a mistake of a result, as it is moved or destroyed, is an ordinary error", Flow,
                   STEPS_FLOWS) {
  enum class way { untaken, partly_taken, taken, given, failed, closed_loop, large };
  for (const way how :
       {way::untaken, way::partly_taken, way::taken, way::given, way::failed, way::closed_loop, way::large}) {
    for (const bool enclosing : {false, true}) {
      bench b;
      lines seen;
      std::function<void()> act;
      Flow flow{b.loop};
      flow.add(
          [&](IAsyncSteps& outer) {
            const std::function<void()> mistake = [&flow, &outer, enclosing] {
              enclosing ? outer.errorNoThrow("NoReply") : flow.execute();
            };
            outer.add([&, mistake](IAsyncSteps& asi) {
              const bool moves = how == way::taken || how == way::given;
              acting result(moves ? acting::when::moved : acting::when::destroyed, act);
              if (how == way::given) act = mistake;
              if (how == way::large) {
                asi.success(std::move(result), long_text(), long_text(), long_text());
              } else if (how == way::partly_taken) {
                asi.success(1, std::move(result), long_text());
              } else {
                asi.success(std::move(result), long_text(), long_text());
              }
              act = how == way::given ? nullptr : mistake;
              if (how == way::failed) asi.error("Failed");
            });
            if (how == way::taken || how == way::given) {
              outer.add([&](IAsyncSteps&, acting&&, text&& one, text&& two) { seen.push_back(*one + *two); });
            } else if (how == way::partly_taken) {
              outer.add([&](IAsyncSteps&, int) { seen.push_back("ran"); });
            } else if (how == way::closed_loop) {
              outer.repeat(0, [](IAsyncSteps&, std::size_t) {});
            } else {
              outer.add([&](IAsyncSteps&) { seen.push_back("ran"); });
            }
          },
          testing::noting_code(seen));
      flow.add([&](IAsyncSteps&) { seen.push_back("after"); });
      flow.execute();
      b.drain();
      CAPTURE(static_cast<int>(how));
      CAPTURE(enclosing);
      CHECK(seen == lines{"InternalError", "after"});
      CHECK(static_cast<bool>(flow));
    }
  }
}

TEST_CASE("rule 5: so is one of an element of a queue, as it is taken") {
  bench b;
  lines seen;
  std::function<void()> act;
  async::queue<acting> q;
  q.enqueue(acting(acting::when::moved, act));
  steps::AsyncSteps flow{b.loop};
  flow.add(
      [&](IAsyncSteps& asi) {
        act = [&flow] { flow.execute(); };
        asi.await(q).add([&](IAsyncSteps&, acting&&) { seen.push_back("ran"); });
      },
      testing::noting_code(seen));
  flow.execute();
  b.drain();
  CHECK(seen == lines{"InternalError"});
}

TEST_CASE("rule 9: a handler whose success() throws still has the exception of its error") {
  struct throws_as_copied {
    throws_as_copied() = default;
    throws_as_copied(const throws_as_copied&) : words{1, 2, 3} { throw std::runtime_error("copy"); }
    std::size_t words[3] = {4, 5, 6};
  };
  bench b;
  lines seen;
  steps::AsyncSteps flow{b.loop};
  flow.add([](IAsyncSteps& asi) { asi.errorNoThrow("Failed"); },
           [&](IAsyncSteps& asi, ErrorCode) {
             const throws_as_copied value;
             try {
               asi.success(value);
             } catch (const std::runtime_error& e) {
               seen.emplace_back(e.what());
             }
             try {
               std::rethrow_exception(asi.state().current_exception());
             } catch (const steps::Error& e) {
               seen.emplace_back(e.what());
             }
             asi.success();
           });
  flow.execute();
  b.drain();
  CHECK(seen == lines{"copy", "Failed"});
}
