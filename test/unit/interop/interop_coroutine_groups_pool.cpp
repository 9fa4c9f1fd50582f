// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "async/event_loop.hpp"
#include "async/threadpool.hpp"
#include "steps/asynctool.hpp"
#include "steps/interop/coroutine.hpp"
#include "steps/interop/when_all.hpp"
#include "support/coroutines.hpp"
#include "support/flows.hpp"
#include "support/live_count.hpp"
#include "support/scale.hpp"

// when_all() and when_any() of tasks on pools, and in coroutines that are no steps. Rules 44 and 45 of steps/RULES.md.

using async::event_loop;
using async::threadpool;
using steps::AsyncSteps;
using steps::IAsyncSteps;
using steps::interop::co;
using steps::interop::post;
using steps::interop::schedule;
using steps::interop::sleep_for;
using steps::interop::start;
using steps::interop::task;
using steps::interop::when_all;
using steps::interop::when_any;
using testing::bench;
using namespace std::chrono_literals;

namespace {

struct held : testing::live_count<held> {};

task<int> number(threadpool& pool, int i) {
  const held mine;
  co_await schedule(pool);
  co_return i;
}
task<> pause(threadpool& pool, std::chrono::milliseconds delay) {
  const held mine;
  co_await sleep_for(pool.loop(0), delay);
}
std::vector<task<int>> numbers(threadpool& pool, int count) {
  std::vector<task<int>> made;
  for (int i = 0; i != count; ++i) made.push_back(number(pool, i));
  return made;
}

/// Runs a coroutine as a step of each kind of flow, on pools of several sizes: body(pool, asi).
template <class T, class Body>
void on_pools(T expected, Body body) {
  for (const std::size_t workers : {1U, 2U, 4U}) {
    CAPTURE(workers);
    threadpool pool(workers);
    for (std::size_t round = testing::rounds(10); round != 0; --round) {
      const auto step = [&](IAsyncSteps& asi) -> task<T> { return body(pool, asi); };
      AsyncSteps flow{pool};
      flow.add(co(step));
      CHECK(flow.promise<T>().get() == expected);
      testing::roomy_nitro fixed{pool};
      fixed.add(co(step));
      CHECK(fixed.template promise<T>().get() == expected);
    }
    CHECK(held::live() == 0);
  }
}

/// A task that has not ended, in the count of the task above it.
struct alive {
  explicit alive(std::atomic<int>& c) noexcept : count(c) { count.fetch_add(1, std::memory_order_relaxed); }
  alive(const alive&) = delete;
  alive& operator=(const alive&) = delete;
  ~alive() { count.fetch_sub(1, std::memory_order_release); }

  std::atomic<int>& count;
};

/// Random trees of tasks. Each node of a tree counts those below it: none may live when its wait has ended.
struct forest {
  task<int> node(std::uint64_t seed, int depth, std::atomic<int>& above) {
    const held mine;
    std::mt19937_64 random(seed);
    const auto below = [&random](std::uint64_t n) { return static_cast<int>(random() % n); };
    const alive counted(above);
    switch (below(6)) {
      case 0:
        co_await schedule(pool);
        break;
      case 1:
        co_await sleep_for(pool.loop(0), std::chrono::microseconds(below(300)));
        break;
      case 2:
        co_await post(pool, [] {});
        break;
      default:
        break;
    }
    if (below(8) == 0) throw std::runtime_error("leaf");
    if (depth == 0) {
      if (below(8) == 0) co_await sleep_for(pool.loop(0), 1h);
      co_return 1;
    }
    const auto children = std::make_unique<std::atomic<int>>(0);
    std::vector<task<int>> tasks;
    const int count = 1 + below(5);
    for (int i = 0; i != count; ++i) tasks.push_back(node(random(), depth - 1, *children));
    int sum = 0;
    bool caught = false;
    try {
      if (below(2) == 0) {
        for (const int value : co_await when_all(std::move(tasks))) sum += value;
      } else {
        sum = (co_await when_any(std::move(tasks))).value;
      }
    } catch (const std::runtime_error&) {
      caught = true;
    }
    if (children->load(std::memory_order_acquire) != 0) early.fetch_add(1, std::memory_order_relaxed);
    if (caught && below(2) == 0) throw std::runtime_error("node");
    co_return sum;
  }

