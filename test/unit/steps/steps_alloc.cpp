// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "async/threadpool.hpp"
#include "support/alloc_counter.hpp"
#include "support/flows.hpp"

// The memory of flows: what allocates, and when. Rule 35 of steps/RULES.md.

using steps::ErrorCode;
using steps::IAsyncSteps;
using testing::alloc_counter;
using testing::bench;
using namespace std::chrono_literals;

namespace {

/// The expected sums of the pieces below, so that a piece that does not run is noticed.
struct tally {
  int steps = 0;
  int handled = 0;
  int cancels = 0;
};

/// Nesting, results of all sizes, objects and memory of steps.
void add_steps(IAsyncSteps& asi, tally& t) {
  asi.add([&t](IAsyncSteps& one) {
    ++t.steps;
    one.stack<std::array<int, 4>>()[0] = 1;
    one.stack(64);
    one.add([&t](IAsyncSteps& two) {
      ++t.steps;
      two.add([&t](IAsyncSteps& three) {
        ++t.steps;
        three.success(1, 2.0, std::uint64_t{3});
      });
    });
    one.add([&t](IAsyncSteps& two, int a, double b) {
      t.steps += a + static_cast<int>(b);
      two.success(std::array<int, 20>{1});
    });
  });
  asi.add([&t](IAsyncSteps&, const std::array<int, 20>& a) { t.steps += a[0]; });
  asi.successStep(5);
  asi.add([&t](IAsyncSteps&, int a) { t.steps += a; });
  asi.relinquish();
}

void add_loops(IAsyncSteps& asi, tally& t) {
  asi.repeat(3, [&t](IAsyncSteps& i, std::size_t) { i.add([&t](IAsyncSteps&) { ++t.steps; }); });
  asi.loop([&t, left = 3](IAsyncSteps& i) mutable {
    if (--left == 0) return i.breakLoopNoThrow();
    ++t.steps;
    i.continueLoopNoThrow();
  });
  asi.forEach(std::array<int, 3>{1, 2, 3}, [&t](IAsyncSteps&, std::size_t, int v) { t.steps += v; });
  asi.loop(
      [&t](IAsyncSteps& i) {
        i.loop([&t](IAsyncSteps& j) {
          ++t.steps;
          j.breakLoopNoThrow("outer");
        });
      },
      "outer");
}

void add_errors(IAsyncSteps& asi, tally& t) {
  asi.add(
      [](IAsyncSteps& one) {
        one.add([](IAsyncSteps& two) { two.errorNoThrow("Code", "the info of the error, longer than a short string"); },
                [](IAsyncSteps& two, ErrorCode) { two.errorNoThrow("Other"); });
      },
      [&t](IAsyncSteps& one, ErrorCode code) {
        if (code == "Other") ++t.handled;
        one.success();
      });
  asi.add([](IAsyncSteps& one) { one.add([](IAsyncSteps& two) { two.success(1, 2); }); });
  asi.add([](IAsyncSteps&, int, const std::array<char, 3>&) {},
          [&t](IAsyncSteps& one, ErrorCode code) {
            if (code == "InternalError") ++t.handled;
            one.add([&t](IAsyncSteps&) { ++t.steps; });
          });
}

void add_waits(IAsyncSteps& asi, tally& t) {
  asi.add(
      [&t](IAsyncSteps& one) {
        one.setTimeout(5ms);
        one.add([&t](IAsyncSteps& two) {
          two.setTimeout(1h);
          two.setCancel([&t](IAsyncSteps&) { ++t.cancels; });
        });
      },
      [&t](IAsyncSteps& one, ErrorCode code) {
        if (code == "Timeout") ++t.handled;
        one.success();
      });
  asi.add([](IAsyncSteps& one) {
    one.setTimeout(1h);
    one.success();
  });
}

void add_parallel(IAsyncSteps& asi, tally& t) {
  auto& p = asi.parallel();
  for (int i = 0; i < 4; ++i) p.add([&t](IAsyncSteps& one) { one.add([&t](IAsyncSteps&) { ++t.steps; }); });
  auto& failing = asi.parallel([&t](IAsyncSteps& one, ErrorCode) {
    ++t.handled;
    one.success();
  });
  failing.add([&t](IAsyncSteps& one) { one.setCancel([&t] { ++t.cancels; }); });
  failing.add([](IAsyncSteps& one) { one.errorNoThrow("Code", "the info of the error in a branch, a long text"); });
}

void add_all(IAsyncSteps& asi, tally& t) {
  asi.add([&t](IAsyncSteps& one) { add_steps(one, t); });
  asi.add([&t](IAsyncSteps& one) { add_loops(one, t); });
  asi.add([&t](IAsyncSteps& one) { add_errors(one, t); });
  asi.add([&t](IAsyncSteps& one) { add_waits(one, t); });
  asi.add([&t](IAsyncSteps& one) { add_parallel(one, t); });
  asi.add([](IAsyncSteps& one) { one.setCancel([] {}); });  // until it is cancelled
}

/// One execution of everything, ended by cancel().
void play(bench& b, IAsyncSteps& flow, tally& t) {
  t = {};
  add_all(flow, t);
  flow.execute();
  b.pass(10ms);
  flow.cancel();
}

void check(const tally& t) {
  CHECK(t.steps == 12 + 3 + 2 + 6 + 1 + 1 + 4);
  CHECK(t.handled == 4);
  CHECK(t.cancels == 2);
}

using steps::nitro::MaxParallel;
using steps::nitro::MaxSteps;
using fixed_flow = steps::NitroSteps<MaxSteps<16>, MaxParallel<6>, steps::nitro::ArenaBytes<2048>>;

/// The fewest blocks that any 500 runs leave behind: in the first ones the caches of the threads fill up.
template <class F>
std::ptrdiff_t left_by(F run) {
  std::ptrdiff_t fewest = (std::numeric_limits<std::ptrdiff_t>::max)();
  for (int i = 0; i < 20 && fewest > 0; ++i) {
    static_cast<void>(async::threadpool::trim());
    const alloc_counter counter;
    for (int k = 0; k < 500; ++k) run();
    static_cast<void>(async::threadpool::trim());
    fewest = (std::min)(fewest, counter.live());
  }
  return fewest;
}

/// A result that does not fit into the flow.
struct uncopyable {
  uncopyable() = default;
  uncopyable(const uncopyable&) { throw std::runtime_error("copied"); }
  std::array<char, 100> more{};
};

/// The body of a flow that cannot be moved into it.
struct movable_once {
  movable_once() = default;
  movable_once(movable_once&& other) : moves(other.moves + 1) {
    if (moves == 2) throw std::runtime_error("moved");
  }
  void operator()(IAsyncSteps&) const {}
  int moves = 0;
};

}  // namespace

