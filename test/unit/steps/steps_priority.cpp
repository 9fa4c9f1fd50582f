// SPDX-License-Identifier: BSL-1.0
//
// Flows with a priority on a pool: each turn of theirs is queued at their level.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "async/async.hpp"
#include "steps/steps.hpp"
#include "support/flows.hpp"
#include "support/held_workers.hpp"
#include "support/live_count.hpp"
#include "support/occupied.hpp"
#include "support/thrown.hpp"

using async::priority;
using async::threadpool;
using steps::IAsyncSteps;
using testing::is_broken;
using namespace std::chrono_literals;

namespace {

struct held : testing::live_count<held> {};

/// A pool of one worker that is held in a task until run() is called. Flows and tasks write down their order.
class held_pool {
 public:
  threadpool& pool() { return pool_; }
  void note(char name) { log_ += name; }
  void task(priority wanted, char name, int count = 1) {
    for (; count != 0; --count) pool_.execute(wanted, [this, name] { note(name); });
  }
  /// A flow that notes its name in each of its turns.
  void flow(priority wanted, char name, int turns = 1) {
    ends_.push_back(steps::post(pool_, wanted, [this, name, turns](IAsyncSteps& asi) {
      asi.repeat(static_cast<std::size_t>(turns), [this, name](IAsyncSteps& turn) {
        note(name);
        turn.relinquish();
      });
    }));
  }
  std::string run() {
    held_.reset();
    for (auto& each : ends_) each.get();
    pool_.wait_idle();
    return log_;
  }

 private:
  std::string log_;
  threadpool pool_{1};
  std::unique_ptr<testing::occupied> held_ = std::make_unique<testing::occupied>(pool_, 1);
  std::vector<async::future<void>> ends_;
};

std::string times(std::size_t count, const std::string& what) {
  std::string all;
  for (; count != 0; --count) all += what;
  return all;
}

std::size_t count_in(const std::string& text, char what) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), what));
}

}  // namespace

TEST_CASE("rule 58: flows of high priority start and go on before tasks and flows of normal one, those of low after") {
  held_pool pool;
  pool.flow(priority::low, 'l', 5);
  pool.flow(priority::normal, 'n', 5);
  pool.task(priority::normal, 't', 3);
  pool.flow(priority::high, 'h', 5);
  const std::string log = pool.run();
  INFO(log);
  CHECK(log.substr(0, 5) == "hhhhh");
  CHECK(count_in(log.substr(5, 8), 'n') == 5);
  CHECK(log.substr(13) == "lllll");
}

TEST_CASE("rule 58: flows and tasks of one priority take turns") {
  for (const priority wanted : {priority::high, priority::low}) {
    held_pool pool;
    pool.flow(wanted, 'f', 8);
    pool.task(wanted, 't', 8);
    const std::string log = pool.run();
    INFO(log);
    CHECK(count_in(log.substr(0, 8), 'f') >= 3);
    CHECK(count_in(log.substr(0, 8), 't') >= 3);
  }
}

TEST_CASE("rule 58: no flow starves: 16 high turns in a row, 61 others before a low one") {
  SUBCASE("a high flow without end beside a normal task, and a low flow") {
    held_pool pool;
    std::atomic<bool> end{false};
    auto endless = steps::post(pool.pool(), priority::high, [&](IAsyncSteps& asi) {
      asi.loop([&](IAsyncSteps& turn) {
        pool.note('h');
        if (end) turn.breakLoop();
        turn.relinquish();
      });
    });
    pool.task(priority::normal, 'n', 3);
    auto low = steps::post(pool.pool(), priority::low, [&](IAsyncSteps&) {
      pool.note('l');
      end = true;
    });
    const std::string log = pool.run();
    endless.get();
    low.get();
    INFO(log);
    CHECK(log.substr(0, 62) == times(3, times(16, "h") + "n") + times(10, "h") + "l");
  }
  SUBCASE("a normal flow without end beside a low one, which takes turns with it") {
    held_pool pool;
    bool end = false;
    auto endless = steps::post(pool.pool(), [&](IAsyncSteps& asi) {
      asi.loop([&](IAsyncSteps& turn) {
        pool.note('n');
        if (end) turn.breakLoop();
        turn.relinquish();
      });
    });
    auto low = steps::post(pool.pool(), priority::low, [&](IAsyncSteps& asi) {
      asi.repeat(3, [&](IAsyncSteps& turn) {
        pool.note('l');
        turn.relinquish();
      });
      asi.add([&](IAsyncSteps&) { end = true; });
    });
    const std::string log = pool.run();
    endless.get();
    low.get();
    INFO(log);
    CHECK(log.substr(0, 3 * 62) == times(3, times(61, "n") + "l"));
  }
}

