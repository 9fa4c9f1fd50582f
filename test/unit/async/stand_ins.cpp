// SPDX-License-Identifier: BSL-1.0
//
// Stand-ins: threads that replace workers which sleep in a wait while tasks are queued.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "async/task_group.hpp"
#include "async/threadpool.hpp"
#include "steps/spawn.hpp"
#include "support/process_cpu_time.hpp"
#include "support/scale.hpp"
#if defined(__linux__)
#include <filesystem>

#include "support/thread_failure.hpp"
#endif

using async::task_group;
using async::threadpool;
using async::threadpool_options;
using namespace std::chrono_literals;

namespace {

/// Whether the condition becomes true within a minute.
template <class Condition>
bool soon(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

/// A chain of tasks linked by promises: each waits for the next one, and the last waits for nothing. They count
/// themselves.
class chain {
 public:
  chain(threadpool& pool, std::size_t length) : pool_(pool), links_(length + 1) {
    for (std::promise<void>& link : links_) ends_.push_back(link.get_future());
  }
  ~chain() {
    while (over_ != links_.size()) std::this_thread::yield();  // a promise must live until its set_value() returns
  }
  chain(const chain&) = delete;
  chain& operator=(const chain&) = delete;

  /// The last task calls `at_end` first.
  template <class AtEnd = void (*)()>
  void post_all(AtEnd at_end = [] {}) {
    for (std::size_t i = 0; i + 1 < links_.size(); ++i) pool_.execute([this, i] { wait_and_set(i); });
    pool_.execute([this, at_end] {
      at_end();
      set(links_.size() - 1);
    });
  }
  /// In this order the newest task, with which a worker begins, waits for older ones.
  void post_all_newest_first() {
    pool_.execute([this] { set(links_.size() - 1); });
    for (std::size_t i = links_.size() - 1; i-- != 0;) pool_.execute([this, i] { wait_and_set(i); });
  }
  std::future<void>& end() { return ends_[0]; }
  std::size_t done() const { return done_; }
  std::size_t tasks() const { return links_.size(); }

 private:
  void wait_and_set(std::size_t i) {
    pool_.wait(ends_[i + 1]);
    set(i);
  }
  void set(std::size_t i) {
    ++done_;
    links_[i].set_value();
    ++over_;
  }

  threadpool& pool_;
  std::vector<std::promise<void>> links_;
  std::vector<std::future<void>> ends_;
  std::atomic<std::size_t> done_{0};
  std::atomic<std::size_t> over_{0};
};

/// Counts calls of the hooks, for each worker's index.
struct roll {
  std::mutex mutex;
  std::vector<int> started = std::vector<int>(8);
  std::vector<int> stopped = std::vector<int>(8);

  threadpool_options options(std::size_t threads) {
    threadpool_options made;
    made.threads = threads;
    made.on_thread_start = [this](std::size_t i) { count(started, i); };
    made.on_thread_stop = [this](std::size_t i) { count(stopped, i); };
    return made;
  }
  void count(std::vector<int>& calls, std::size_t i) {
    const std::lock_guard lock(mutex);
    ++calls.at(i);
  }
  int all_started() {
    const std::lock_guard lock(mutex);
    int all = 0;
    for (const int calls : started) all += calls;
    return all;
  }
};

}  // namespace

TEST_CASE("a pool of one: a task waits for a queued task that was posted from outside [trap: deadlock]") {
  threadpool pool(1);
  CHECK(pool.stats().stand_ins == 0);
  for (unsigned round = 0; round < 20; ++round) {
    std::promise<int> set;
    std::future<int> awaited = set.get_future();
    std::future<int> result = pool.post([&] { return pool.wait(awaited); });
    pool.execute([&set] { set.set_value(5); });
    CHECK(result.get() == 5);
    pool.wait_idle();
    CHECK(pool.stats().stand_ins >= 1);
    CHECK(pool.stats().stand_ins <= 1 + round);  // one that rests is called again
  }
}

TEST_CASE("a pool of one: a task waits for an older task that was posted inside [trap: deadlock]") {
  threadpool pool(1);
  for (int round = 0; round < 20; ++round) {
    std::promise<int> set;
    std::future<int> awaited = set.get_future();
    std::promise<int> result;
    pool.execute([&] {
      pool.execute([&set] { set.set_value(5); });
      pool.execute([&] { result.set_value(pool.wait(awaited)); });  // the newest runs first
    });
    CHECK(result.get_future().get() == 5);
    pool.wait_idle();
  }
}

TEST_CASE("a pool of one: a task waits for another one by way of a thread outside") {
  threadpool pool(1);
  for (int round = 0; round < 20; ++round) {
    std::promise<int> to_outside;
    std::promise<int> from_outside;
    std::future<int> awaited = from_outside.get_future();
    std::thread outside([&] { from_outside.set_value(1 + to_outside.get_future().get()); });
    std::future<int> result = pool.post([&] { return pool.wait(awaited); });
    pool.execute([&] { to_outside.set_value(4); });
    CHECK(result.get() == 5);
    outside.join();
    pool.wait_idle();
  }
}

TEST_CASE("a chain of a hundred tasks that wait for each other's promises ends, on one worker and on several") {
  for (const std::size_t threads : {1U, 2U, 4U}) {
    CAPTURE(threads);
    threadpool pool(threads);
    chain tasks(pool, 100);
    tasks.post_all();
    tasks.end().get();
    pool.wait_idle();
    CHECK(tasks.done() == tasks.tasks());
    CHECK(pool.stats().tasks == tasks.tasks());
  }
}

TEST_CASE("a chain of a hundred tasks posted inside a task: the newest waits for the older ones") {
  for (const std::size_t threads : {1U, 3U}) {
    CAPTURE(threads);
    threadpool pool(threads);
    chain tasks(pool, 100);
    pool.execute([&tasks] { tasks.post_all_newest_first(); });
    tasks.end().get();
    pool.wait_idle();
    CHECK(tasks.done() == tasks.tasks());
  }
}

TEST_CASE("a chain of a hundred tasks with a thread outside between any two") {
  constexpr std::size_t length = 100;
  threadpool pool(1);
  std::vector<std::promise<int>> inside(length + 1);
  std::vector<std::promise<int>> outside(length);
  std::thread forwards([&] {
    for (std::size_t i = length; i-- != 0;) outside[i].set_value(1 + inside[i + 1].get_future().get());
  });
  for (std::size_t i = 0; i < length; ++i) {
    pool.execute([&, i] {
      std::future<int> awaited = outside[i].get_future();
      inside[i].set_value(pool.wait(awaited));
    });
  }
  pool.execute([&] { inside[length].set_value(0); });
  CHECK(inside[0].get_future().get() == static_cast<int>(length));
  forwards.join();
}

TEST_CASE("a worker that sleeps in the wait for a group also gets a stand-in [trap: deadlock]") {
  threadpool pool(1);
  for (int round = 0; round < 20; ++round) {
    task_group group(pool);
    std::promise<void> begun;
    std::promise<void> set;
    std::future<void> waits = pool.post([&] {
      begun.get_future().wait();
      group.wait();  // for the work of the thread outside
    });
    std::thread outside([&] {
      group.run([&] {
        begun.set_value();
        set.get_future().wait();
      });
      group.wait();
    });
    pool.execute([&set] { set.set_value(); });
    waits.get();
    outside.join();
    pool.wait_idle();
  }
}

TEST_CASE("a task on a stand-in is inside the pool: current(), posts, groups, loops, waits") {
  threadpool pool(1);
  std::promise<void> set;
  std::future<void> awaited = set.get_future();
  std::future<std::thread::id> waits = pool.post([&] {
    pool.wait(awaited);
    return std::this_thread::get_id();
  });
  std::thread::id stand_in;
  bool is_current = false;
  bool refuses_to_wait = false;
  bool has_loop = false;
  int sum = 0;
  pool.execute([&] {
    stand_in = std::this_thread::get_id();
    is_current = threadpool::current() == &pool;
    try {
      pool.wait_idle();
    } catch (const std::system_error&) {
      refuses_to_wait = true;
    }
    std::future<int> call = pool.post([] { return 1; });
    sum += pool.wait(call);
    task_group group(pool);
    group.run([&sum] { sum += 2; });
    group.wait();
    async::parallel_for(pool, 0, 4, [&sum](int) { ++sum; });
    std::promise<void> in_loop;
    pool.loop(0).post([&in_loop] { in_loop.set_value(); });
    std::future<void> is_in_loop = in_loop.get_future();
    pool.wait(is_in_loop);  // the sleeping worker drives its loop
    has_loop = true;
    pool.execute([&set] { set.set_value(); });
  });
  CHECK(waits.get() != stand_in);
  pool.wait_idle();
  CHECK(is_current);
  CHECK(refuses_to_wait);
  CHECK(has_loop);
  CHECK(sum == 7);
}

TEST_CASE("the exception of a task on a stand-in goes to its future, or to on_unhandled") {
  std::promise<int> unhandled;
  threadpool_options options;
  options.threads = 1;
  options.on_unhandled = [&unhandled](std::exception_ptr error) {
    try {
      std::rethrow_exception(error);
    } catch (int number) {
      unhandled.set_value(number);
    }
  };
  threadpool pool(std::move(options));
  std::promise<void> set;
  std::future<void> awaited = set.get_future();
  std::future<void> waits = pool.post([&] { pool.wait(awaited); });
  std::future<void> thrower = pool.post([] { throw 1; });
  pool.execute([] { throw 2; });
  pool.execute([&set] { set.set_value(); });
  waits.get();
  CHECK_THROWS_AS(thrower.get(), int);
  CHECK(unhandled.get_future().get() == 2);
  pool.wait_idle();
}

TEST_CASE("the hooks are called once on each stand-in, with the index of a worker") {
  roll calls;
  {
    threadpool pool(calls.options(2));
    for (int round = 0; round < 3; ++round) {
      chain tasks(pool, 30);
      tasks.post_all();
      tasks.end().get();
    }
    CHECK(calls.all_started() > 2 + 10);
  }
  CHECK(calls.started == calls.stopped);
  for (std::size_t i = 2; i < calls.started.size(); ++i) CHECK(calls.started[i] == 0);
}

TEST_CASE("two hundred tasks that sleep in waits take little processor time") {
  if (testing::sanitized || testing::emulated()) return;
  threadpool pool(2);
  std::promise<void> end;
  const std::shared_future<void> ended = end.get_future().share();
  async::promise<void> own_end;
  const async::shared_future<void> own_ended = own_end.get_future().share();
  std::atomic<int> waiting{0};
  for (int i = 0; i != 200; ++i) {
    pool.execute([&, i] {
      ++waiting;
      if (i % 2 == 0) {
        own_ended.wait();
      } else {
        pool.wait(ended);
      }
    });
  }
  CHECK(soon([&] { return waiting == 200; }));
  CHECK(testing::sleeps_for(500ms, 100ms));
  end.set_value();
  own_end.set_value();
  pool.wait_idle();
}

TEST_CASE("a worker needs no stand-in while another one is free") {
  roll calls;
  {
    threadpool pool(calls.options(2));
    std::promise<void> set;
    std::future<void> awaited = set.get_future();
    std::future<void> waits = pool.post([&] { pool.wait(awaited); });
    bool is_one_free = true;
    const auto until = std::chrono::steady_clock::now() + 50ms;
    while (std::chrono::steady_clock::now() < until) {  // a waiting thread naps for at most 8 ms
      is_one_free = is_one_free && soon([&pool] { return pool.idlesize() == 1; });
      std::this_thread::sleep_for(1ms);
    }
    CHECK(is_one_free);
    set.set_value();
    waits.get();
  }
  CHECK(calls.all_started() == 2);
}

TEST_CASE("stop() while there are stand-ins runs every task, and joins them") {
  for (const std::size_t threads : {1U, 2U}) {
    for (int round = 0; round < 10; ++round) {
      roll calls;
      threadpool pool(calls.options(threads));
      chain tasks(pool, 20);
      tasks.post_all();
      if (round % 2 == 0) {
        REQUIRE(soon([&] { return calls.all_started() > static_cast<int>(threads) + 2; }));
      }
      pool.stop();
      REQUIRE(tasks.done() == tasks.tasks());
      REQUIRE(calls.started == calls.stopped);
    }
  }
}

TEST_CASE("the destructor while there are stand-ins runs every task, and joins them") {
  for (int round = 0; round < 20; ++round) {
    roll calls;
    std::optional<threadpool> pool(std::in_place, calls.options(1));
    chain tasks(*pool, 10);
    tasks.post_all();
    if (round % 2 == 0) REQUIRE(soon([&] { return calls.all_started() > 3; }));
    pool.reset();
    REQUIRE(tasks.done() == tasks.tasks());
    REQUIRE(calls.started == calls.stopped);
  }
}

namespace {

/// Calls a function at the end of the thread.
struct at_thread_end {
  ~at_thread_end() {
    if (call) call();
  }
  std::function<void()> call;
};
thread_local at_thread_end at_end;

}  // namespace

TEST_CASE("a stand-in whose thread_local object waits for a task ends, although another one waits to join it") {
  std::atomic<int> ended{0};
  threadpool_options options;
  options.threads = 1;
  options.on_thread_stop = [&ended](std::size_t) { ++ended; };
  threadpool pool(std::move(options));
  std::promise<void> go_on;
  auto waits = pool.post([&] {
    auto future = go_on.get_future();
    pool.wait(future);  // the worker's stand-ins run what follows
  });
  std::promise<void> others_end;
  std::promise<void> is_ending;
  std::promise<int> at_last;
  pool.post([&] {
        at_end.call = [&] {
          is_ending.set_value();
          others_end.get_future().wait();
          at_last.set_value(pool.post([] { return 7; }).get());
        };
      })
      .get();
  is_ending.get_future().wait();
  pool.post([] {}).get();  // by another stand-in, which joins the first one
  REQUIRE(soon([&ended] { return ended == 2; }));
  std::this_thread::sleep_for(10ms);  // until it joins
  others_end.set_value();
  auto result = at_last.get_future();
  const bool is_ready = soon([&result] { return result.wait_for(0s) == std::future_status::ready; });
  go_on.set_value();  // the worker would make the call, too
  CHECK(is_ready);
  CHECK(result.get() == 7);
  waits.get();
}

TEST_CASE("a pool paused while its workers wait continues when it has threads again, or stops") {
  for (const bool goes_on : {true, false}) {
    threadpool pool(2);
    std::atomic<int> begun{0};
    std::vector<std::promise<void>> ends(2);
    std::vector<std::future<void>> waits;
    for (int i = 0; i < 2; ++i) {
      waits.push_back(pool.post([&, i] {
        ++begun;
        std::promise<void>& end = ends[static_cast<std::size_t>(i)];
        std::future<void> is_set = end.get_future();
        pool.wait(is_set);
      }));
    }
    REQUIRE(soon([&begun] { return begun == 2; }));
    pool.configurepool(0);
    for (std::promise<void>& end : ends) pool.execute([&end] { end.set_value(); });
    if (goes_on) pool.configurepool(1);
    if (!goes_on) pool.stop();
    for (std::future<void>& each : waits) each.get();
    pool.stop();
  }
}

TEST_CASE("a pool that shrinks and grows while chains of tasks wait runs all of them") {
  for (std::size_t round = 0; round < testing::rounds(20); ++round) {
    threadpool pool(4);
    std::atomic<bool> is_over{false};
    std::thread resizer([&] {
      for (std::size_t n = 0; !is_over; ++n) {
        pool.configurepool(1 + n % 6);
        std::this_thread::yield();
      }
    });
    std::vector<std::unique_ptr<chain>> all;
    for (int i = 0; i < 3; ++i) all.push_back(std::make_unique<chain>(pool, 15));
    for (const auto& each : all) each->post_all();
    for (const auto& each : all) each->end().get();
    pool.wait_idle();
    is_over = true;
    resizer.join();
    for (const auto& each : all) REQUIRE(each->done() == each->tasks());
  }
}

#if defined(__linux__)

namespace {

std::size_t threads_of_process() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator("/proc/self/task")) ++count;
  return count;
}