TEST_CASE("rule 35: a NitroSteps allocates nothing after its construction") {
  bench b;
  fixed_flow flow{b.loop};
  tally t;
  const alloc_counter counter;
  play(b, flow, t);
  CHECK(counter.calls() == 0);
  check(t);
  for (int i = 0; i < 20; ++i) play(b, flow, t);
  CHECK(counter.calls() == 0);
  check(t);
  CHECK(b.unhandled.empty());
}

TEST_CASE("rule 35: an error that is thrown takes no memory but that of the exception") {
  bench b;
  fixed_flow flow{b.loop};
  std::size_t handled = 0;
  const alloc_counter counter;
  for (int i = 0; i < 3; ++i) {
    flow.add([](IAsyncSteps& asi) { asi.error("Code", "the info of the error, longer than a short string is"); },
             [&handled](IAsyncSteps& asi, ErrorCode) {
               handled += asi.state().error_info().size();
               asi.success();
             });
    flow.add([](IAsyncSteps&) { throw steps::Error("Code", "the info of the error, longer than a short string is"); },
             [&handled](IAsyncSteps& asi, ErrorCode) {
               handled += asi.state().error_info().size();
               asi.success();
             });
    flow.execute();
    b.drain();
  }
#if defined(_LIBCPP_VERSION) || defined(_WIN32)
  const std::size_t allowed = 6;  // the std::runtime_error in each allocates its text
#else
  const std::size_t allowed = 0;
#endif
  CHECK(counter.calls() == allowed);
  CHECK(handled == 6 * 52);
}