TEST_CASE("rule 58: a flow goes on at its priority after a completion, a timer, a queue and a future") {
  threadpool pool(1);
  async::queue<int> queue;
  async::promise<int> promise;
  std::string log;
  steps::completion<> completion;
  std::atomic<int> waiting{0};
  const auto at = [&](priority wanted, char name) {
    return steps::post(pool, wanted, [&, name](IAsyncSteps& asi) {
      asi.add([&](IAsyncSteps& step) {
        ++waiting;
        step.await(queue);
      });
      asi.add([&, name](IAsyncSteps&, int) { log += name; });
    });
  };
  auto low = at(priority::low, 'l');
  pool.wait_idle();
  auto normal = at(priority::normal, 'n');
  pool.wait_idle();
  auto high = at(priority::high, 'h');
  auto by_timer = steps::post(pool, priority::high, [&](IAsyncSteps& asi) {
    asi.add([&](IAsyncSteps& step) {
      ++waiting;
      step.tool().deferred(1ms, [t = step.completion<>()] { t.success(); });
    });
    asi.add([&](IAsyncSteps&) { log += 'd'; });
  });
  auto by_future = steps::post(pool, priority::low, [&, f = promise.get_future().share()](IAsyncSteps& asi) {
    asi.add([&, f](IAsyncSteps& step) {
      ++waiting;
      step.await(async::shared_future<int>(f));
    });
    asi.add([&](IAsyncSteps&) { log += 'f'; });
  });
  while (waiting != 5) std::this_thread::yield();
  pool.wait_idle();
  {
    testing::occupied all(pool, 1);
    promise.set_value(1);
    for (int i = 0; i < 3; ++i) queue.enqueue(i);
    pool.execute([&] { log += 't'; });
    std::this_thread::sleep_for(3ms);  // the timer is due when the worker looks
  }
  for (auto* each : {&low, &normal, &high, &by_timer, &by_future}) each->get();
  INFO(log);
  CHECK(log.find('h') < log.find('n'));
  CHECK(log.find('h') < log.find('t'));
  CHECK(log.find('n') < log.find('l'));
  CHECK(log.find('t') < log.find('l'));
  CHECK(log.find('t') < log.find('f'));
  CHECK(log.find('d') < log.find('l'));
}

TEST_CASE("rule 58: branches and instances have the priority of their flow") {
  held_pool pool;
  async::future<void> end = steps::post(pool.pool(), priority::low, [&](IAsyncSteps& asi) {
    auto& branches = asi.parallel();
    for (int i = 0; i < 4; ++i) {
      branches.add([&](IAsyncSteps& branch) {
        pool.note('b');
        branch.relinquish();
        branch.add([&](IAsyncSteps&) { pool.note('B'); });
      });
    }
    for (int i = 0; i < 10; ++i) pool.pool().execute([&] { pool.note('n'); });
  });
  const std::string log = pool.run();
  end.get();
  CHECK(log.substr(0, 10) == times(10, "n"));
  CHECK(count_in(log, 'b') == 4);
  CHECK(count_in(log, 'B') == 4);

  held_pool other;
  steps::AsyncSteps owner(other.pool(), priority::high);
  const std::unique_ptr<IAsyncSteps> made = owner.newInstance();
  made->add([&](IAsyncSteps&) { other.note('i'); });
  other.task(priority::normal, 'n');
  made->execute();
  CHECK(other.run() == "in");
}