/// The number of threads, without those that are joined but not yet removed by the system.
std::size_t lasting_threads_of_process() {
  std::size_t fewest = threads_of_process();
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
  while (std::chrono::steady_clock::now() < end) {
    fewest = (std::min)(fewest, threads_of_process());
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return fewest;
}

}  // namespace

TEST_CASE("the stand-ins end when the workers are back") {
  const std::size_t at_first = lasting_threads_of_process();
  threadpool pool(2);
  const std::size_t usual = at_first + 2;
  REQUIRE(soon([usual] { return threads_of_process() == usual; }));
  for (int round = 0; round < 3; ++round) {
    chain tasks(pool, 50);
    std::promise<void> go_on;
    std::future<void> is_to_go_on = go_on.get_future();
    tasks.post_all([&] { pool.wait(is_to_go_on); });
    CHECK(soon([usual] { return threads_of_process() == usual + 49; }));
    go_on.set_value();
    tasks.end().get();
    CHECK(soon([usual] { return threads_of_process() == usual; }));
  }
}

TEST_CASE("a worker that polls for a flow has another one in its place until the task ends, or waits") {
  const std::size_t at_first = lasting_threads_of_process();
  threadpool pool(1);
  for (const bool waits : {false, true}) {
    CAPTURE(waits);
    pool.post([&pool, waits] {
          for (int i = 0; i < 20; ++i) {
            auto flow = steps::post(pool, [](steps::IAsyncSteps& asi) { asi.relinquish(); });
            while (flow.wait_for(0s) != std::future_status::ready) {
            }
          }
          if (waits) pool.post([] {}).get();
          const std::size_t usual = threads_of_process();
          for (int i = 0; i < 20; ++i) steps::post(pool, [](steps::IAsyncSteps& asi) { asi.relinquish(); }).get();
          CHECK(threads_of_process() <= usual);
        })
        .get();
    CHECK(soon([at_first] { return threads_of_process() == at_first + 1; }));
  }
}

