// SPDX-License-Identifier: BSL-1.0
//
// Tasks with a priority: their order, what keeps them from starving each other, and that a pool accounts for them as
// for all others.
#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <exception>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "async/async.hpp"
#include "support/live_count.hpp"
#include "support/occupied.hpp"
#include "support/wait_while.hpp"

using async::priority;
using async::threadpool;
using async::threadpool_options;

namespace {

struct counted : testing::live_count<counted> {};

/// A pool of one worker that is held in a task until run() is called; tasks then write down their order.
class held_pool {
 public:
  explicit held_pool(threadpool_options options = {}) : pool_(with_one(std::move(options))), held_(hold()) {}

  threadpool& pool() { return pool_; }
  /// Posts `count` tasks that write down `name`.
  void post(priority wanted, char name, int count = 1) {
    for (; count != 0; --count) pool_.execute(wanted, [this, name] { log_ += name; });
  }
  void note(char name) { log_ += name; }
  void open() { held_.reset(); }
  /// Lets the worker go; returns the names of the tasks in the order in which they ran.
  std::string run() {
    open();
    pool_.wait_idle();
    return log_;
  }

 private:
  static threadpool_options with_one(threadpool_options options) {
    options.threads = 1;
    return options;
  }
  std::unique_ptr<testing::occupied> hold() { return std::make_unique<testing::occupied>(pool_, 1); }

  std::string log_;
  threadpool pool_;
  std::unique_ptr<testing::occupied> held_;
};

std::string times(std::size_t count, const std::string& what) {
  std::string all;
  for (; count != 0; --count) all += what;
  return all;
}

template <class Future>
bool is_dropped(Future& future) {
  try {
    future.get();
  } catch (const async::dropped_call& error) {
    return error.why() == async::dropped_call::reason::stopped;
  }
  return false;
}

}  // namespace

TEST_CASE("high tasks start before all others, low ones after all others, each in the order of their posts") {
  held_pool held;
  held.post(priority::low, 'x');
  held.post(priority::low, 'y');
  held.post(priority::normal, 'n');
  held.pool().execute([&held] { held.note('m'); });
  held.post(priority::high, 'a');
  held.post(priority::high, 'b');
  CHECK(held.run() == "abnmxy");
}

TEST_CASE("with the queue full of low tasks a high one starts next, from outside and from inside") {
  held_pool held;
  held.post(priority::low, 'l', 100);
  held.post(priority::high, 'H');
  for (int i = 0; i < 3; ++i) {
    held.pool().execute(priority::low, [&held] {
      held.note('p');
      held.post(priority::high, 'h');
    });
  }
  CHECK(held.run() == "H" + times(100, "l") + "phphph");
}

TEST_CASE("a high task starts before the tasks that wait in the worker's own deque") {
  held_pool held;
  held.pool().execute([&held] {
    for (int i = 0; i < 100; ++i) {
      held.pool().execute([&held, i] {
        held.note('n');
        if (i % 10 == 0) held.post(priority::high, 'h');
      });
    }
  });
  CHECK(held.run() == times(10, times(10, "n") + "h"));
}

TEST_CASE("a low task starts after 61 others, of whatever priority") {
  SUBCASE("high") {
    held_pool held;
    held.post(priority::high, 'h', 200);
    held.post(priority::low, 'l', 3);
    CHECK(held.run() == times(3, times(61, "h") + "l") + times(17, "h"));
  }
  SUBCASE("normal, from outside") {
    held_pool held;
    held.post(priority::low, 'l', 3);
    held.post(priority::normal, 'n', 200);
    CHECK(held.run() == times(3, times(61, "n") + "l") + times(17, "n"));
  }
  SUBCASE("normal, from inside") {
    held_pool held;
    held.post(priority::low, 'l', 2);
    held.pool().execute([&held] {
      for (int i = 0; i < 150; ++i) held.pool().execute([&held] { held.note('n'); });
    });
    CHECK(held.run() == times(60, "n") + "l" + times(61, "n") + "l" + times(29, "n"));
  }
  SUBCASE("that come when it has waited for a while, not counting those before") {
    held_pool held;
    held.post(priority::high, 'h', 50);
    held.pool().execute([&held] { held.post(priority::low, 'l'); });
    held.post(priority::normal, 'n', 100);
    // 16 high ones, the poster, 34 high ones with two normal ones between them, ten normal ones: 61 in all.
    const std::string log = held.run();
    CHECK(log.find('l') == 16 + 61);
  }
}

