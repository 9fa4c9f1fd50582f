// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "async/queue.hpp"
#include "steps/interop/coroutine.hpp"
#include "steps/interop/when_all.hpp"
#include "support/flows.hpp"
#include "support/tasks.hpp"

// when_all() and when_any() of tasks on a loop. Rules 44 and 45 of steps/RULES.md. On pools, and without a flow:
// interop_coroutine_groups_pool.cpp. Without memory: interop_coroutine_groups_memory.cpp.

using async::event_loop;
using steps::ErrorCode;
using steps::IAsyncSteps;
using steps::interop::co;
using steps::interop::sleep_for;
using steps::interop::task;
using steps::interop::when_all;
using steps::interop::when_any;
using testing::after;
using testing::bench;
using testing::fail_after;
using testing::held;
using testing::lines;
using testing::pause;
using testing::result_of;
using namespace std::chrono_literals;

namespace {

task<int> at_once(int value) { co_return value; }
task<int> fail_at_once(std::string text) {
  throw std::runtime_error(text);
  co_return 0;
}

/// What co_await throws, or "".
template <class Awaitable>
task<std::string> text_of(Awaitable& awaitable) {
  try {
    static_cast<void>(co_await awaitable);
  } catch (const std::exception& e) {
    co_return e.what();
  }
  co_return "";
}

}  // namespace

TEST_CASE_TEMPLATE("rule 44: when_all() gives the values in the order given, when all have ended", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  const auto got = result_of<Flow, int>(b, [&](IAsyncSteps& asi) -> task<int> {
    const auto begin = b.clock.now();
    auto [text, number, none] =
        co_await when_all(after(asi.tool(), 9ms, std::string("x")), after(asi.tool(), 5ms, 2), pause(asi.tool(), 7ms));
    static_assert(std::is_same_v<decltype(none), std::monostate>);
    CHECK(b.clock.now() - begin < 12ms);  // side by side
    CHECK(held::live() == 0);
    CHECK(text == "x");
    co_return number;
  });
  CHECK(got == 2);
  CHECK(b.unhandled.empty());
}

TEST_CASE_TEMPLATE("rule 44: when_all() of a vector", Flow, STEPS_FLOWS) {
  bench b;
  const auto got = result_of<Flow, int>(b, [](IAsyncSteps& asi) -> task<int> {
    std::vector<task<int>> numbers;
    for (int i = 0; i != 10; ++i) numbers.push_back(after(asi.tool(), 1ms * (10 - i), i));
    const std::vector<int> values = co_await when_all(std::move(numbers));
    std::vector<task<>> pauses;
    for (int i = 0; i != 10; ++i) pauses.push_back(pause(asi.tool(), 1ms));
    static_assert(std::is_void_v<decltype(when_all(std::move(pauses)).await_resume())>);
    co_await when_all(std::move(pauses));
    CHECK(held::live() == 0);
    int at = 0;
    for (const int value : values) CHECK(value == at++);
    co_return at;
  });
  CHECK(got == 10);
}

TEST_CASE_TEMPLATE("rule 44: of no tasks it goes on at once", Flow, STEPS_FLOWS) {
  bench b;
  const auto got = result_of<Flow, int>(
      b,
      [](IAsyncSteps&) -> task<int> {
        const std::vector<int> none = co_await when_all(std::vector<task<int>>());
        co_await when_all(std::vector<task<>>());
        const std::tuple<> empty = co_await when_all();
        static_cast<void>(empty);
        co_return static_cast<int>(none.size());
      },
      0ms);
  CHECK(got == 0);
}

