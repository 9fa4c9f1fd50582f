// SPDX-License-Identifier: BSL-1.0
#include "async/threadpool.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "support/alloc_counter.hpp"
#include "support/process_cpu_time.hpp"
#include "support/scale.hpp"
#include "support/start_line.hpp"

using async::threadpool;
using async::threadpool_options;
using namespace std::chrono_literals;

TEST_CASE("post returns the future of the result, with arguments copied as std::async copies them") {
  threadpool pool(2);
  CHECK(pool.post([](int a, int b) { return a + b; }, 40, 2).get() == 42);
  CHECK(pool.post([] {}).wait_for(60s) == std::future_status::ready);
  int value = 1;
  CHECK(&pool.post([](int& r) -> int& { return r; }, std::ref(value)).get() == &value);
  CHECK(*pool.post([](std::unique_ptr<int> p) { return p; }, std::make_unique<int>(7)).get() == 7);
  CHECK(pool.post([p = std::make_unique<int>(8)] { return *p; }).get() == 8);
  CHECK(pool.post([](const std::string& s) { return s + "!"; }, "text").get() == "text!");
  struct thing {
    int twice(int x) { return 2 * x; }
  };
  thing t;
  CHECK(pool.post(&thing::twice, &t, 21).get() == 42);
  struct immovable {
    immovable() = default;
    immovable(const immovable&) {}
    immovable(immovable&&) = delete;
    int operator()(const immovable&) const { return 9; }
  };
  const immovable copied;
  CHECK(pool.post(copied, copied).get() == 9);
}

TEST_CASE("an exception of a posted task comes out of its future") {
  threadpool pool(1);
  for (int i = 0; i < 200; ++i) {  // in some rounds the worker still destroys the task
    auto future = pool.post([]() -> int { throw std::runtime_error("no"); });
    CHECK_THROWS_WITH_AS(future.get(), "no", std::runtime_error);
  }
}

TEST_CASE("the captures of a task are destroyed before its future is ready") {
  threadpool pool(2);
  for (int i = 0; i < 1000; ++i) {
    const auto token = std::make_shared<int>(1);
    pool.post([token] {}).get();
    REQUIRE(token.use_count() == 1);
  }
}

TEST_CASE("an exception of an executed task goes to on_unhandled, and the worker goes on") {
  threadpool_options options;
  options.threads = 1;
  std::atomic<int> seen{0};
  options.on_unhandled = [&seen](std::exception_ptr e) {
    try {
      std::rethrow_exception(e);
    } catch (const std::runtime_error&) {
      ++seen;
    }
  };
  threadpool pool(std::move(options));
  pool.execute([] { throw std::runtime_error("no"); });
  pool.execute([](int) { throw std::runtime_error("no"); }, 1);
  CHECK(pool.post([] { return 1; }).get() == 1);
  CHECK(seen == 2);
}

TEST_CASE("bulk_execute runs every callable of the range") {
  threadpool pool(2);
  std::atomic<int> sum{0};
  struct add {
    std::atomic<int>* sum;
    int value;
    void operator()() const { *sum += value; }
  };
  std::vector<add> all;
  for (int i = 1; i <= 100; ++i) all.push_back({&sum, i});
  pool.bulk_execute(all.begin(), all.size());
  pool.wait_idle();
  CHECK(sum == 5050);
}

TEST_CASE("n tasks that wait for each other run on an idle pool of n: no wake-up is lost") {
  for (std::size_t round = 0; round < testing::rounds(300); ++round) {
    constexpr int n = 4;
    threadpool pool(n);
    while (round % 2 == 0 && pool.idlesize() != n) std::this_thread::yield();
    testing::start_line together(n);
    for (int i = 0; i < n; ++i) pool.execute([&together] { together.wait(); });
    pool.wait_idle();
  }
}