TEST_CASE_TEMPLATE("rule 58: a flow with an owner has its priority in each execution", Flow, STEPS_FLOWS) {
  held_pool pool;
  Flow low(pool.pool(), priority::low), high(pool.pool(), priority::high), normal(pool.pool(), priority::normal);
  const auto add = [&pool](Flow& flow, char name) {
    flow.add([&pool, name](IAsyncSteps& asi) {
      pool.note(name);
      asi.relinquish();
      asi.add([&pool, name](IAsyncSteps&) { pool.note(name); });
    });
    return flow.promise();
  };
  for (int round = 0; round < 2; ++round) {
    std::vector<async::future<void>> ends;
    const auto run_all = [&] {
      ends.push_back(add(low, 'l'));
      ends.push_back(add(normal, 'n'));
      ends.push_back(add(high, 'h'));
    };
    if (round == 0) {
      run_all();
    } else {
      testing::occupied again(pool.pool(), 1);
      run_all();
    }
    pool.run();
    for (auto& each : ends) each.get();
  }
  CHECK(pool.run() == "hhnnllhhnnll");
}

/// A flow of normal priority, 'n', whose first turn starts one of another priority, 'o'. Each has ten turns.
///
/// To compare a flow with tasks would not do: where a turn takes long, loops go on before tasks for as long.
class two_flows {
 public:
  two_flows(threadpool& pool, priority other)
      : end_(steps::post(pool, [this, &pool, other](IAsyncSteps& asi) {
          end_of_other_ = steps::post(pool, other, [this](IAsyncSteps& its) { take_turns(its, 'o'); });
          take_turns(asi, 'n');
        })) {}

  /// The order of their turns, when both have ended.
  std::string order() {
    end_.get();
    end_of_other_.get();
    return log_;
  }
  static std::string expected(priority other) {
    return other == priority::high ? "n" + std::string(10, 'o') + std::string(9, 'n')
                                   : std::string(10, 'n') + std::string(10, 'o');
  }

 private:
  void take_turns(IAsyncSteps& asi, char name) {
    asi.repeat(10, [this, name](IAsyncSteps& turn) {
      log_ += name;
      turn.relinquish();
    });
  }

  std::string log_;
  async::future<void> end_of_other_;
  async::future<void> end_;
};

TEST_CASE("a loop that has served a flow of another priority serves the next one at the normal priority") {
  for (const bool flows_wait : {false, true}) {
    for (const priority before : {priority::high, priority::low}) {
      held_pool pool;
      std::vector<async::future<void>> ends;
      for (int i = 0; i < 3; ++i) {
        ends.push_back(steps::post(pool.pool(), before, [flows_wait](IAsyncSteps& asi) {
          if (flows_wait) asi.tool().deferred(100us, [t = asi.completion<>()] { t.success(); });
        }));
      }
      static_cast<void>(pool.run());
      for (auto& each : ends) each.get();
      pool.pool().wait_idle();
      CHECK(two_flows(pool.pool(), before).order() == two_flows::expected(before));
    }
  }
}

TEST_CASE("a flow that ends in its first turn leaves its priority to no other flow of the worker") {
  held_pool pool;
  async::future<void> first = steps::post(pool.pool(), priority::high, [](IAsyncSteps&) {});
  two_flows next(pool.pool(), priority::high);
  static_cast<void>(pool.run());
  first.get();
  CHECK(next.order() == two_flows::expected(priority::high));
}

TEST_CASE("a worker that waits in a task turns loops of all priorities") {
  threadpool pool(1);
  for (const priority wanted : {priority::high, priority::normal, priority::low}) {
    auto done = pool.post([&] {
      std::promise<void> promise;
      std::future<void> end = promise.get_future();
      static_cast<void>(steps::post(pool, wanted, [&promise](IAsyncSteps& asi) {
        asi.repeat(10, [](IAsyncSteps& turn) { turn.relinquish(); });
        asi.add([&promise](IAsyncSteps&) { promise.set_value(); });
      }));
      pool.wait(end);
    });
    CHECK(testing::is_ready_in_time(done));
    done.get();
  }
}