  threadpool& pool;
  std::atomic<int> roots{0};
  std::atomic<int> early{0};
};

}  // namespace

TEST_CASE("rule 44: tasks of a flow on a pool run at the same time") {
  threadpool pool(2);
  AsyncSteps flow{pool};
  std::atomic<int> here{0};
  const auto meet = [&here]() -> task<std::thread::id> {
    here.fetch_add(1);
    while (here.load() < 2) std::this_thread::yield();  // for the other one, which needs the other worker
    co_return std::this_thread::get_id();
  };
  flow.add(co([&](IAsyncSteps&) -> task<bool> {
    auto [first, second] = co_await when_all(meet(), meet());
    co_return first != second;
  }));
  CHECK(flow.promise<bool>().get());
}

TEST_CASE("rule 44: hundreds of tasks") {
  for (const std::size_t workers : {1U, 2U, 4U}) {
    threadpool pool(workers);
    AsyncSteps flow{pool};
    flow.add(co([&](IAsyncSteps&) -> task<int> {
      int sum = 0;
      for (int round = 0; round != 3; ++round) {
        for (const int i : co_await when_all(numbers(pool, 500))) sum += i;
        if (held::live() != 0) co_return -1;
      }
      co_return sum;
    }));
    CHECK(flow.promise<int>().get() == 3 * 499 * 500 / 2);
  }
}

TEST_CASE("rules 44 and 45: groups in groups, of both kinds of flow") {
  on_pools<int>(12, [](threadpool& pool, IAsyncSteps&) -> task<int> {
    const auto pair = [](threadpool& p, int i) -> task<int> {
      auto [x, y] = co_await when_all(number(p, i), number(p, i));
      co_return x + y;
    };
    auto [a, b] = co_await when_all(pair(pool, 1), pair(pool, 2));
    const auto any = co_await when_any(pair(pool, 3), pause(pool, 1h));
    co_return a + b + std::get<0>(any.value);
  });
}

TEST_CASE("rule 44: the first exception is thrown when the others have ended") {
  on_pools<std::string>("x", [](threadpool& pool, IAsyncSteps&) -> task<std::string> {
    const auto fails = [](threadpool& p) -> task<> {
      co_await schedule(p);
      throw std::runtime_error("x");
    };
    const int before = held::live();
    try {
      co_await when_all(pause(pool, 1h), fails(pool), pause(pool, 1h), pause(pool, 0ms));
    } catch (const std::runtime_error& e) {
      co_return held::live() == before ? e.what() : "early";
    }
    co_return "no exception";
  });
}

TEST_CASE("rule 45: the losers have ended when the winner's value arrives; results of others are destroyed") {
  on_pools<bool>(true, [](threadpool& pool, IAsyncSteps&) -> task<bool> {
    const auto race = [](threadpool& p) -> task<std::shared_ptr<held>> {
      co_await schedule(p);
      co_return std::make_shared<held>();
    };
    const auto lose = [](threadpool& p) -> task<int> {
      co_await pause(p, 1h);
      co_return 1;
    };
    bool right = true;
    {
      auto any = co_await when_any(race(pool), lose(pool), race(pool), race(pool));
      right = any.index != 1 && held::live() == 1;  // the winner's
    }
    co_return right&& held::live() == 0;
  });
}

TEST_CASE("rule 45: of two tasks that end with a value, the first one to end wins") {
  struct at_end {
    explicit at_end(std::atomic<bool>& f) noexcept : flag(&f) {}
    at_end(at_end&& other) noexcept : flag(std::exchange(other.flag, nullptr)) {}
    at_end& operator=(at_end&&) = delete;
    ~at_end() {
      if (flag != nullptr) flag->store(true);
    }
    std::atomic<bool>* flag;
  };
  threadpool pool(2);
  std::atomic<bool> has_begun{false};
  std::atomic<bool> has_ended{false};
  const auto second_to_end = [&]() -> task<int> {
    has_begun.store(true);
    while (!has_ended.load()) std::this_thread::yield();
    co_return 2;
  };
  const auto first_to_end = [&](at_end) -> task<int> {
    while (!has_begun.load()) std::this_thread::yield();
    co_return 1;
  };
  AsyncSteps flow{pool};
  flow.add(co([&](IAsyncSteps&) -> task<int> {
    const auto any = co_await when_any(second_to_end(), first_to_end(at_end(has_ended)));
    co_return static_cast<int>(any.index);
  }));
  CHECK(flow.promise<int>().get() == 1);
}