TEST_CASE("another task runs after 16 high ones in a row") {
  held_pool held;
  held.post(priority::normal, 'n', 3);
  held.post(priority::high, 'h', 100);
  CHECK(held.run() == times(3, times(16, "h") + "n") + times(52, "h"));
}

TEST_CASE("turns of event loops are of normal priority") {
  held_pool held;
  async::event_loop& loop = held.pool().loop(0);
  bool is_over = false;
  struct chain {
    held_pool& held;
    async::event_loop& loop;
    bool& is_over;
    void operator()() const {
      held.note('t');
      if (!is_over) loop.post(chain{held, loop, is_over});
    }
  };
  loop.post(chain{held, loop, is_over});
  held.post(priority::high, 'h', 40);
  held.pool().execute(priority::low, [&] {
    held.note('l');
    is_over = true;
  });
  const std::string log = held.run();
  INFO(log);
  const std::size_t at = log.find('l');
  CHECK(at == 61);
  CHECK(log.substr(0, 33) == times(16, "h") + "t" + times(16, "h"));
}

TEST_CASE("futures of tasks with a priority have values, errors, cancel() and stop tokens") {
  held_pool held;
  threadpool& pool = held.pool();
  async::future<int> value = pool.post(priority::high, [](int x) { return x + 1; }, 41);
  async::future<void> error = pool.post(priority::low, []() -> void { throw std::runtime_error("no"); });
  bool was_called = false;
  async::future<void> cancelled = pool.post(priority::low, [&was_called] { was_called = true; });
  async::future<bool> plain = pool.post(priority::normal, [] { return true; });
  CHECK(cancelled.cancel());
  held.open();
  CHECK(value.get() == 42);
  CHECK_THROWS_WITH(error.get(), "no");
  CHECK_THROWS_AS(cancelled.get(), std::future_error);
  CHECK(plain.get());
#if defined(__cpp_lib_jthread)
  std::atomic<bool> has_begun{false};
  async::future<bool> stoppable = pool.post(priority::high, [&has_begun](std::stop_token stop) {
    has_begun = true;
    while (!stop.stop_requested()) std::this_thread::yield();
    return true;
  });
  testing::wait_while(has_begun, false);
  CHECK(!stoppable.cancel());
  CHECK(stoppable.get());
#endif
  pool.wait_idle();
  CHECK(!was_called);
}

TEST_CASE("execute() with a priority passes arguments, of which the task has copies") {
  held_pool held;
  std::string passed;
  auto text = std::make_unique<std::string>("text");
  std::string copied = "copied";
  const auto note = [&passed](int number, std::unique_ptr<std::string> moved, const std::string& kept) {
    passed += std::to_string(number) + " " + *moved + " " + kept;
  };
  held.pool().execute(priority::low, note, 5, std::move(text), copied);
  copied = "changed";
  held.pool().execute(priority::high, [&passed](const char* what) { passed += what; }, "first, ");
  held.run();
  CHECK(passed == "first, 5 text copied");
}

TEST_CASE("a task can wait for tasks of any priority on a pool of one worker") {
  threadpool pool(1);
  for (const priority wanted : {priority::high, priority::normal, priority::low}) {
    CHECK(pool.post(wanted,
                    [&pool, wanted] {  // makes the call itself
                      return pool.post(wanted, [] { return 1; }).get();
                    })
              .get() == 1);
    CHECK(pool.post(wanted,
                    [&pool, wanted] {  // a stand-in makes it
                      std::future<int> result = pool.post(wanted, [] { return 2; });
                      return pool.wait(result);
                    })
              .get() == 2);
    CHECK(pool.post(wanted,
                    [&pool, wanted] {  // a stand-in runs the task
                      std::promise<int> promise;
                      std::future<int> result = promise.get_future();
                      pool.execute(wanted, [&promise] { promise.set_value(3); });
                      return pool.wait(result);
                    })
              .get() == 3);
  }
}

TEST_CASE("a waiting thread runs no task with a priority that it does not wait for") {
  held_pool held;
  held.pool().execute([&held] {
    async::task_group group(held.pool());
    group.run([&held] { held.note('g'); });
    held.post(priority::high, 'h');
    group.wait();
    held.note('w');
  });
  CHECK(held.run() == "gwh");
}