TEST_CASE("flows of all priorities rest while the pool is paused, and go on when it grows") {
  threadpool pool(2);
  std::atomic<int> turns{0};
  std::atomic<bool> end{false};
  std::vector<async::future<void>> ends;
  for (const priority wanted : {priority::high, priority::normal, priority::low}) {
    for (int i = 0; i < 10; ++i) {
      ends.push_back(steps::post(pool, wanted, [&](IAsyncSteps& asi) {
        asi.loop([&](IAsyncSteps& turn) {
          ++turns;
          if (end) turn.breakLoop();
          turn.relinquish();
        });
      }));
    }
  }
  for (int round = 0; round < 50; ++round) {
    pool.configurepool(static_cast<std::size_t>(round % 3));
    std::this_thread::yield();
  }
  pool.configurepool(3);
  end = true;
  for (auto& each : ends) each.get();
  CHECK(turns >= 30);
}

TEST_CASE("stop() and stop(discard) end flows of all priorities, and count those that the discard ends") {
  for (const bool discards : {false, true}) {
    threadpool pool(1);
    std::atomic<int> cancelled{0};
    std::vector<async::future<void>> ends;
    for (const priority wanted : {priority::high, priority::normal, priority::low}) {
      ends.push_back(steps::post(pool, wanted, [&cancelled, h = held()](IAsyncSteps& asi) {
        asi.setCancel([&cancelled](IAsyncSteps&) { ++cancelled; });
      }));
      ends.push_back(steps::post(pool, wanted, [&cancelled, h = held()](IAsyncSteps& asi) {
        asi.add([&cancelled](IAsyncSteps& step) {
          step.setCancel([&cancelled](IAsyncSteps&) { ++cancelled; });
          step.loop([](IAsyncSteps& turn) { turn.relinquish(); });
        });
      }));
    }
    std::atomic<int> started{0};
    for (const priority wanted : {priority::high, priority::normal, priority::low}) {
      pool.execute(wanted, [&started] { ++started; });
    }
    while (started != 3) std::this_thread::yield();
    if (discards) {
      const std::size_t count = pool.stop(async::discard);
      CHECK(count == 6);
    } else {
      pool.stop();
    }
    CHECK(held::live() == 0);
    CHECK(cancelled <= 6);
    CHECK(cancelled >= (discards ? 3 : 6));
    for (auto& each : ends) CHECK(is_broken(each));
    CHECK_THROWS_AS(static_cast<void>(steps::post(pool, priority::high, [](IAsyncSteps&) {})), async::stopped);
  }
}

TEST_CASE("a flow with a priority is cancelled before its start and after it, and refused by a full queue") {
  async::threadpool_options options;
  options.threads = 1;
  options.max_queue = 2;
  options.when_full = async::threadpool_options::overflow::reject;
  threadpool pool(std::move(options));
  bool was_called = false;
  async::future<void> unstarted, refused;
  {
    testing::occupied all(pool, 1);
    unstarted = steps::post(pool, priority::low, [&was_called, h = held()](IAsyncSteps&) { was_called = true; });
    static_cast<void>(steps::post(pool, priority::low, [](IAsyncSteps&) {}));
    CHECK_THROWS_AS(refused = steps::post(pool, priority::low, [h = held()](IAsyncSteps&) {}), async::queue_full);
    steps::AsyncSteps flow(pool, priority::low);
    flow.add([&was_called, h = held()](IAsyncSteps&) { was_called = true; });
    CHECK_THROWS_AS(flow.execute(), async::queue_full);
    CHECK(unstarted.cancel());
    CHECK(held::live() == 1);
  }
  CHECK(held::live() == 0);
  auto waits = steps::post(pool, priority::high, [](IAsyncSteps& asi) { asi.waitExternal(); });
  pool.wait_idle();
  CHECK(!waits.cancel());
  CHECK(is_broken(waits));
  CHECK(is_broken(unstarted));
  CHECK(!was_called);
}

TEST_CASE("rule 58: what is below an only branch has the priority of the flow") {
  held_pool pool;
  async::future<void> end = steps::post(pool.pool(), priority::low, [&](IAsyncSteps& asi) {
    asi.parallel().add([&](IAsyncSteps& only) {
      auto& inner = only.parallel();
      for (int i = 0; i < 3; ++i) inner.add([&](IAsyncSteps&) { pool.note('b'); });
      for (int i = 0; i < 10; ++i) pool.pool().execute([&] { pool.note('n'); });
    });
  });
  const std::string log = pool.run();
  end.get();
  CHECK(log == times(10, "n") + "bbb");
}