TEST_CASE_TEMPLATE("rule 44: results may be movable only", Flow, STEPS_FLOWS) {
  bench b;
  const auto got = result_of<Flow, int>(b, [](IAsyncSteps& asi) -> task<int> {
    auto number = [](event_loop& loop, int i) -> task<std::unique_ptr<int>> {
      co_await sleep_for(loop, 1ms);
      co_return std::make_unique<int>(i);
    };
    auto [first, second] = co_await when_all(number(asi.tool(), 1), number(asi.tool(), 2));
    std::vector<task<std::unique_ptr<int>>> more;
    more.push_back(number(asi.tool(), 4));
    std::vector<std::unique_ptr<int>> rest = co_await when_all(std::move(more));
    auto any = co_await when_any(number(asi.tool(), 8), number(asi.tool(), 8));
    co_return *first + *second + *rest[0] + *(any.index == 0 ? std::get<0>(any.value) : std::get<1>(any.value));
  });
  CHECK(got == 15);
}

TEST_CASE_TEMPLATE("rule 44: tasks begin in order when awaited, and take turns at their waits", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  const auto noted = [&seen](event_loop& loop, std::string name) -> task<> {
    for (int i = 0; i != 2; ++i) {
      seen.push_back(name + std::to_string(i));
      co_await steps::interop::schedule(loop);
    }
  };
  const auto got = result_of<Flow, int>(b, [&](IAsyncSteps& asi) -> task<int> {
    auto both = when_all(noted(asi.tool(), "a"), noted(asi.tool(), "b"));
    seen.emplace_back("made");
    co_await both;
    co_return 1;
  });
  CHECK(got == 1);
  CHECK(seen == lines{"made", "a0", "b0", "a1", "b1"});
}

TEST_CASE_TEMPLATE("rule 44: the first exception cancels the others, and is thrown when they have ended", Flow,
                   STEPS_FLOWS) {
  bench b;
  struct special : std::runtime_error {
    using std::runtime_error::runtime_error;
    int number = 7;
  };
  const auto failing = [](event_loop& loop) -> task<> {
    co_await sleep_for(loop, 2ms);
    throw special("first");
  };
  const auto got = result_of<Flow, int>(b, [&](IAsyncSteps& asi) -> task<int> {
    int caught = 0;
    const auto begin = b.clock.now();
    try {
      co_await when_all(pause(asi.tool(), 1ms), pause(asi.tool(), 1h), failing(asi.tool()),
                        fail_after(asi.tool(), 1h, "later"));
    } catch (const special& e) {  // that very exception
      CHECK(std::string(e.what()) == "first");
      CHECK(held::live() == 0);
      caught = e.number;
    }
    CHECK(b.clock.now() - begin < 10ms);
    co_await sleep_for(asi.tool(), 1ms);  // and goes on as before
    co_return caught;
  });
  CHECK(got == 7);
  CHECK(b.unhandled.empty());
}

TEST_CASE("rule 44: an exception is thrown into the coroutine of a flow that keeps no texts of errors") {
  using small = steps::NitroSteps<steps::nitro::BranchBytes<500>, steps::nitro::MaxErrorText<0>>;
  bench b;
  const auto got = result_of<small, std::string>(b, [&](IAsyncSteps& asi) -> task<std::string> {
    try {
      co_await when_all(fail_after(asi.tool(), 1ms, "Broken"), pause(asi.tool(), 1h));
    } catch (const std::exception& e) {
      co_return e.what();
    }
    co_return "nothing";
  });
  CHECK(got == "Broken");
  CHECK(b.unhandled.empty());
}

TEST_CASE_TEMPLATE("rule 44: an exception that is not caught is the step's error, as of any coroutine", Flow,
                   STEPS_FLOWS) {
  bench b;
  std::string seen;
  Flow flow{b.loop};
  flow.add(co([](IAsyncSteps& asi) -> task<> {
             const held mine;
             co_await when_all(pause(asi.tool(), 1h), fail_after(asi.tool(), 1ms, "Broken"));
           }),
           [&](IAsyncSteps& asi, ErrorCode code) {
             seen = std::string(code);
             CHECK(held::live() == 0);
             asi.success();
           });
  flow.execute();
  b.pass(5ms);
  CHECK(seen == "Broken");
}