TEST_CASE(
    "rules 44 and 45: random trees that fail, time out and are cancelled; each task has ended when its wait has") {
  for (const std::size_t workers : {1U, 2U, 4U}) {
    CAPTURE(workers);
    threadpool pool(workers);
    forest trees{pool};
    int done = 0;
    for (std::uint64_t seed = 0; seed != testing::rounds(150); ++seed) {
      std::mt19937_64 random(seed);
      AsyncSteps flow{pool};
      flow.add(co([&, seed](IAsyncSteps& asi) -> task<int> {
        asi.setTimeout(20ms);
        co_return co_await trees.node(seed, 3, trees.roots);
      }));
      async::future<int> end = flow.promise<int>();
      if (random() % 3 == 0) {
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
        flow.cancel();
      }
      try {
        static_cast<void>(end.get());
        ++done;
      } catch (const std::exception&) {  // NOLINT: a timeout, a tree's error, or a cancel
      }
      REQUIRE(held::live() == 0);
    }
    CHECK(done > 0);
    CHECK(trees.early == 0);
  }
}

TEST_CASE("without a step: tasks run on the pool of the thread, or on its loop") {
  threadpool pool(2);
  const auto sum = [](threadpool& p) -> task<int> {
    co_await schedule(p);
    int all = 0;
    for (const int i : co_await when_all(numbers(p, 100))) all += i;
    const auto any = co_await when_any(pause(p, 1h), number(p, 1));
    const bool is_over = held::live() == 0;
    co_return all + std::get<1>(any.value) + (is_over ? 0 : 1'000'000);
  };
  CHECK(start(sum(pool)).get() == 4'951);

  steps::AsyncTool tool;
  const auto on_loop = [](steps::AsyncTool& t) -> task<bool> {
    co_await schedule(t);
    const auto here = [](steps::AsyncTool& u) -> task<std::thread::id> {
      co_await schedule(u);
      co_return std::this_thread::get_id();
    };
    auto [first, second] = co_await when_all(here(t), here(t));
    co_return first == second&& first == std::this_thread::get_id();
  };
  CHECK(start(on_loop(tool)).get());
}

TEST_CASE("without a step: in a turn of a loop of a pool, tasks run at the same time on the pool") {
  threadpool pool(2);
  std::atomic<int> here{0};
  const auto meet = [&here]() -> task<> {
    here.fetch_add(1);
    while (here.load() < 2) std::this_thread::yield();  // for the other one, which needs the other worker
    co_return;
  };
  const auto both = [&]() -> task<int> {
    co_await schedule(pool.loop(0));
    co_await when_all(meet(), meet());
    co_return here.load();
  };
  CHECK(start(both()).get() == 2);
}

TEST_CASE("without a step: exceptions, no tasks, and neither pool nor loop") {
  threadpool pool(2);
  const auto fails = [](threadpool& p) -> task<> {
    co_await schedule(p);
    const auto inner = [](threadpool& q) -> task<> {
      co_await schedule(q);
      throw std::runtime_error("inner");
    };
    co_await when_all(std::vector<task<>>());
    co_await when_all(pause(p, 1h), inner(p));
  };
  CHECK_THROWS_WITH_AS(start(fails(pool)).get(), "inner", std::runtime_error);
  CHECK(held::live() == 0);
  const auto nowhere = [](threadpool& p) -> task<> { co_await when_all(pause(p, 1h), pause(p, 1h)); };
  CHECK_THROWS_AS(start(nowhere(pool)).get(), steps::Error);
}

TEST_CASE("without a step: a coroutine that is destroyed cancels its tasks") {
  bench b;
  const auto waits = [](event_loop& loop) -> testing::other_coroutine {
    const auto sleeps = [](event_loop& l) -> task<> {
      const held mine;
      co_await sleep_for(l, 1h);
    };
    co_await when_all(sleeps(loop), sleeps(loop));
  };
  std::optional<testing::other_coroutine> waiting;
  b.loop.post([&] { waiting.emplace(waits(b.loop)); });
  b.pass(2ms);
  CHECK(held::live() == 2);
  b.loop.post([&] { waiting->handle.destroy(); });
  b.drain();
  CHECK(held::live() == 0);
}
