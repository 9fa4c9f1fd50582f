// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <iterator>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "async/queue.hpp"
#include "support/flows.hpp"

// Loops and fairness. Rules 22 to 24 and 33 of steps/RULES.md.

using steps::ErrorCode;
using steps::IAsyncSteps;
using testing::bench;
using testing::counted;
using testing::lines;
using namespace std::chrono_literals;

namespace {

/// As a view of the standard library, it numbers its elements by a signed type.
class numbers {
 public:
  const int* begin() const noexcept { return std::begin(elements_); }
  const int* end() const noexcept { return std::end(elements_); }
  std::size_t size() const noexcept { return std::size(elements_); }
  const int& operator[](std::ptrdiff_t i) const noexcept { return elements_[i]; }

 private:
  int elements_[2]{1, 2};
};

}  // namespace

TEST_CASE_TEMPLATE("rule 22: bodies are steps: sub-steps, and results from one iteration to the next", Flow,
                   STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.add([](IAsyncSteps& asi) { asi.success(10); });
  flow.repeat(3, [&](IAsyncSteps& asi, std::size_t i, int n) {
    seen.push_back(std::to_string(i) + ":" + std::to_string(n));
    asi.add([](IAsyncSteps&) {});
    asi.add([n](IAsyncSteps& inner) { inner.success(n + 1); });
  });
  flow.add([&](IAsyncSteps&, int n) { seen.push_back(std::to_string(n)); });
  flow.add([](IAsyncSteps& asi) { asi.success(std::string("a")); });
  flow.loop([&](IAsyncSteps& asi, const std::string& s) {
    if (s.size() == 3) asi.breakLoop();
    asi.success(s + "a");
  });
  flow.execute();
  b.drain();
  CHECK(seen == lines{"0:10", "1:11", "2:12", "13"});
  CHECK(b.unhandled.empty());
}

TEST_CASE_TEMPLATE("rule 22: stack() objects of an iteration die with it", Flow, STEPS_FLOWS) {
  bench b;
  counted::alive = 0;
  std::vector<int> alive;
  Flow flow{b.loop};
  flow.repeat(4, [&](IAsyncSteps& asi, std::size_t i) {
    alive.push_back(counted::alive);
    asi.stack<counted>();
    asi.add([&](IAsyncSteps& inner) { inner.stack<counted>(); });
    if (i == 2) asi.continueLoop();
  });
  flow.add([&](IAsyncSteps&) { alive.push_back(counted::alive); });
  flow.execute();
  b.drain();
  CHECK(alive == std::vector<int>{0, 0, 0, 0, 0});
}

TEST_CASE_TEMPLATE("rule 22: repeat(0) and forEach over nothing run no body", Flow, STEPS_FLOWS) {
  bench b;
  bool ran = false;
  bool after = false;
  Flow flow{b.loop};
  flow.repeat(0, [&](IAsyncSteps&, std::size_t) { ran = true; });
  flow.forEach(std::vector<int>(), [&](IAsyncSteps&, std::size_t, int&) { ran = true; });
  flow.forEach(std::map<int, int>(), [&](IAsyncSteps&, int, int&) { ran = true; });
  flow.add([&](IAsyncSteps&) { after = true; });
  flow.execute();
  b.drain();
  CHECK(!ran);
  CHECK(after);
}

TEST_CASE_TEMPLATE("rule 22: a body may take its index as any integral type, which warns of nothing", Flow,
                   STEPS_FLOWS) {
  bench b;
  long sum = 0;
  const std::function<void(IAsyncSteps&, short)> function = [&](IAsyncSteps&, short i) { sum += i; };
  Flow flow{b.loop};
  flow.repeat(3, [&](IAsyncSteps&, int i) { sum += i; });
  flow.repeat(3, [&](IAsyncSteps&, const unsigned& i) { sum += static_cast<long>(i); });
  flow.repeat(3, [&](auto&, auto i) {
    static_assert(std::is_same_v<decltype(i), std::size_t>);
    sum += static_cast<long>(i);
  });
  flow.repeat(3, function);
  flow.forEach(std::vector<int>{1, 2}, [&](IAsyncSteps&, int i, int v) { sum += 10 * i + v; });
  flow.forEach(std::list<int>{1, 2}, [&](IAsyncSteps&, char i, int v) { sum += 10 * i + v; });
  flow.forEach(numbers(), [&](IAsyncSteps&, int i, int v) { sum += 10 * i + v; });
  flow.execute();
  b.drain();
  CHECK(sum == 4 * 3 + 3 * 13);
}