TEST_CASE("when no thread can be started, a waiting thread runs other tasks itself: no deadlock") {
  for (const std::size_t threads : {1U, 2U}) {
    threadpool pool(threads);
    REQUIRE(soon([&] { return pool.idlesize() == threads; }));
    const testing::fail_thread failing(0);
    chain tasks(pool, 50);
    tasks.post_all();
    tasks.end().get();
    pool.wait_idle();
    CHECK(tasks.done() == tasks.tasks());
  }
}

TEST_CASE("when only a few threads can be started, tasks that wait for older ones of their worker still end") {
  for (std::size_t k = 0; k < 6; ++k) {
    threadpool pool(1);
    REQUIRE(soon([&] { return pool.idlesize() == 1; }));
    testing::fail_thread failing(k);
    chain tasks(pool, 10);
    pool.execute([&tasks] { tasks.post_all_newest_first(); });
    tasks.end().get();
    pool.wait_idle();
    CHECK(tasks.done() == tasks.tasks());
    failing.stop();
    chain others(pool, 10);
    others.post_all();
    others.end().get();
    pool.stop();
    CHECK(others.done() == others.tasks());
  }
}

TEST_CASE("when no thread can be started, stop() and the destructor also run the waiting tasks") {
  for (const bool stops : {true, false}) {
    std::optional<threadpool> pool(std::in_place, 1U);
    REQUIRE(soon([&] { return pool->idlesize() == 1; }));
    const testing::fail_thread failing(0);
    chain tasks(*pool, 20);
    tasks.post_all();
    if (stops) pool->stop();
    pool.reset();
    CHECK(tasks.done() == tasks.tasks());
  }
}

#endif
