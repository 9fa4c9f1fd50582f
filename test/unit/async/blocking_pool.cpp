// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "async/blocking_pool.hpp"
#include "async/event.hpp"
#include "async/threadpool.hpp"
#include "steps/steps.hpp"
#include "support/live_count.hpp"
#include "support/scale.hpp"
#include "support/thrown.hpp"
#include "support/wait_while.hpp"

using async::blocking_pool;
using async::blocking_pool_options;
using async::threadpool;
using testing::is_broken;
using testing::is_deadlock;
using namespace std::chrono_literals;

namespace {

struct counted : testing::live_count<counted> {};

/// Calls that block until the gate opens.
class gate {
 public:
  auto call() {
    return [this, until = until_] {
      ++arrived_;
      until.wait();
    };
  }
  /// Returns when so many calls block.
  void wait_for(std::size_t calls) {
    for (std::size_t now = arrived_; now < calls; now = arrived_) testing::wait_while(arrived_, now);
  }
  void open() { go_.set_value(); }

 private:
  std::promise<void> go_;
  std::shared_future<void> until_ = go_.get_future().share();
  std::atomic<std::size_t> arrived_{0};
};

template <class Done>
void wait_until(Done done) {
  while (!done()) std::this_thread::sleep_for(1ms);
}

}  // namespace

TEST_CASE("blocking_pool: post passes on results, references, void, and exceptions") {
  blocking_pool pool;
  static int object = 5;
  CHECK(pool.post([](std::unique_ptr<int> p, int b) { return *p + b; }, std::make_unique<int>(1), 2).get() == 3);
  CHECK(&pool.post([]() -> int& { return object; }).get() == &object);
  bool was_called = false;
  pool.post([&was_called] { was_called = true; }).get();
  CHECK(was_called);
  CHECK_THROWS_AS(pool.post([] { throw std::invalid_argument("x"); }).get(), std::invalid_argument);
  std::future<int> standard = pool.post([] { return 4; });
  CHECK(standard.get() == 4);
  CHECK(async::threadpool::current() == nullptr);
  CHECK(pool.post([] { return async::threadpool::current(); }).get() == nullptr);
}

TEST_CASE("blocking_pool: a thousand calls of 50 ms end together with as many threads, in sixteen rounds with 64") {
  // The best of some rounds, on machines that have other work, too. One after the other the calls take 50 s.
  const bool is_slow = testing::sanitized || testing::emulated();
  const std::size_t calls = is_slow ? 200 : 1'000;
  const auto slack = is_slow ? 3'000ms : 450ms;
  const auto best_time = [&](std::size_t limit) {
    auto best = std::chrono::steady_clock::duration::max();
    for (int round = 0; round < 3; ++round) {
      blocking_pool pool({.max_threads = limit, .idle_time = 10ms});
      const auto begin = std::chrono::steady_clock::now();
      std::vector<async::future<void>> done;
      for (std::size_t i = 0; i < calls; ++i) done.push_back(pool.post([] { std::this_thread::sleep_for(50ms); }));
      for (auto& each : done) each.get();
      best = (std::min)(best, std::chrono::steady_clock::now() - begin);
      wait_until([&pool] { return pool.size() == 0; });  // the threads are gone after the idle time
    }
    return best;
  };
  CHECK(best_time(calls) < 50ms + slack);
  const auto rounds = static_cast<int>((calls + 63) / 64);
  const auto limited = best_time(64);
  CHECK(limited >= rounds * 50ms);
  CHECK(limited < rounds * 50ms + slack);
}