TEST_CASE_TEMPLATE("rule 44: a timeout of the step ends all tasks first, and is not thrown into it", Flow,
                   STEPS_FLOWS) {
  for (const bool is_race : {false, true}) {
    bench b;
    lines seen;
    Flow flow{b.loop};
    flow.add(co([&](IAsyncSteps& asi) -> task<> {
               const held mine;
               asi.setTimeout(5ms);
               try {
                 if (is_race) {
                   co_await when_any(pause(asi.tool(), 1h), pause(asi.tool(), 2h));
                 } else {
                   co_await when_all(pause(asi.tool(), 1h), pause(asi.tool(), 1ms));
                 }
               } catch (...) {
                 seen.emplace_back("thrown");
               }
               seen.emplace_back("resumed");
             }),
             [&](IAsyncSteps& asi, ErrorCode code) {
               seen.push_back(std::string(code));
               CHECK(held::live() == 0);
               asi.success();
             });
    flow.execute();
    b.pass(3ms);
    CHECK(held::live() == (is_race ? 3 : 2));
    b.pass(5ms);
    CHECK(seen == lines{"Timeout"});
  }
}

TEST_CASE_TEMPLATE("rule 44: a task may throw what looks like a timeout", Flow, STEPS_FLOWS) {
  bench b;
  const auto got = result_of<Flow, std::string>(b, [](IAsyncSteps& asi) -> task<std::string> {
    asi.setTimeout(1s);
    const auto late = []() -> task<> {
      throw steps::Error(steps::errors::Timeout, "of a task");
      co_return;
    };
    auto all = when_all(pause(asi.tool(), 1h), late());
    co_return co_await text_of(all);
  });
  CHECK(got == "Timeout");
}

TEST_CASE_TEMPLATE("rule 44: cancel() and destruction of the flow end all tasks", Flow, STEPS_FLOWS) {
  for (const bool is_destroyed : {false, true}) {
    bench b;
    lines seen;
    std::optional<Flow> flow(std::in_place, b.loop);
    flow->add(co([&](IAsyncSteps& asi) -> task<> {
      const held mine;
      asi.setCancel([&] { seen.push_back("cancelled " + std::to_string(held::live())); });
      const auto nested = [](event_loop& loop) -> task<> {
        co_await when_any(pause(loop, 1h), pause(loop, 1h), fail_after(loop, 1ms, "dropped"));
      };
      co_await when_all(pause(asi.tool(), 1h), nested(asi.tool()));
    }));
    flow->execute();
    b.pass(5ms);
    CHECK(held::live() == 4);
    is_destroyed ? flow.reset() : flow->cancel();
    CHECK(held::live() == 0);
    CHECK(seen == lines{"cancelled 1"});  // the tasks end before
    b.pass(5ms);
  }
}