TEST_CASE("rule 35: retry(), every() and a free semaphore need no memory but the object's") {
  bench b;
  fixed_flow flow{b.loop};
  steps::Semaphore semaphore(1);
  std::size_t attempts = 0, rounds = 0;
  const alloc_counter counter;
  for (int i = 0; i < 3; ++i) {
    flow.retry(steps::Retry{.attempts = 3}.on("Busy"), [&attempts](IAsyncSteps& asi) {
      if (++attempts % 3 != 0) asi.errorNoThrow("Busy");
    });
    flow.every(std::chrono::milliseconds(10), [&](IAsyncSteps& asi, const steps::Tick& tick) {
      if (tick.number == 3) return asi.breakLoopNoThrow();
      asi.sync(semaphore, [&rounds](IAsyncSteps&) { ++rounds; });
    });
    flow.execute();
    b.run(std::chrono::seconds(1));
  }
  CHECK(counter.calls() == 0);
  CHECK(attempts == 9);
  CHECK(rounds == 9);
  CHECK(b.unhandled.empty());
}

TEST_CASE("rule 35: a loop keeps its label, of any length, in the object") {
  bench b;
  fixed_flow flow{b.loop};
  std::size_t rounds = 0;
  const alloc_counter counter;
  for (int i = 0; i < 3; ++i) {
    const auto inner = [&rounds](IAsyncSteps& asi, std::size_t) {
      if (++rounds % 3 == 0) return asi.breakLoopNoThrow("the label of the outer loop, which is a long one");
      asi.continueLoopNoThrow("the label of the inner loop, which is a long one");
    };
    flow.loop([&inner](IAsyncSteps& asi) { asi.repeat(9, inner, "the label of the inner loop, which is a long one"); },
              "the label of the outer loop, which is a long one");
    flow.execute();
    b.drain();
  }
  CHECK(counter.calls() == 0);
  CHECK(rounds == 9);
  CHECK(b.unhandled.empty());
}

TEST_CASE("rule 35: state() of a NitroSteps takes keys and nodes from the object") {
  bench b;
  steps::NitroSteps<steps::nitro::MaxStateBytes<512>> flow{b.loop};
  const alloc_counter counter;
  flow.state()["a"] = 1;
  flow.state()["a key that is longer than a short string holds"] = 2.5F;  // std::any has room for a pointer
  CHECK(flow.state<int>("a") == 1);
  CHECK(flow.state<float>("a key that is longer than a short string holds") == 2.5F);
  CHECK(counter.calls() == 0);
}

TEST_CASE("in the steady state an AsyncSteps allocates nothing, be it used again or made anew") {
  bench b;
  tally t;
  const auto round = [&] {
    steps::AsyncSteps flow{b.loop};
    play(b, flow, t);
    check(t);
    play(b, flow, t);
  };
  for (int i = 0; i < 3; ++i) round();
  const alloc_counter counter;
  for (int i = 0; i < 20; ++i) round();
  CHECK(counter.calls() == 0);
  check(t);
}

TEST_CASE("in the steady state thousands of flows alive at once allocate nothing") {
  constexpr std::size_t count = 3000;
  bench b;
  std::vector<steps::AsyncSteps> flows;
  flows.reserve(count);
  std::size_t ended = 0;
  const auto round = [&] {
    for (std::size_t i = 0; i < count; ++i) {
      flows.emplace_back(b.loop);
      flows.back().add([](IAsyncSteps& asi) { asi.setTimeout(1h); }, [](IAsyncSteps&, ErrorCode) {});
      flows.back().add([](IAsyncSteps&) {});
      flows.back().execute();
    }
    b.drain();
    ended += count;
    flows.clear();
  };
  round();
  const alloc_counter counter;
  for (int i = 0; i < 5; ++i) round();
  // The blocks of thousands of flows go through the recycler's depot, which keeps them.
  CHECK(counter.calls() == 0);
  CHECK(ended == 6 * count);
}