TEST_CASE_TEMPLATE("rule 22: a body that empties what forEach borrows passes its results on", Flow, STEPS_FLOWS) {
  bench b;
  Flow flow{b.loop};
  std::vector<int> lent{1, 2, 3};
  int passed = 0;
  flow.forEach(std::ref(lent), [&](IAsyncSteps& asi, std::size_t, int& value) {
    const int first = value;
    lent.clear();
    asi.success(first);
  });
  flow.add([&](IAsyncSteps&, int value) { passed = value; });
  flow.execute();
  b.drain();
  CHECK(passed == 1);
}

TEST_CASE_TEMPLATE("rule 22: forEach keeps an rvalue, copies an lvalue, borrows a std::ref", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  std::vector<int> lent{1, 2};
  std::vector<int> copied{5};
  Flow flow{b.loop};
  {
    std::vector<std::unique_ptr<int>> moved;
    moved.push_back(std::make_unique<int>(7));
    flow.forEach(std::move(moved), [&](IAsyncSteps&, std::size_t i, std::unique_ptr<int>& p) {
      seen.push_back(std::to_string(i) + "=" + std::to_string(*p));
    });
    flow.forEach(std::map<std::string, int>{{"a", 1}, {"b", 2}}, [&](IAsyncSteps&, const std::string& key, int& value) {
      seen.push_back(key + std::to_string(value));
    });
  }
  flow.forEach(std::ref(lent), [](IAsyncSteps&, std::size_t, int& value) { value *= 10; });
  flow.forEach(copied, [](IAsyncSteps&, std::size_t, int& value) { value = 0; });
  lent.push_back(3);
  flow.execute();
  b.drain();
  CHECK(seen == lines{"0=7", "a1", "b2"});
  CHECK(lent == std::vector<int>{10, 20, 30});
  CHECK(copied == std::vector<int>{5});
}

TEST_CASE_TEMPLATE("rule 23: breakLoop and continueLoop without label are for the innermost loop", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.repeat(2, [&](IAsyncSteps& asi, std::size_t i) {
    asi.repeat(4, [&, i](IAsyncSteps& inner, std::size_t j) {
      inner.add([&, i, j](IAsyncSteps& deep) {
        if (j == 1) deep.continueLoop();
        if (j == 3) deep.breakLoop();
        seen.push_back(std::to_string(i) + std::to_string(j));
      });
    });
  });
  flow.execute();
  b.drain();
  CHECK(seen == lines{"00", "02", "10", "12"});
}

TEST_CASE_TEMPLATE("rule 23: a label leaves all loops up to its own, those without label in between, too", Flow,
                   STEPS_FLOWS) {
  for (const bool goes_on : {false, true}) {
    bench b;
    lines seen;
    Flow flow{b.loop};
    flow.repeat(
        2,
        [&](IAsyncSteps& asi, std::size_t i) {
          seen.push_back("outer " + std::to_string(i));
          asi.loop([&](IAsyncSteps& middle) {
            seen.push_back("middle");
            middle.forEach(
                {1, 2},
                [&](IAsyncSteps& inner, std::size_t, int) {
                  seen.push_back("inner");
                  const std::string label = std::string("OUT") + "ER";  // compared by content
                  if (goes_on) inner.continueLoop(label);
                  inner.breakLoop(std::string_view(label));
                },
                "INNER");
          });
        },
        "OUTER");
    flow.add([&](IAsyncSteps&) { seen.push_back("after"); });
    flow.execute();
    b.drain();
    CHECK(seen == (goes_on ? lines{"outer 0", "middle", "inner", "outer 1", "middle", "inner", "after"}
                           : lines{"outer 0", "middle", "inner", "after"}));
  }
}

TEST_CASE_TEMPLATE("rule 23: an unknown label is InternalError where it was used", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.loop(
      [&](IAsyncSteps& asi) {
        asi.add([](IAsyncSteps& inner) { inner.breakLoop("nowhere"); },
                [&](IAsyncSteps& inner, ErrorCode code) {
                  seen.push_back(std::string(code));
                  CHECK(inner.state().error_info().find("label") != std::string_view::npos);
                  inner.success();
                });
        asi.add([](IAsyncSteps& inner) { inner.breakLoop(); });
      },
      "here");
  flow.add([&](IAsyncSteps&) { seen.push_back("after"); });
  flow.execute();
  b.drain();
  CHECK(seen == lines{"InternalError", "after"});
}