TEST_CASE("a paused pool keeps its tasks and runs them when it grows") {
  threadpool pool(0);
  CHECK(pool.size() == 0);
  std::atomic<int> ran{0};
  for (int i = 0; i < 100; ++i) pool.execute([&ran] { ++ran; });
  CHECK(ran == 0);
  pool.configurepool(3);
  CHECK(pool.size() == 3);
  pool.wait_idle();
  CHECK(ran == 100);
}

TEST_CASE("searching workers take no tasks that are posted after the pool was paused") {
  threadpool pool(4);
  constexpr int rounds = 300;
  int early = 0;  // tasks taken by a worker that has checked for the pause just before
  for (int i = 0; i < rounds; ++i) {
    pool.configurepool(4);
    pool.post([] {}).get();
    pool.configurepool(0);
    std::atomic<bool> ran{false};
    pool.execute([&ran] { ran = true; });
    for (int pause = 0; pause < 20; ++pause) std::this_thread::yield();
    early += ran ? 1 : 0;
    pool.configurepool(1);
    pool.wait_idle();
    REQUIRE(ran);
  }
  CHECK(early <= rounds / 3);  // a loaded machine stops many workers between the check and the task
}

TEST_CASE("stop and the destructor run the tasks that a paused pool has accepted") {
  std::atomic<int> ran{0};
  {
    threadpool pool(0);
    for (int i = 0; i < 10; ++i) {
      pool.execute([&pool, &ran] {
        pool.execute([&ran] { ++ran; });
        ++ran;
      });
    }
  }
  CHECK(ran == 20);
}

TEST_CASE("the destructor runs every accepted task, and the tasks that these post") {
  std::atomic<int> ran{0};
  {
    threadpool pool(2);
    for (int i = 0; i < 1000; ++i) {
      pool.execute([&pool, &ran] {
        pool.execute([&ran] { ++ran; });
        ++ran;
      });
    }
  }
  CHECK(ran == 2000);
}

TEST_CASE("after stop a post throws stopped, and so does configurepool") {
  threadpool pool(2);
  pool.stop();
  pool.stop();
  CHECK(pool.size() == 0);
  CHECK_THROWS_AS(pool.post([] {}), async::stopped);
  CHECK_THROWS_AS(pool.execute([] {}), async::stopped);
  CHECK_THROWS_AS(pool.configurepool(1), async::stopped);
}

TEST_CASE("stop and wait_idle inside a task are errors, not deadlocks") {
  threadpool pool(1);
  auto stops = pool.post([&pool] { pool.stop(); });
  auto waits = pool.post([&pool] { pool.wait_idle(); });
  pool.wait_idle();
  CHECK_THROWS_AS(stops.get(), std::system_error);
  CHECK_THROWS_AS(waits.get(), std::system_error);
}

TEST_CASE("a pool can be resized from its own tasks, to 0 threads and back") {
  threadpool pool(2);
  std::atomic<int> ran{0};
  for (int i = 0; i < 200; ++i) {
    pool.execute([&pool, &ran, i] {
      pool.configurepool(static_cast<std::size_t>(i % 5));
      pool.execute([&ran] { ++ran; });
      ++ran;
    });
    if (i % 5 == 0) pool.configurepool(1);
  }
  pool.configurepool(3);
  while (ran != 400) {
    pool.configurepool(3);
    std::this_thread::yield();
  }
}

#if !defined(_WIN32)  // there no thread can start while another one is in such a destructor
namespace {

threadpool* of_destructor = nullptr;
std::atomic<int> flushed{0};

/// Its destructor waits for a task of the pool.
struct thread_log {
  bool is_used = false;
  ~thread_log() {
    if (is_used) of_destructor->post([] { ++flushed; }).get();
  }
};
thread_local thread_log own_log;

}  // namespace