TEST_CASE("tasks with a priority wait while the pool is paused, and run in order when it grows") {
  std::string log;
  threadpool pool(0);
  for (const auto& [wanted, name] : {std::pair{priority::low, 'l'}, {priority::normal, 'n'}, {priority::high, 'h'}}) {
    pool.execute(wanted, [&log, letter = name] { log += letter; });
  }
  pool.configurepool(1);
  pool.wait_idle();
  CHECK(log == "hnl");
  pool.configurepool(0);
  for (const auto& [wanted, name] : {std::pair{priority::low, 'L'}, {priority::normal, 'N'}, {priority::high, 'H'}}) {
    pool.execute(wanted, [&log, letter = name] { log += letter; });
  }
  pool.configurepool(1);
  pool.wait_idle();
  CHECK(log == "hnlHNL");
}

TEST_CASE("workers that start after the first use of a priority look for high tasks, too") {
  std::string log;
  std::atomic<std::thread::id> second{};
  threadpool_options options;
  options.threads = 1;
  options.on_thread_start = [&second](std::size_t index) {
    if (index == 1) second = std::this_thread::get_id();
  };
  threadpool pool(std::move(options));
  pool.post(priority::low, [] {}).get();
  pool.configurepool(2);
  std::atomic<int> arrived{0}, left{100};
  for (int i = 0; i < 2; ++i) {  // one for each worker
    pool.execute([&] {
      for (++arrived; arrived != 2;) std::this_thread::yield();
      if (std::this_thread::get_id() != second.load()) {
        while (left != 0) std::this_thread::yield();
        return;
      }
      for (int n = 0; n < 100; ++n) {
        pool.execute([&, n] {
          log += 'n';
          if (n % 10 == 0) pool.execute(priority::high, [&log] { log += 'h'; });
          --left;
        });
      }
    });
  }
  pool.wait_idle();
  CHECK(log == times(10, times(10, "n") + "h"));
}

TEST_CASE("stop() and the destructor run the tasks of all priorities, also those that a paused pool has") {
  std::atomic<int> ran{0};
  const auto fill = [&ran](threadpool& pool) {
    for (const priority wanted : {priority::low, priority::normal, priority::high}) {
      pool.execute(wanted, [&ran, &pool, wanted] {
        ++ran;
        pool.execute(wanted, [&ran] { ++ran; });
      });
    }
  };
  for (const std::size_t threads : {0U, 1U, 3U}) {
    ran = 0;
    threadpool pool(threads);
    fill(pool);
    pool.stop();
    CHECK(ran == 6);
    CHECK_THROWS_AS(pool.execute(priority::high, [] {}), async::stopped);
    CHECK_THROWS_AS(static_cast<void>(pool.post(priority::low, [] {})), async::stopped);
  }
  for (const std::size_t threads : {0U, 2U}) {
    ran = 0;
    {
      threadpool pool(threads);
      fill(pool);
    }
    CHECK(ran == 6);
  }
}

TEST_CASE("stop(discard) drops the tasks of all priorities, counts them and breaks their futures") {
  threadpool pool(1);
  auto held = std::make_unique<testing::occupied>(pool, 1);
  std::vector<async::future<void>> waiting;
  bool was_called = false;
  for (const priority wanted : {priority::low, priority::normal, priority::high}) {
    for (int i = 0; i < 100; ++i) {
      waiting.push_back(pool.post(wanted, [&was_called, c = counted()] { was_called = true; }));
      pool.execute(wanted, [&was_called, c = counted()] { was_called = true; });
    }
  }
  CHECK(waiting[0].cancel());  // not counted below
  std::thread opener([&] {
    while (!waiting.back().is_ready() || counted::live() != 0) std::this_thread::yield();
    held.reset();
  });
  CHECK(pool.stop(async::discard) == 599);
  opener.join();
  CHECK(!was_called);
  for (std::size_t i = 1; i < waiting.size(); ++i) REQUIRE(is_dropped(waiting[i]));
}

TEST_CASE("stop(discard) drops what running tasks still post with a priority") {
  threadpool pool(1);
  std::atomic<bool> has_begun{false}, is_stopping{false};
  std::vector<async::future<void>> waiting;
  async::future<void> marker = pool.post([&] {
    has_begun = true;
    testing::wait_while(is_stopping, false);
    for (const priority wanted : {priority::low, priority::high}) waiting.push_back(pool.post(wanted, [] {}));
  });
  testing::wait_while(has_begun, false);
  async::future<void> dropped = pool.post(priority::high, [] {});
  std::thread watcher([&] {
    while (!dropped.is_ready()) std::this_thread::yield();
    is_stopping = true;
  });
  CHECK(pool.stop(async::discard) == 3);
  watcher.join();
  marker.get();
  for (auto& each : waiting) CHECK(is_dropped(each));
}

