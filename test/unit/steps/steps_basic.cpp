// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "support/flows.hpp"

// Steps, levels and results. Rules 1 to 3, 6 and 7 of steps/RULES.md.

using steps::ErrorCode;
using steps::IAsyncSteps;
using testing::bench;
using testing::counted;
using testing::lines;

TEST_CASE_TEMPLATE("steps of a level run in order, sub-steps before the level goes on", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.add([&](IAsyncSteps& one) {
    seen.push_back("1");
    one.add([&](IAsyncSteps& inner) {
      seen.push_back("1.1");
      inner.add([&](IAsyncSteps&) { seen.push_back("1.1.1"); }).add([&](IAsyncSteps&) { seen.push_back("1.1.2"); });
    });
    one.add([&](IAsyncSteps&) { seen.push_back("1.2"); });
  });
  flow.add([&](IAsyncSteps&) { seen.push_back("2"); });
  CHECK(seen.empty());
  flow.execute();
  CHECK(seen.empty());
  b.drain();
  CHECK(seen == lines{"1", "1.1", "1.1.1", "1.1.2", "1.2", "2"});
  CHECK(b.unhandled.empty());
}

TEST_CASE_TEMPLATE("a flow without steps ends at once", Flow, STEPS_FLOWS) {
  bench b;
  Flow flow{b.loop};
  auto done = flow.promise();
  b.drain();
  CHECK(done.wait_for(std::chrono::seconds(0)) == std::future_status::ready);
  CHECK(static_cast<bool>(flow));
}

TEST_CASE_TEMPLATE("results go to the next step and to no later one", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.add([](IAsyncSteps& asi) { asi.success(1, "text", 2.5, true); });
  flow.add([&](IAsyncSteps&, int a, std::string t, double d, bool c) {
    seen.push_back(std::to_string(a) + t + std::to_string(d) + (c ? "t" : "f"));
  });
  flow.add([&](IAsyncSteps&, int) { seen.push_back("never"); },
           [&](IAsyncSteps& asi, ErrorCode code) {
             CHECK(code == "InternalError");
             asi.success();
           });
  flow.execute();
  b.drain();
  CHECK(seen == lines{"1text2.500000t"});
}

TEST_CASE_TEMPLATE("results of the last sub-step are those of the step", Flow, STEPS_FLOWS) {
  bench b;
  int got = 0;
  Flow flow{b.loop};
  flow.add([](IAsyncSteps& asi) {
    asi.add([](IAsyncSteps& inner) { inner.success(1); });
    asi.add([](IAsyncSteps& inner, int n) { inner(n + 1); });
  });
  flow.add([&](IAsyncSteps&, int n) { got = n; });
  flow.execute();
  b.drain();
  CHECK(got == 2);
}

TEST_CASE_TEMPLATE("a step may take fewer results than were passed, by value, rvalue or const reference", Flow,
                   STEPS_FLOWS) {
  bench b;
  int sum = 0;
  Flow flow{b.loop};
  flow.add([](IAsyncSteps& asi) { asi.success(std::make_unique<int>(7), std::string("x"), 3); });
  flow.add([&](IAsyncSteps& asi, std::unique_ptr<int> p) {
    sum += *p;
    asi.success(std::vector<int>{1, 2, 3}, 4);
  });
  flow.add([&](IAsyncSteps& asi, const std::vector<int>& v, int&& n) {
    sum += v[2] + n;
    asi.success(v);
  });
  flow.add([&](IAsyncSteps& asi, std::vector<int>&& v) {
    sum += v[0];
    asi(1, 2);
  });
  flow.add([&](IAsyncSteps&) { sum += 100; });
  flow.execute();
  b.drain();
  CHECK(sum == 7 + 3 + 4 + 1 + 100);
}

TEST_CASE_TEMPLATE("large and over-aligned results arrive", Flow, STEPS_FLOWS) {
  bench b;
  Flow flow{b.loop};
  std::array<int, 40> big{};
  big[39] = 9;
  int got = 0;
  flow.add([&](IAsyncSteps& asi) { asi.success(big, std::string(100, 'x'), std::string("y"), counted()); });
  flow.add([&](IAsyncSteps& asi, std::array<int, 40> a, const std::string& s) {
    got = a[39] + static_cast<int>(s.size());
    asi.success();
  });
  flow.execute();
  b.drain();
  CHECK(got == 109);
  CHECK(counted::alive == 0);
}

TEST_CASE_TEMPLATE("results that no step takes are destroyed with the flow's end, error or cancel", Flow, STEPS_FLOWS) {
  bench b;
  {
    Flow flow{b.loop};
    flow.add([](IAsyncSteps& asi) { asi.success(counted()); });
    flow.execute();
    b.drain();
    CHECK(counted::alive == 0);
    flow.add([](IAsyncSteps& asi) { asi.success(counted()); });
    flow.add([](IAsyncSteps& asi) { asi.waitExternal(); });
    flow.execute();
    b.drain();
  }
  CHECK(counted::alive == 0);
}