TEST_CASE("a worker that ends waits in the destructor of a thread_local object for a task that its successor runs") {
  flushed = 0;
  std::atomic<int> ended{0};
  threadpool pool(async::threadpool_options{.threads = 1, .on_thread_stop = [&ended](std::size_t) { ++ended; }});
  of_destructor = &pool;
  for (int round = 1; round <= 3; ++round) {
    pool.post([] { own_log.is_used = true; }).get();
    pool.configurepool(0);
    while (ended != round) std::this_thread::yield();
    pool.configurepool(1);
    while (flushed != round) std::this_thread::yield();
  }
  pool.wait_idle();
}
#endif

TEST_CASE("shrinking loses no task, not even in the deque of a worker that ends") {
  threadpool pool(2);
  std::atomic<int> ran{0};
  pool.post([&] {
        for (int i = 0; i < 1000; ++i) pool.execute([&ran] { ++ran; });
        pool.configurepool(0);
      })
      .get();
  pool.configurepool(1);
  pool.wait_idle();
  CHECK(ran == 1000);
}

TEST_CASE("wait inside a task runs other tasks: any depth works on one worker") {
  threadpool pool(1);
  struct nested {
    threadpool& pool;
    int depth;
    int operator()() const {
      if (depth == 0) return 0;
      auto inner = pool.post(nested{pool, depth - 1});
      return 1 + pool.wait(inner);
    }
  };
  CHECK(pool.post(nested{pool, 64}).get() == 64);
}

TEST_CASE("wait inside a task notices a future that is made ready outside the pool") {
  threadpool pool(1);
  std::promise<int> foreign;
  auto result = pool.post([&pool, future = foreign.get_future()]() mutable { return pool.wait(future); });
  std::thread other([&foreign] { foreign.set_value(5); });
  CHECK(result.get() == 5);
  other.join();
}