TEST_CASE("waits for completions and promises take recycled blocks") {
  bench b;
  const auto round = [&](IAsyncSteps& flow) {
    steps::completion<int> done;
    int got = 0;
    flow.add([&](IAsyncSteps& asi) { done = asi.completion<int>(); });
    flow.add([&](IAsyncSteps& asi, int v) {
      got = v;
      asi.success(v + 1);
    });
    auto result = flow.promise<int>();
    b.drain();
    CHECK(done.success(41));
    b.drain();
    CHECK(got == 41);
    CHECK(result.get() == 42);
  };
  const auto both = [&] {
    steps::AsyncSteps flow{b.loop};
    round(flow);
    fixed_flow fixed{b.loop};
    round(fixed);
  };
  for (int i = 0; i < 3; ++i) both();
  const alloc_counter counter;
  for (int i = 0; i < 20; ++i) both();
  CHECK(counter.calls() == 0);
}

TEST_CASE("a flow that has grown gives its memory back when its steps have ended") {
  bench b;
  const auto round = [&](int depth) {
    steps::AsyncSteps flow{b.loop};
    int deepest = 0;
    const auto go = [&](auto& self, IAsyncSteps& asi, int level) -> void {
      deepest = level;
      if (level < depth) asi.add([&self, level](IAsyncSteps& inner) { self(self, inner, level + 1); });
    };
    flow.add([&](IAsyncSteps& asi) { go(go, asi, 1); });
    flow.execute();
    b.drain();
    CHECK(deepest == depth);
  };
  round(1000);
  const alloc_counter counter;
  for (int i = 0; i < 10; ++i) round(1000);
  CHECK(counter.live() == 0);
}

TEST_CASE("the winner of a race leaves nothing of its state") {
  bench b;
  const auto round = [&b] {
    steps::AsyncSteps flow{b.loop};
    flow.race().add([](IAsyncSteps& branch) { branch.state().error_info(); }).add([](IAsyncSteps& branch) {
      branch.waitExternal();
    });
    flow.execute();
    b.drain();
    CHECK(flow);
  };
  CHECK(left_by(round) <= 0);
}

TEST_CASE("a large result whose constructor throws leaves nothing") {
  bench b;
  const auto round = [&b] {
    testing::lines seen;
    steps::AsyncSteps flow{b.loop};
    flow.add(
        [](IAsyncSteps& asi) {
          const uncopyable result;
          asi.success(result);
        },
        testing::noting_code(seen));
    flow.execute();
    b.drain();
    CHECK(seen == testing::lines{"copied"});
  };
  CHECK(left_by(round) <= 0);
}

TEST_CASE("a body that cannot be moved into its flow leaves nothing") {
  async::threadpool pool(1);
  CHECK(left_by([&pool] { CHECK_THROWS_WITH(steps::post(pool, movable_once()).get(), "moved"); }) <= 0);
}

TEST_CASE("branches on a pool that end before they begin leave nothing") {
  async::threadpool pool(1);
  SUBCASE("by an error of another one") {
    CHECK(left_by([&pool] {
            steps::AsyncSteps flow{pool};
            flow.add([](IAsyncSteps& asi) {
              auto& branches = asi.parallel([](IAsyncSteps& handler, ErrorCode) { handler.success(); });
              for (int i = 0; i < 4; ++i) branches.add([](IAsyncSteps& branch) { branch.error("Failed"); });
            });
            flow.promise().get();
          }) <= 0);
  }
  SUBCASE("by a mistake, and then a cancel") {
    CHECK(left_by([&pool] {
            steps::AsyncSteps flow{pool};
            flow.add([&flow](IAsyncSteps& asi) {
              asi.tool().post([&flow] { flow.cancel(); });
              auto& branches = asi.parallel();
              branches.add([](IAsyncSteps& branch) { branch.waitExternal(); });
              branches.parallel().waitExternal();
              branches.add([](IAsyncSteps& branch) { branch.waitExternal(); });
            });
            CHECK_THROWS_AS(flow.promise().get(), std::future_error);
            pool.wait_idle();  // cancel() has returned
          }) <= 0);
  }
}