TEST_CASE_TEMPLATE("successStep passes results on after the steps before it", Flow, STEPS_FLOWS) {
  bench b;
  std::string got;
  Flow flow{b.loop};
  flow.add([](IAsyncSteps& asi) {
    asi.add([](IAsyncSteps&) {});
    asi.successStep("done", std::make_unique<int>(4));
  });
  flow.add([&](IAsyncSteps&, std::string&& s, std::unique_ptr<int> n) { got = s + std::to_string(*n); });
  flow.execute();
  b.drain();
  CHECK(got == "done4");
}

TEST_CASE_TEMPLATE("functors of any size and alignment are destroyed when their step has ended", Flow, STEPS_FLOWS) {
  bench b;
  counted::alive = 0;
  struct alignas(64) wide {
    char data[64] = {};
  };
  bool aligned = true;
  int calls = 0;
  Flow flow{b.loop};
  for (int i = 0; i < 10; ++i) {
    flow.add([c = counted(), w = wide(), big = std::array<char, 200>(), &aligned, &calls](IAsyncSteps& asi) {
      aligned = aligned && reinterpret_cast<std::uintptr_t>(&w) % 64 == 0 && big[0] == 0;
      ++calls;
      asi.add([c2 = counted(), w2 = wide(), &aligned](IAsyncSteps&) {
        aligned = aligned && reinterpret_cast<std::uintptr_t>(&w2) % 64 == 0;
      });
    });
  }
  CHECK(counted::alive == 10);
  flow.execute();
  b.drain();
  CHECK(calls == 10);
  CHECK(aligned);
  CHECK(counted::alive == 0);
}

TEST_CASE_TEMPLATE("a flow that was never executed destroys its steps", Flow, STEPS_FLOWS) {
  bench b;
  counted::alive = 0;
  {
    Flow flow{b.loop};
    auto& p = flow.parallel();
    p.add([c = counted()](IAsyncSteps&) {});
    p.repeat(2, [c = counted()](IAsyncSteps&, std::size_t) {});
    flow.add([c = counted()](IAsyncSteps&) {}).successStep(counted());
    flow.template stack<counted>();
    CHECK(counted::alive == 5);
  }
  CHECK(counted::alive == 0);
}

TEST_CASE_TEMPLATE("stack objects live as long as their step", Flow, STEPS_FLOWS) {
  bench b;
  counted::alive = 0;
  std::vector<int> alive;
  {
    Flow flow{b.loop};
    flow.template stack<counted>();
    flow.add(
        [&](IAsyncSteps& asi) {
          asi.stack<counted>();
          asi.stack<counted>();
          asi.add([&](IAsyncSteps& inner) {
            inner.stack<counted>();
            alive.push_back(counted::alive);
            inner.error("Test");
          });
        },
        [&](IAsyncSteps& asi, ErrorCode) {
          alive.push_back(counted::alive);
          asi();
        });
    flow.add([&](IAsyncSteps&) { alive.push_back(counted::alive); });
    flow.execute();
    b.drain();
  }
  CHECK(alive == std::vector<int>{4, 3, 1});
  CHECK(counted::alive == 0);
}

TEST_CASE_TEMPLATE("stack() of a parallel() or race() step that is built belongs to the step around", Flow,
                   STEPS_FLOWS) {
  bench b;
  counted::alive = 0;
  std::vector<int> alive;
  Flow flow{b.loop};
  for (const bool races : {false, true}) {
    flow.add([&, races](IAsyncSteps& asi) {
      auto& group = races ? asi.race() : asi.parallel();
      auto& sum = group.template stack<int>(0);
      group.template stack<counted>();
      for (int i = 1; i != 3; ++i) group.add([&sum, i](IAsyncSteps&) { sum += i; });
      asi.add([&](IAsyncSteps&) { alive.insert(alive.end(), {sum, counted::alive}); });
    });
    flow.add([&](IAsyncSteps&) { alive.push_back(counted::alive); });
  }
  int& of_root = flow.parallel().template stack<int>(7);
  flow.add([&](IAsyncSteps&) { alive.push_back(of_root); });
  flow.execute();
  b.drain();
  CHECK(alive == std::vector<int>{3, 1, 0, 1, 1, 0, 7});
}

TEST_CASE_TEMPLATE("raw stack memory is aligned and given back", Flow, STEPS_FLOWS) {
  bench b;
  static int destroyed;
  destroyed = 0;
  Flow flow{b.loop};
  flow.add([](IAsyncSteps& asi) {
    void* const one = asi.stack(3, [](void*) { ++destroyed; });
    void* const two = asi.stack(1000, [](void* p) { destroyed += *static_cast<char*>(p); });
    CHECK(reinterpret_cast<std::uintptr_t>(one) % alignof(std::max_align_t) == 0);
    CHECK(reinterpret_cast<std::uintptr_t>(two) % alignof(std::max_align_t) == 0);
    *static_cast<char*>(two) = 10;
    static_cast<char*>(two)[999] = 1;
  });
  flow.execute();
  b.drain();
  CHECK(destroyed == 11);
}