TEST_CASE_TEMPLATE("rule 44: groups in groups, and one after the other in the same memory", Flow, STEPS_FLOWS) {
  bench b;
  struct tree {
    static task<int> of(event_loop& loop, int depth) {
      if (depth == 0) co_return 1;
      co_await steps::interop::schedule(loop);
      auto [left, right] = co_await when_all(of(loop, depth - 1), of(loop, depth - 1));
      co_return left + right;
    }
  };
  const auto got = result_of<Flow, int>(b, [](IAsyncSteps& asi) -> task<int> {
    int sum = co_await tree::of(asi.tool(), 3);
    for (int i = 0; i != 10'000; ++i) {  // a NitroSteps has room for one at a time
      asi.setTimeout(1s);
      auto [x, y] = co_await when_all(at_once(1), at_once(2));
      const auto any = co_await when_any(at_once(x), at_once(x));
      sum += y - x - static_cast<int>(any.index);
    }
    co_return sum;
  });
  CHECK(got == 8 + 10'000);
}

TEST_CASE_TEMPLATE("rule 44: a task that the coroutine awaits may wait for tasks", Flow, STEPS_FLOWS) {
  bench b;
  const auto got = result_of<Flow, int>(b, [](IAsyncSteps& asi) -> task<int> {
    const auto inner = [](event_loop& loop) -> task<int> {
      auto [x, y] = co_await when_all(after(loop, 1ms, 1), at_once(2));
      co_await sleep_for(loop, 1ms);
      co_return x + y;
    };
    co_return co_await inner(asi.tool()) + co_await inner(asi.tool());
  });
  CHECK(got == 6);
}

TEST_CASE_TEMPLATE("rule 44: tasks wait for queues, and lose no element", Flow, STEPS_FLOWS) {
  bench b;
  async::queue<int> queue;
  const auto taken = [&queue]() -> task<int> {
    const auto element = co_await queue.pop();
    co_return element.value_or(0);
  };
  const auto got = result_of<Flow, int>(b, [&](IAsyncSteps& asi) -> task<int> {
    const auto feed = [&queue](event_loop& loop) -> task<> {
      for (int i = 1; i != 4; ++i) {
        co_await sleep_for(loop, 1ms);
        CHECK(queue.enqueue(i));
      }
    };
    auto [x, none, y, z] = co_await when_all(taken(), feed(asi.tool()), taken(), taken());
    static_cast<void>(none);
    const auto any = co_await when_any(taken(), pause(asi.tool(), 1ms));
    CHECK(any.index == 1);
    CHECK(queue.enqueue(10));  // not for the one that has lost
    co_return x + y + z;
  });
  CHECK(got == 6);
  CHECK(queue.dequeue() == 10);
}

TEST_CASE_TEMPLATE("rule 45: when_any() gives the first value; the others have ended", Flow, STEPS_FLOWS) {
  bench b;
  const auto got = result_of<Flow, int>(b, [&](IAsyncSteps& asi) -> task<int> {
    const auto begin = b.clock.now();
    auto [index, value] = co_await when_any(pause(asi.tool(), 1h), after(asi.tool(), 3ms, 5),
                                            after(asi.tool(), 9ms, std::string("late")));
    CHECK(held::live() == 0);
    CHECK(b.clock.now() - begin < 6ms);
    CHECK(index == 1);
    static_assert(std::is_same_v<decltype(value), std::variant<std::monostate, int, std::string>>);
    std::vector<task<int>> tasks;
    tasks.push_back(after(asi.tool(), 3ms, 1));
    tasks.push_back(after(asi.tool(), 2ms, 2));
    const auto first = co_await when_any(std::move(tasks));
    CHECK(first.index == 1);
    CHECK(held::live() == 0);
    std::vector<task<>> pauses;
    pauses.push_back(pause(asi.tool(), 1ms));
    const steps::interop::when_any_result<std::monostate> only = co_await when_any(std::move(pauses));
    CHECK(only.index == 0);
    co_return std::get<1>(value) * 10 + first.value;
  });
  CHECK(got == 52);
}

TEST_CASE_TEMPLATE("rule 45: an exception is dropped while others run; the last one is thrown", Flow, STEPS_FLOWS) {
  bench b;
  const auto got = result_of<Flow, std::string>(b, [](IAsyncSteps& asi) -> task<std::string> {
    const auto any = co_await when_any(fail_at_once("x"), fail_after(asi.tool(), 1ms, "y"), after(asi.tool(), 3ms, 1));
    CHECK(any.index == 2);
    auto none =
        when_any(fail_after(asi.tool(), 1ms, "a"), fail_after(asi.tool(), 3ms, "b"), fail_after(asi.tool(), 2ms, "c"));
    co_return co_await text_of(none);
  });
  CHECK(got == "b");
  CHECK(held::live() == 0);
  CHECK(b.unhandled.empty());
}

TEST_CASE_TEMPLATE("misuse is an error where it is awaited", Flow, STEPS_FLOWS) {
  bench b;
  const auto got = result_of<Flow, lines>(b, [](IAsyncSteps&) -> task<lines> {
    lines seen;
    const auto note = [&seen](const steps::Error& e) { seen.emplace_back(e.explanation()); };
    try {
      static_cast<void>(co_await when_any(std::vector<task<int>>()));
    } catch (const steps::Error& e) {
      note(e);
    }
    try {
      task<int> moved = at_once(1);
      const task<int> taken = std::move(moved);
      static_cast<void>(co_await when_all(std::move(moved), at_once(1)));  // NOLINT(bugprone-use-after-move)
    } catch (const steps::Error& e) {
      note(e);
    }
    auto all = when_all(at_once(1));
    static_cast<void>(co_await all);
    try {
      static_cast<void>(co_await all);
    } catch (const steps::Error& e) {
      note(e);
    }
    co_return seen;
  });
  const std::string awaited = "when_all() or when_any() of a task that has been moved from or awaited";
  CHECK(got == lines{"when_any() of no tasks would never end", awaited, awaited});
}

TEST_CASE_TEMPLATE("tasks that one coroutine waits for are not awaited by another one", Flow, STEPS_FLOWS) {
  bench b;
  auto both = when_all(pause(b.loop, 2ms), pause(b.loop, 1ms));
  lines seen;
  Flow first{b.loop};
  first.add(co([&](IAsyncSteps&) -> task<> {
    co_await both;
    seen.emplace_back("ended");
  }));
  Flow second{b.loop};
  second.add(co([&](IAsyncSteps&) -> task<> { seen.push_back(co_await text_of(both)); }));
  first.execute();
  second.execute();
  b.pass(5ms);
  CHECK(seen == lines{"InternalError", "ended"});
  CHECK(held::live() == 0);
}

TEST_CASE_TEMPLATE("a coroutine that has added steps, succeeded, failed or cancelled its flow begins no task", Flow,
                   STEPS_FLOWS) {
  for (const int how : {0, 1, 2, 3}) {
    CAPTURE(how);
    bench b;
    bool begun = false;
    bool has_gone_on = false;
    lines seen;
    Flow flow{b.loop};
    flow.add(co([&](IAsyncSteps& asi) -> task<> {
               const auto noted = [&begun]() -> task<> {
                 begun = true;
                 co_return;
               };
               if (how == 0) asi.add([](IAsyncSteps&) {});
               if (how == 1) asi.errorNoThrow("Mine");
               if (how == 2) flow.cancel();
               if (how == 3) asi.success();
               co_await when_all(noted(), noted());
               seen.emplace_back("resumed");
             }),
             [&](IAsyncSteps& asi, ErrorCode code) {
               seen.push_back(std::string(code));
               asi.success();
             });
    flow.add([&](IAsyncSteps&) { has_gone_on = true; });
    flow.execute();
    b.pass(2ms);
    CHECK(!begun);
    CHECK(has_gone_on == (how != 2));
    CHECK(seen == (how == 0 ? lines{"InternalError"} : how == 1 ? lines{"Mine"} : lines{}));
  }
}

TEST_CASE("more branches than a NitroSteps has are the step's error") {
  bench b;
  std::string seen;
  testing::roomy_nitro flow{b.loop};
  flow.add(co([](IAsyncSteps& asi) -> task<> {
             std::vector<task<>> many;
             for (int i = 0; i != 17; ++i) many.push_back(pause(asi.tool(), 1ms));
             co_await when_all(std::move(many));
           }),
           [&](IAsyncSteps& asi, ErrorCode) {
             seen = std::string(asi.state().error_info());
             asi.success();
           });
  flow.execute();
  b.pass(2ms);
  CHECK(seen == "the flow exceeds nitro::MaxParallel");
  CHECK(held::live() == 0);
}