TEST_CASE_TEMPLATE("rule 24: handlers between body and loop see LoopBreak and LoopCont, and let them pass", Flow,
                   STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.add(
      [&](IAsyncSteps& asi) {
        asi.repeat(3, [&](IAsyncSteps& body, std::size_t i) {
          body.add(
              [&, i](IAsyncSteps& inner) {
                inner.setCancel([&](IAsyncSteps&) { seen.push_back("cancel"); });
                inner.add([i](IAsyncSteps& deep) {
                  if (i == 0) deep.continueLoop();
                  deep.breakLoop();
                });
              },
              [&](IAsyncSteps&, ErrorCode code) { seen.push_back(std::string(code)); });
        });
      },
      [&](IAsyncSteps&, ErrorCode) { seen.push_back("outside the loop"); });
  flow.execute();
  b.drain();
  CHECK(seen == lines{"cancel", "LoopCont", "cancel", "LoopBreak"});
  CHECK(b.unhandled.empty());
}

TEST_CASE_TEMPLATE("rule 24: a handler that recovers from LoopBreak keeps the loop going", Flow, STEPS_FLOWS) {
  bench b;
  int rounds = 0;
  Flow flow{b.loop};
  flow.loop([&](IAsyncSteps& asi) {
    if (++rounds == 3) asi.breakLoop();
    asi.add([](IAsyncSteps& inner) { inner.breakLoop(); }, [](IAsyncSteps& inner, ErrorCode) { inner.success(); });
  });
  flow.execute();
  b.drain();
  CHECK(rounds == 3);
  CHECK(static_cast<bool>(flow));
}

TEST_CASE_TEMPLATE("rule 33: an endless loop starves neither other flows nor timers nor posted work", Flow,
                   STEPS_FLOWS) {
  for (const bool deep : {false, true}) {
    bench b;
    lines seen;
    std::size_t rounds = 0;
    std::vector<std::size_t> at;
    Flow endless{b.loop};
    endless.loop([&](IAsyncSteps& asi) {
      ++rounds;
      if (deep) asi.add([](IAsyncSteps&) {});
    });
    endless.execute();
    Flow other{b.loop};
    other.add([&](IAsyncSteps&) {
      seen.push_back("other");
      at.push_back(rounds);
    });
    other.execute();
    b.loop.post([&] { seen.push_back("posted"); });
    b.loop.deferred(1ms, [&] { seen.push_back("timer"); });
    for (int i = 0; i < 5; ++i) {
      CHECK(b.loop.iterate().have_work);
      b.clock.advance(1ms);
    }
    CHECK(seen.size() == 3);
    REQUIRE(at.size() == 1);
    CHECK(at[0] <= 100);
    CHECK(rounds > 0);
    CHECK(!endless);
  }
}