TEST_CASE("an exception of a task with a priority goes to on_unhandled, and the pool goes on") {
  std::vector<std::string> messages;
  threadpool_options options;
  options.on_unhandled = [&messages](std::exception_ptr error) {
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& e) {
      messages.push_back(e.what());
    }
  };
  held_pool held(std::move(options));
  held.pool().execute(priority::low, [] { throw std::runtime_error("low"); });
  held.pool().execute(priority::high, [] { throw std::runtime_error("high"); });
  held.post(priority::low, 'l');
  CHECK(held.run() == "l");
  CHECK(messages == std::vector<std::string>{"high", "low"});
}

TEST_CASE("max_queue limits each priority for itself, from outside") {
  threadpool_options options;
  options.max_queue = 4;
  SUBCASE("reject") {
    options.when_full = threadpool_options::overflow::reject;
    held_pool held(std::move(options));
    held.post(priority::low, 'l', 4);
    CHECK_THROWS_AS(held.post(priority::low, 'x'), async::queue_full);
    CHECK_THROWS_AS(static_cast<void>(held.pool().post(priority::low, [] {})), async::queue_full);
    held.post(priority::high, 'h', 4);
    CHECK_THROWS_AS(held.post(priority::high, 'x'), async::queue_full);
    held.post(priority::normal, 'n', 4);
    CHECK_THROWS_AS(held.post(priority::normal, 'x'), async::queue_full);
    CHECK(held.run() == "hhhhnnnnllll");
  }
  SUBCASE("caller_runs") {
    options.when_full = threadpool_options::overflow::caller_runs;
    held_pool held(std::move(options));
    held.post(priority::low, 'l', 4);
    std::thread::id ran_on;
    held.pool().execute(priority::low, [&ran_on] { ran_on = std::this_thread::get_id(); });
    CHECK(ran_on == std::this_thread::get_id());
    CHECK(held.run() == "llll");
  }
  SUBCASE("block") {
    held_pool held(std::move(options));
    held.post(priority::low, 'l', 4);
    std::atomic<bool> is_in{false};
    std::thread poster([&] {
      held.post(priority::low, 'm');
      is_in = true;
    });
    held.post(priority::high, 'h', 4);
    CHECK(!is_in);
    held.open();
    poster.join();
    CHECK(held.run() == "hhhhllllm");
  }
  SUBCASE("block, and stop()") {
    std::atomic<int> ran{0};
    threadpool pool(std::move(options));
    pool.configurepool(0);
    std::atomic<int> refused{0};
    std::vector<std::thread> posters;
    for (int i = 0; i < 8; ++i) {
      posters.emplace_back([&] {
        try {
          pool.execute(priority::high, [&ran] { ++ran; });
        } catch (const async::stopped&) {
          ++refused;
        }
      });
    }
    pool.stop();
    for (std::thread& each : posters) each.join();
    CHECK(ran + refused == 8);
  }
}

TEST_CASE("tasks that post tasks with a priority are not limited by max_queue, and starve none from outside") {
  threadpool_options options;
  options.max_queue = 4;
  held_pool held(std::move(options));
  held.post(priority::low, 'o', 4);
  int left = 20;
  struct again {
    held_pool& held;
    int& left;
    void operator()() const {
      held.note('i');
      if (--left != 0) held.pool().execute(priority::low, again{held, left});
    }
  };
  held.pool().execute([&] {
    held.pool().execute(priority::low, again{held, left});
    for (int i = 0; i < 100; ++i) held.post(priority::high, 'h');
  });
  const std::string log = held.run();
  CHECK(log.size() == 124);
  INFO(log);
  CHECK(log.find("ioioio") != std::string::npos);
}

TEST_CASE("wait_idle() waits for tasks of all priorities, and stats() counts them") {
  std::atomic<int> ran{0};
  threadpool pool(2);
  const auto before = pool.stats().tasks;
  for (int i = 0; i < 1'000; ++i) {
    for (const priority wanted : {priority::low, priority::normal, priority::high}) {
      pool.execute(wanted, [&ran] { ++ran; });
    }
  }
  pool.wait_idle();
  CHECK(ran == 3'000);
  CHECK(pool.stats().tasks - before == 3'000);
}

TEST_CASE("stats().queue_peak tells the longest queue, of whatever priority") {
  held_pool held;
  held.post(priority::low, 'l', 300);
  held.post(priority::high, 'h', 200);
  held.run();
  const std::size_t peak = held.pool().stats().queue_peak;
  CHECK(peak >= 200);
  CHECK(peak <= 300);
}