TEST_CASE_TEMPLATE("depth of nesting costs memory only", Flow, steps::AsyncSteps) {
  bench b;
  constexpr int depth = 20000;
  int reached = 0;
  struct nest {
    int left;
    int* reached;
    void operator()(IAsyncSteps& asi) const {
      ++*reached;
      if (left != 0) asi.add(nest{left - 1, reached});
    }
  };
  Flow flow{b.loop};
  flow.add(nest{depth - 1, &reached});
  flow.add([&](IAsyncSteps&) { reached = -reached; });
  flow.execute();
  b.drain();
  CHECK(reached == -depth);
}

TEST_CASE_TEMPLATE("a flow that has ended, failed or was cancelled can be executed again, and nothing is left", Flow,
                   STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.add([](IAsyncSteps& asi) { asi.success(42); });
  flow.execute();
  b.drain();

  flow.add([&](IAsyncSteps& asi, int) { asi.success(); });  // no result is left
  flow.execute();
  b.drain();
  CHECK(b.unhandled == lines{"InternalError"});
  CHECK(!flow.state().error_info().empty());

  flow.add([&](IAsyncSteps& asi) {
    seen.push_back(asi.state().error_info());
    CHECK(asi.state().last_exception() == nullptr);
    asi.waitExternal();
  });
  flow.execute();
  b.drain();
  CHECK(seen == lines{""});
  CHECK(!flow);
  flow.cancel();
  CHECK(static_cast<bool>(flow));

  flow.add([&](IAsyncSteps&) { seen.push_back("again"); });
  flow.execute();
  b.drain();
  CHECK(seen == lines{"", "again"});
  CHECK(b.unhandled.size() == 1);
}

TEST_CASE_TEMPLATE("values of state survive several executions, and are found from every level", Flow, STEPS_FLOWS) {
  bench b;
  Flow flow{b.loop};
  flow.state()["list"] = std::vector<int>{1};
  for (int round = 0; round < 2; ++round) {
    flow.add([](IAsyncSteps& asi) {
      asi.state<std::vector<int>>("list").push_back(2);
      asi.add([](IAsyncSteps& inner) { inner.state<std::vector<int>>("list").push_back(inner.state<int>("n", 3)); });
    });
    flow.execute();
    b.drain();
  }
  CHECK(flow.template state<std::vector<int>>("list") == std::vector<int>{1, 2, 3, 2, 3});
  CHECK(flow.state().contains("n"));
  CHECK(!flow.state().contains("other"));
}

TEST_CASE_TEMPLATE("newInstance gives an independent root flow on the same loop", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  std::unique_ptr<IAsyncSteps> other;
  {
    Flow flow{b.loop};
    flow.add([&](IAsyncSteps& asi) {
      other = asi.newInstance();
      other->add([&](IAsyncSteps&) { seen.push_back("other"); });
      other->execute();
      CHECK(&other->tool() == &b.loop);
    });
    flow.execute();
    b.drain();
  }
  CHECK(seen == lines{"other"});
  other.reset();
}

TEST_CASE("an AsyncSteps that executes can be moved") {
  bench b;
  int ran = 0;
  steps::AsyncSteps first{b.loop};
  first.add([&](IAsyncSteps& asi) { asi.relinquish().add([&](IAsyncSteps&) { ++ran; }); });
  first.execute();
  b.loop.iterate();
  steps::AsyncSteps second{std::move(first)};
  b.drain();
  CHECK(ran == 1);
  first = std::move(second);
  first.add([&](IAsyncSteps&) { ++ran; });
  first.execute();
  b.drain();
  CHECK(ran == 2);
}

TEST_CASE_TEMPLATE("async_stack names the active steps, innermost first", Flow, STEPS_FLOWS) {
  bench b;
  std::size_t depth = 0;
  Flow flow{b.loop};
  flow.add([&](IAsyncSteps& asi) {
    asi.add([&](IAsyncSteps& inner) {
      depth = inner.state().async_stack().size();
      for (const auto& name : inner.state().async_stack()) CHECK(name.find("lambda") != std::string_view::npos);
    });
  });
  flow.execute();
  b.drain();
  CHECK(depth == 2);
}

TEST_CASE_TEMPLATE("async_stack in onEnd() names the steps that have not ended", Flow, STEPS_FLOWS) {
  struct large {
    char text[100];
  };
  bench b;
  std::vector<std::size_t> depths;
  Flow flow{b.loop};
  const auto note = [&](IAsyncSteps& asi) {
    asi.onEnd([&depths, &state = asi.state()] { depths.push_back(state.async_stack().size()); });
  };
  flow.add([&](IAsyncSteps& asi) {
    note(asi);
    asi.add([&, taken = large{}](IAsyncSteps& inner) {
      static_cast<void>(taken);
      note(inner);
      inner.add([&, also = large{}](IAsyncSteps& innermost) {
        static_cast<void>(also);
        note(innermost);
      });
    });
  });
  flow.execute();
  b.drain();
  CHECK(depths == std::vector<std::size_t>{3, 2, 1});
}