TEST_CASE_TEMPLATE("rule 33: a flow that ends its own waits starves no timer of a loop that run() drives", Flow,
                   STEPS_FLOWS) {
  bool by_post = false;
  SUBCASE("by the token") {}
  SUBCASE("by the token in a posted call") { by_post = true; }
  bench b;
  int rounds = 0;
  int at = 0;
  Flow endless{b.loop};
  endless.loop([&](IAsyncSteps& asi) {
    b.clock.advance(10us);
    if (++rounds == 10'000) b.loop.stop();
    const auto done = asi.completion<>();
    if (by_post) {
      b.loop.post([done] { done.success(); });
    } else {
      done.success();
    }
  });
  endless.execute();
  b.loop.deferred(1ms, [&] {
    at = rounds;
    b.loop.stop();
  });
  b.loop.run();
  CHECK(at >= 100);
  CHECK(at <= 250);
}

TEST_CASE_TEMPLATE("rule 33: relinquish() lets the other flows of the loop have their turn at once", Flow,
                   STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow one{b.loop};
  Flow two{b.loop};
  one.add([&](IAsyncSteps& asi) {
    seen.push_back("one");
    asi.success(1);
  });
  one.relinquish();
  one.add([&](IAsyncSteps&, int n) { seen.push_back("one " + std::to_string(n)); });
  two.add([&](IAsyncSteps&) { seen.push_back("two"); });
  two.add([&](IAsyncSteps&) { seen.push_back("two again"); });
  one.execute();
  two.execute();
  b.drain();
  CHECK(seen == lines{"one", "two", "two again", "one 1"});
}

TEST_CASE_TEMPLATE("rules 12, 24: a handler that raises LoopBreak or LoopCont again does not stop them", Flow,
                   STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.repeat(
      3,
      [&](IAsyncSteps& outer, std::size_t round) {
        seen.push_back(std::to_string(round));
        outer.loop([&, round](IAsyncSteps& asi) {
          asi.add(
              [&, round](IAsyncSteps& inner) {
                inner.add(
                    [round](IAsyncSteps& deep) { round == 0 ? deep.continueLoop("outer") : deep.breakLoop("outer"); },
                    [](IAsyncSteps& deep, ErrorCode code) { deep.errorNoThrow(code, "once more"); });
              },
              [&](IAsyncSteps& inner, ErrorCode code) {
                seen.emplace_back(code);
                inner.error(code);
              });
        });
      },
      "outer");
  flow.add([&](IAsyncSteps&) { seen.push_back("after"); });
  flow.execute();
  b.drain();
  CHECK(seen == lines{"0", "LoopCont", "1", "LoopBreak", "after"});
  CHECK(b.unhandled.empty());
}

TEST_CASE("rules 33 and 38: the step that gets an element of a queue runs in the turn that takes it") {
  for (std::size_t before = 0; before != 130; ++before) {  // a turn has 100 steps
    bench b;
    async::queue<int> q;
    q.enqueue(1);
    int got = 0;
    steps::AsyncSteps flow{b.loop};
    flow.repeat(before, [](IAsyncSteps&, std::size_t) {}).await(q).add([&got](IAsyncSteps&, int v) { got = v; });
    flow.execute();
    while (q.approx_size() != 0) b.loop.iterate();
    flow.cancel();
    CHECK(got == 1);
  }
}

TEST_CASE_TEMPLATE("rules 33 and 38: so does the iteration of a loop that gets it", Flow, STEPS_FLOWS) {
  enum class taker { repeat, loop, each, next_iteration };
  for (const taker by : {taker::repeat, taker::loop, taker::each, taker::next_iteration}) {
    for (std::size_t before = 0; before != 130; ++before) {
      bench b;
      async::queue<int> q;
      q.enqueue(1);
      int got = 0;
      const auto take = [&got](IAsyncSteps&, int v) { got = v; };
      Flow flow{b.loop};
      flow.repeat(before, [](IAsyncSteps&, std::size_t) {});
      if (by == taker::repeat) flow.await(q).repeat(1, [take](IAsyncSteps& asi, std::size_t, int v) { take(asi, v); });
      if (by == taker::each)
        flow.await(q).forEach({1}, [take](IAsyncSteps& asi, std::size_t, int, int v) { take(asi, v); });
      if (by == taker::loop) {
        flow.await(q).loop([take](IAsyncSteps& asi, int v) {
          take(asi, v);
          asi.breakLoop();
        });
      }
      if (by == taker::next_iteration) {
        flow.successStep(0).loop([&q, take](IAsyncSteps& asi, int v) {
          if (v == 0) {
            asi.await(q);
          } else {
            take(asi, v);
            asi.breakLoop();
          }
        });
      }
      flow.execute();
      while (q.approx_size() != 0) b.loop.iterate();
      flow.cancel();
      CAPTURE(static_cast<int>(by));
      CAPTURE(before);
      CHECK(got == 1);
    }
  }
}

TEST_CASE_TEMPLATE("rule 33: a loop that passes elements of a queue on without end lets others have their turn", Flow,
                   STEPS_FLOWS) {
  bench b;
  async::queue<int> q;
  q.enqueue(0);
  int rounds = 0;
  bool was_late = false;
  Flow flow{b.loop}, timer{b.loop};
  flow.await(q).loop([&](IAsyncSteps& asi, int v) {
    q.enqueue(v + 1);
    rounds = v;
    asi.repeat(1, [&](IAsyncSteps& inner, std::size_t) { inner.await(q); });
  });
  timer.add([](IAsyncSteps& asi) { asi.setTimeout(1ms); },
            [&](IAsyncSteps& asi, ErrorCode) {
              was_late = rounds > 500;
              asi.success();
            });
  flow.execute();
  timer.execute();
  for (int i = 0; i != 10; ++i) {
    b.loop.iterate();
    b.clock.advance(1ms);
  }
  CHECK(static_cast<bool>(timer));
  CHECK(!was_late);
  CHECK(rounds > 20);
  flow.cancel();
  CHECK(static_cast<bool>(flow));
}