TEST_CASE("a long wait inside a task looks at its condition less and less often") {
  threadpool pool(1);
  const int looks = pool.post([&pool] {
                          int count = 0;
                          const auto end = std::chrono::steady_clock::now() + 400ms;
                          const async::detail::visit here(pool.core());
                          pool.core().wait_until(here.part(), async::detail::wait_scope(), [&count, end] {
                            ++count;
                            return std::chrono::steady_clock::now() >= end;
                          });
                          return count;
                        })
                        .get();
  CHECK(looks < 5'000);  // it wakes 55 times in 400 ms, and looks a few times each
}

TEST_CASE("a bounded pool blocks, rejects, or runs the task on the caller") {
  using policy = threadpool_options::overflow;
  for (const policy when_full : {policy::block, policy::reject, policy::caller_runs}) {
    threadpool_options options;
    options.threads = 0;
    options.max_queue = 2;
    options.when_full = when_full;
    threadpool pool(std::move(options));
    std::vector<std::thread::id> ran_on(3);
    for (std::size_t i = 0; i < 2; ++i) pool.execute([&ran_on, i] { ran_on[i] = std::this_thread::get_id(); });
    const auto third = [&ran_on] { ran_on[2] = std::this_thread::get_id(); };
    if (when_full == policy::reject) {
      CHECK_THROWS_AS(pool.execute(third), async::queue_full);
    } else if (when_full == policy::caller_runs) {
      pool.execute(third);
      CHECK(ran_on[2] == std::this_thread::get_id());
    } else {
      std::thread grows([&pool] { pool.configurepool(1); });
      pool.execute(third);
      grows.join();
    }
    if (pool.size() == 0) pool.configurepool(1);
    pool.wait_idle();
    CHECK(ran_on[1] != std::thread::id());
    CHECK(ran_on[1] != std::this_thread::get_id());
  }
}

TEST_CASE("a worker never blocks on its own bounded pool") {
  threadpool_options options;
  options.threads = 1;
  options.max_queue = 1;
  threadpool pool(std::move(options));
  std::atomic<int> ran{0};
  pool.execute([&] {
    for (int i = 0; i < 100; ++i) pool.execute([&ran] { ++ran; });
  });
  pool.wait_idle();
  CHECK(ran == 100);
}

TEST_CASE("hooks run on each thread, with its index; threads carry the pool's name") {
  std::mutex mutex;
  std::multiset<std::size_t> started;
  std::multiset<std::size_t> stopped;
  threadpool_options options;
  options.threads = 3;
  options.name = "crunch";
  options.on_thread_start = [&](std::size_t i) {
    const std::lock_guard lock(mutex);
    started.insert(i);
  };
  options.on_thread_stop = [&](std::size_t i) {
    const std::lock_guard lock(mutex);
    stopped.insert(i);
  };
  {
    threadpool pool(std::move(options));
#if ASYNCSTEPS_ON_LINUX
    const auto name_of_thread = [] {
      char text[16] = {};
      pthread_getname_np(pthread_self(), text, sizeof text);
      return std::string(text);
    };
    CHECK(pool.post(name_of_thread).get().substr(0, 7) == "crunch/");
    threadpool long_name({.threads = 1, .name = "number cruncher"});
    CHECK(long_name.post(name_of_thread).get() == "number crunch/0");
#endif
  }
  CHECK(started == std::multiset<std::size_t>{0, 1, 2});
  CHECK(stopped == started);
}

TEST_CASE("more threads than can be started are an error, and none is left behind") {
  CHECK_THROWS_AS(threadpool(static_cast<std::size_t>(-1)), std::length_error);
  threadpool pool(1);
  CHECK_THROWS_AS(pool.configurepool(100000), std::length_error);
  CHECK(pool.size() == 1);
  CHECK(pool.post([] { return 1; }).get() == 1);
}

TEST_CASE("current tells the pool of a worker, and null elsewhere") {
  threadpool pool(1);
  CHECK(threadpool::current() == nullptr);
  CHECK(pool.post([] { return threadpool::current(); }).get() == &pool);
  CHECK(&threadpool::shared() == &threadpool::shared());
  CHECK(threadpool::shared().size() == async::usable_concurrency());
}

TEST_CASE("stats count the tasks") {
  threadpool pool(2);
  for (int i = 0; i < 500; ++i) pool.execute([] {});
  pool.wait_idle();
  CHECK(pool.stats().tasks == 500);
}

TEST_CASE("a task for a sleeping pool wakes one thread, and no second one") {
  threadpool pool(4);
  pool.wait_idle();
  const std::uint64_t before = pool.stats().wakes;
  for (int i = 0; i < 200; ++i) {
    CHECK(pool.post([i] { return i; }).get() == i);
    pool.wait_idle();
  }
  CHECK(pool.stats().wakes - before <= 200);
}

TEST_CASE("a new size of an idle pool wakes only the threads that end") {
  threadpool pool(2);
  while (pool.idlesize() != 2) std::this_thread::yield();
  const std::uint64_t before = pool.stats().wakes;
  pool.configurepool(4);
  while (pool.idlesize() != 4) std::this_thread::yield();
  CHECK(pool.stats().wakes == before);
  pool.configurepool(2);
  while (pool.idlesize() != 2) std::this_thread::yield();
  CHECK(pool.stats().wakes == before + 2);
}

TEST_CASE("in the steady state post calls operator new at most once, and execute not at all") {
  threadpool pool(1);
  std::atomic<int> ran{0};
  const auto some = [&](int count) {
    std::vector<std::future<int>> futures;
    futures.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) futures.push_back(pool.post([i] { return i; }));
    for (auto& f : futures) f.get();
    for (int i = 0; i < count; ++i) pool.execute([&ran] { ++ran; });
    pool.wait_idle();
    return futures.size();
  };
  // The vector, and sometimes a batch of blocks; none for each task.
  CHECK(testing::fewest_calls([&] { some(5000); }, 300) <= 300);
}

TEST_CASE("an idle pool of eight threads uses no CPU") {
  threadpool pool(8);
  pool.wait_idle();
  while (pool.idlesize() != 8) std::this_thread::yield();
  CHECK(testing::sleeps_for(1s, 5ms));
}