TEST_CASE("blocking_pool: grows while all threads are busy, to its limit; calls beyond that start in order") {
  const std::size_t limit = 8, calls = 100;
  blocking_pool pool({.max_threads = limit});
  CHECK(pool.size() == 0);
  gate all;
  for (std::size_t i = 0; i < limit; ++i) {
    pool.execute(all.call());
    CHECK(pool.size() == i + 1);
  }
  all.wait_for(limit);
  std::mutex guard;
  std::vector<std::size_t> order;
  std::atomic<std::size_t> busy{0}, most{0};
  for (std::size_t i = 0; i < calls; ++i) {
    pool.execute([&, i] {
      const std::size_t now = ++busy;
      std::size_t before = most;
      while (before < now && !most.compare_exchange_weak(before, now)) {
      }
      {
        const std::lock_guard lock(guard);
        order.push_back(i);
      }
      --busy;
    });
  }
  CHECK(pool.queued() == calls);
  CHECK(pool.size() == limit);
  CHECK(pool.idlesize() == 0);
  all.open();
  pool.wait_idle();
  CHECK(most <= limit);
  REQUIRE(order.size() == calls);
  for (std::size_t i = 0; i < calls; ++i) CHECK(order[i] < i + limit);  // no call begins before `limit` others end
}

TEST_CASE("blocking_pool: with one thread calls run one after the other, in order") {
  blocking_pool pool({.max_threads = 1});
  std::vector<int> order;  // no mutex: one at a time
  for (int i = 0; i < 1'000; ++i) pool.execute([&order, i] { order.push_back(i); });
  pool.wait_idle();
  CHECK(order.size() == 1'000);
  CHECK(std::is_sorted(order.begin(), order.end()));
}

TEST_CASE("blocking_pool: a thousand calls that block at the same time each have a thread; idle ones end") {
  const std::size_t calls = sizeof(void*) == 4 ? 100 : 1'000;  // 32 bits address a few hundred stacks
  blocking_pool pool({.max_threads = calls, .idle_time = 20ms});
  std::barrier meeting(static_cast<std::ptrdiff_t>(calls));  // ends only if all run at once
  std::vector<async::future<void>> done;
  for (std::size_t i = 0; i < calls; ++i) done.push_back(pool.post([&meeting] { meeting.arrive_and_wait(); }));
  for (auto& f : done) f.get();
  wait_until([&pool] { return pool.size() == 0; });
  CHECK(pool.post([] { return 1; }).get() == 1);
}

TEST_CASE("blocking_pool: calls that follow each other use the thread that was busy last; the others end") {
  blocking_pool pool({.max_threads = 8, .idle_time = 50ms});
  gate all;
  for (std::size_t i = 0; i < 8; ++i) pool.execute(all.call());
  all.wait_for(8);
  all.open();
  pool.wait_idle();
  wait_until([&pool] {  // one call each 1 ms keeps one thread busy
    pool.post([] {}).get();
    return pool.size() <= 1;
  });
}

TEST_CASE("blocking_pool: an idle thread takes the next call at once, whatever the idle time") {
  for (const std::chrono::nanoseconds idle :
       {std::chrono::nanoseconds(0), std::chrono::nanoseconds(1'000), (std::chrono::nanoseconds::max)()}) {
    blocking_pool pool({.max_threads = 2, .idle_time = idle});
    for (std::size_t i = 0; i < testing::rounds(500); ++i) CHECK(pool.post([i] { return i; }).get() == i);
  }
}

TEST_CASE("blocking_pool: an idle thread makes the next call while the start hook of another one takes long") {
  std::promise<void> go;
  std::atomic<bool> is_in_hook{false};
  blocking_pool_options options{.max_threads = 2};
  options.on_thread_start = [&is_in_hook, until = go.get_future().share()](std::size_t number) {
    if (number == 0) return;
    is_in_hook = true;
    until.wait();
  };
  blocking_pool pool(std::move(options));
  gate all;
  pool.execute(all.call());
  all.wait_for(1);
  auto second = pool.post([] {});  // starts a thread, but the first one makes it
  testing::wait_while(is_in_hook, false);
  all.open();
  second.get();
  wait_until([&pool] { return pool.idlesize() == 1; });
  CHECK(pool.post([] {}).wait_for(10s) == std::future_status::ready);
  go.set_value();
}

TEST_CASE("blocking_pool: max_queue limits the calls that wait, not those that have a thread") {
  blocking_pool pool({.max_threads = 2, .max_queue = 3});
  gate all;
  pool.execute(all.call());
  pool.execute(all.call());
  all.wait_for(2);
  std::atomic<int> ran{0};
  for (int i = 0; i < 3; ++i) pool.execute([&ran] { ++ran; });
  {
    const counted held;
    const int before = counted::live();
    CHECK_THROWS_AS(pool.execute([&ran, held] { ++ran; }), async::queue_full);
    CHECK_THROWS_AS(pool.post([&ran, held] { ++ran; }), async::queue_full);
    CHECK(counted::live() == before);
  }
  all.open();
  pool.wait_idle();
  CHECK(ran == 3);
  pool.post([&ran] { ++ran; }).get();
  CHECK(ran == 4);
}

TEST_CASE("blocking_pool: max_queue does not count a call that a thread is being started for") {
  std::promise<void> go;
  blocking_pool_options options{.max_threads = 1, .max_queue = 1};
  options.on_thread_start = [until = go.get_future().share()](std::size_t) { until.wait(); };
  blocking_pool pool(std::move(options));
  pool.execute([] {});
  CHECK_NOTHROW(pool.execute([] {}));
  CHECK_THROWS_AS(pool.execute([] {}), async::queue_full);
  go.set_value();
}

TEST_CASE("blocking_pool: cancel() drops a call that has not begun, and asks one with a stop_token to end") {
  blocking_pool pool({.max_threads = 1});
  gate all;
  pool.execute(all.call());
  all.wait_for(1);
  async::future<int> dropped = pool.post([held = counted()] { return 1; });
  CHECK(counted::live() == 1);
  CHECK(dropped.cancel());
  CHECK(counted::live() == 0);
  CHECK_THROWS_AS(dropped.get(), std::future_error);
  all.open();
#if defined(__cpp_lib_jthread)
  std::atomic<bool> has_begun{false};
  async::future<bool> asked = pool.post([&has_begun](std::stop_token stop) {
    has_begun = true;
    while (!stop.stop_requested()) std::this_thread::yield();
    return true;
  });
  testing::wait_while(has_begun, false);
  CHECK_FALSE(asked.cancel());
  CHECK(asked.get());
#endif
}

TEST_CASE("blocking_pool: stop() runs every accepted call and those that they post, then refuses") {
  std::atomic<int> ran{0};
  blocking_pool pool({.max_threads = 3});
  for (int i = 0; i < 50; ++i) {
    pool.execute([&] {
      ++ran;
      pool.execute([&ran] { ++ran; });
    });
  }
  std::vector<std::thread> enders;
  for (int i = 0; i < 3; ++i)
    enders.emplace_back([&] {
      pool.stop();
      CHECK(ran == 100);
    });
  for (std::thread& t : enders) t.join();
  CHECK(pool.size() == 0);
  CHECK_THROWS_AS(pool.execute([] {}), async::stopped);
  CHECK_THROWS_AS(pool.post([] {}), async::stopped);
  pool.wait_idle();
}

TEST_CASE("blocking_pool: stop() and wait_idle() inside a call throw; bad options throw") {
  blocking_pool pool;
  CHECK(pool.post([&pool] { return is_deadlock([&pool] { pool.stop(); }); }).get());
  CHECK(pool.post([&pool] { return is_deadlock([&pool] { pool.wait_idle(); }); }).get());
  CHECK_THROWS_AS(blocking_pool({.max_threads = 0}), std::invalid_argument);
  CHECK_THROWS_AS(blocking_pool({.idle_time = -1ns}), std::invalid_argument);
}

TEST_CASE("blocking_pool: the captures of a call may use the pool in their destructors, and are waited for") {
  struct posts_at_end {
    blocking_pool* pool;
    int* calls;
    posts_at_end(blocking_pool& p, int& n) : pool(&p), calls(&n) {}
    posts_at_end(posts_at_end&& o) noexcept : pool(std::exchange(o.pool, nullptr)), calls(o.calls) {}
    posts_at_end& operator=(posts_at_end&&) = delete;
    ~posts_at_end() {
      if (pool != nullptr) pool->execute([n = calls] { ++*n; });
    }
    void operator()() const { ++*calls; }
  };
  blocking_pool pool({.max_threads = 1});
  int calls = 0;
  pool.execute(posts_at_end(pool, calls));
  pool.wait_idle();
  CHECK(calls == 2);
}

TEST_CASE("blocking_pool: hooks run on each thread with its number; unhandled exceptions go to on_unhandled") {
  std::mutex guard;
  std::set<std::size_t> started, stopped;
  std::vector<std::string> texts;
  {
    blocking_pool_options options{.max_threads = 4, .name = "disk"};
    options.on_thread_start = [&](std::size_t number) {
      const std::lock_guard lock(guard);
      CHECK(started.insert(number).second);
    };
    options.on_thread_stop = [&](std::size_t number) {
      const std::lock_guard lock(guard);
      CHECK(stopped.insert(number).second);
    };
    options.on_unhandled = [&](std::exception_ptr error) {
      const std::lock_guard lock(guard);
      try {
        std::rethrow_exception(std::move(error));
      } catch (const std::exception& e) {
        texts.emplace_back(e.what());
      }
    };
    blocking_pool pool(std::move(options));
    gate all;
    for (int i = 0; i < 4; ++i) pool.execute(all.call());
    all.wait_for(4);
    pool.execute([] { throw std::runtime_error("lost"); });
    all.open();
    pool.wait_idle();
  }
  CHECK(started == std::set<std::size_t>{0, 1, 2, 3});
  CHECK(stopped == started);
  CHECK(texts == std::vector<std::string>{"lost"});
}

TEST_CASE("blocking_pool: a task of a threadpool that waits for a call does not hold up its pool") {
  threadpool pool(1);
  blocking_pool calls;
  std::promise<void> later;
  auto waits = pool.post([&] { return calls.post([f = later.get_future()]() mutable { f.get(); }).get(); });
  // Only another task of the pool of one worker ends the call.
  pool.execute([&later] { later.set_value(); });
  waits.get();
}

TEST_CASE("blocking_pool: a task of a threadpool that waits for a call has a stand-in within 1.5 ms") {
  using clock = std::chrono::steady_clock;
  const clock::duration limit = testing::emulated() ? 15ms : 1500us;
  auto best = clock::duration::max();  // of many rounds: the machine has other work
  for (int round = 0; round != 500 && best >= limit; ++round) {
    async::event ran;
    blocking_pool calls;
    threadpool pool(1);  // has no stand-in yet
    clock::time_point begin, end;
    auto waits = pool.post([&] {
      begin = clock::now();
      calls.post([&ran] { ran.wait(); }).get();
    });
    pool.execute([&] {
      end = clock::now();
      ran.set();
    });
    waits.get();
    best = (std::min)(best, end - begin);
  }
  CHECK(best < limit);
}

TEST_CASE("blocking_pool: a task of a threadpool in wait_idle() or stop() does not hold up its pool") {
  for (const bool stops : {false, true}) {
    std::promise<void> later;
    threadpool pool(1);
    blocking_pool calls;
    auto waits = pool.post([&] {
      calls.execute([&] {
        // Only another task of the pool of one worker ends the call.
        pool.execute([&later] { later.set_value(); });
        later.get_future().wait();
      });
      stops ? calls.stop() : calls.wait_idle();
    });
    while (!waits.is_ready()) std::this_thread::yield();  // without running the pool's tasks here
  }
}

TEST_CASE("blocking_pool: a flow awaits calls; a call that the flow does not wait for any more is not made") {
  threadpool pool(2);
  blocking_pool calls({.max_threads = 1});
  CHECK(steps::post<int>(pool, [&calls](steps::IAsyncSteps& asi) {
          asi.await(calls, [](int a, int b) { return a + b; }, 1, 2);
          asi.add([](steps::IAsyncSteps& inner, int sum) { inner.success(sum * 2); });
        }).get() == 6);
  gate all;
  calls.execute(all.call());
  all.wait_for(1);
  std::atomic<bool> was_called{false};
  auto late = steps::post(pool, [&](steps::IAsyncSteps& asi) {
    asi.add(
        [&](steps::IAsyncSteps& inner) {
          inner.setTimeout(1ms);
          inner.await(calls, [&was_called, held = counted()] { was_called = true; });
        },
        [](steps::IAsyncSteps& inner, steps::ErrorCode) { inner.success(); });
  });
  late.get();
  all.open();
  calls.wait_idle();
  CHECK_FALSE(was_called);
  CHECK(counted::live() == 0);
}

TEST_CASE("blocking_pool: many threads post, cancel and wait while threads come and go; each call is seen once") {
  std::atomic<std::size_t> made{0}, dropped{0};
  const std::size_t each = testing::rounds(2'000);
  blocking_pool pool({.max_threads = 5, .idle_time = 50us});
  std::vector<std::thread> posters;
  for (int t = 0; t < 4; ++t) {
    posters.emplace_back([&] {
      for (std::size_t i = 0; i < each; ++i) {
        auto call = pool.post([&made] { ++made; });
        if (i % 3 == 0 && call.cancel()) {
          ++dropped;
        } else if (i % 7 == 0) {
          call.get();
        }
        if (i % 64 == 0) std::this_thread::sleep_for(100us);  // threads reach their idle time
      }
    });
  }
  for (std::thread& t : posters) t.join();
  pool.stop();
  CHECK(made + dropped == 4 * each);
}

TEST_CASE("blocking_pool::shared(): one for the process") {
  CHECK(&blocking_pool::shared() == &blocking_pool::shared());
  CHECK(blocking_pool::shared().post([] { return 3; }).get() == 3);
}

TEST_CASE("then(blocking_pool, f): f runs on a thread of that pool, with the shapes of then(threadpool, f)") {
  blocking_pool disk;
  threadpool pool(1);
  const auto here = std::this_thread::get_id();
  async::future<int> sum = pool.post([] { return 1; }).then(disk, [here](async::future<int> f) {
    CHECK(std::this_thread::get_id() != here);
    CHECK(threadpool::current() == nullptr);
    return f.get() + 1;
  });
  CHECK(sum.get() == 2);
  async::future<int> failed =
      pool.post([]() -> int { throw std::runtime_error("why"); }).then(disk, [](async::future<int> f) {
        return f.get();
      });
  CHECK_THROWS_WITH_AS(failed.get(), "why", std::runtime_error);
  async::future<int> unwrapped = async::make_ready_future(3).then(
      disk, [&pool](async::future<int> f) { return pool.post([x = f.get()] { return x * 2; }); });
  CHECK(unwrapped.get() == 6);
  const async::shared_future<int> shared = async::make_ready_future(5).share();
  CHECK(shared.then(disk, [](const async::shared_future<int>& f) { return f.get(); }).get() == 5);
}

TEST_CASE("then(blocking_pool, f) can be cancelled while f waits for a thread; a task that waits for f never runs it") {
  blocking_pool disk({.max_threads = 1});
  gate held;
  disk.execute(held.call());
  held.wait_for(1);
  bool was_called = false;
  async::future<void> next =
      async::make_ready_future().then(disk, [&was_called](async::future<void>) { was_called = true; });
  CHECK(next.cancel());
  CHECK(is_broken(next));
  threadpool pool(1);
  std::thread::id where;
  async::future<void> later =
      async::make_ready_future().then(disk, [&where](async::future<void>) { where = std::this_thread::get_id(); });
  std::atomic<bool> waits{false};
  async::future<std::thread::id> waiter = pool.post([&] {
    waits = true;
    later.get();
    return std::this_thread::get_id();
  });
  testing::wait_while(waits, false);
  held.open();
  CHECK(waiter.get() != where);
  CHECK(!was_called);
}
