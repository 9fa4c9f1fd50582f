// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "async/detail/pool/pool_worker.hpp"
#include "async/event_loop.hpp"
#include "async/threadpool.hpp"
#include "support/live_count.hpp"
#include "support/occupied.hpp"
#include "support/process_cpu_time.hpp"
#include "support/scale.hpp"
#include "support/work_for.hpp"

// The event loops that a pool's workers drive.

using async::event_loop;
using async::threadpool;
using async::threadpool_options;
using namespace std::chrono_literals;

namespace {

/// The result of f(), called on the loop.
template <class F>
auto on(event_loop& loop, F f) -> decltype(f()) {
  std::promise<decltype(f())> result;
  loop.post([&] { result.set_value(f()); });
  return result.get_future().get();
}

/// Waits until a thread drives the loop that `condition` accepts. Fails by the test's time limit.
template <class Condition>
void until_driven_by(event_loop& loop, Condition condition) {
  while (!condition(on(loop, [] { return std::this_thread::get_id(); }))) std::this_thread::yield();
}

}  // namespace

TEST_CASE("callbacks of a worker's loop run on threads of the pool, with it as the current loop") {
  threadpool pool(3);
  std::set<std::thread::id> workers;
  const testing::occupied all_but_one(pool, 2);
  for (std::size_t i = 0; i < 3; ++i) {  // any worker runs them
    event_loop& loop = pool.loop(i);
    CHECK(on(loop, [] { return event_loop::current(); }) == &loop);
    CHECK(on(loop, [] { return threadpool::current(); }) == &pool);
    CHECK(on(loop, [&loop] { return loop.is_same_thread(); }));
    CHECK_FALSE(loop.is_same_thread());
    workers.insert(on(loop, [] { return std::this_thread::get_id(); }));
  }
  CHECK(workers.size() == 1);
  CHECK(workers.count(std::this_thread::get_id()) == 0);
  CHECK(event_loop::current() == nullptr);
}

TEST_CASE("one thread at a time runs a worker's loop, in the order of the posts, while threads and loops are many") {
  threadpool pool(4);
  struct {
    event_loop* loop = nullptr;
    std::atomic<int> inside{0};
    int next = 0;
    bool is_right = true;
  } of_loop[4];
  const int count = static_cast<int>(testing::rounds(5'000));
  for (std::size_t i = 0; i < 4; ++i) of_loop[i].loop = &pool.loop(i);
  for (int n = 0; n < count; ++n) {
    for (auto& one : of_loop) {
      one.loop->post([&one, n] {
        const bool is_alone = one.inside.exchange(1) == 0;
        one.is_right = one.is_right && is_alone && one.next++ == n && event_loop::current() == one.loop;
        one.inside = 0;
      });
    }
    if (n % 16 == 0) std::this_thread::yield();
  }
  for (auto& one : of_loop) {
    CHECK(on(*one.loop, [&one] { return one.next; }) == count);
    CHECK(one.is_right);
  }
}

TEST_CASE("the current loop of a task is its worker's own, a different one for each worker") {
  threadpool pool(3);
  std::set<event_loop*> of_tasks;
  std::mutex mutex;
  std::vector<std::future<void>> tasks;
  std::atomic<int> missing{3};
  for (int i = 0; i < 3; ++i) {
    tasks.push_back(pool.post([&] {
      {
        const std::lock_guard lock(mutex);
        of_tasks.insert(event_loop::current());
      }
      --missing;
      while (missing != 0) std::this_thread::yield();  // each worker has one of the tasks
    }));
  }
  for (auto& t : tasks) t.get();
  CHECK(of_tasks == std::set<event_loop*>{&pool.loop(0), &pool.loop(1), &pool.loop(2)});
}

TEST_CASE("a callback that a task gives to its worker's loop runs after the task, or on another thread") {
  for (std::size_t threads = 1; threads != 3; ++threads) {
    threadpool pool(threads);
    std::promise<bool> right;
    pool.execute([&right, threads] {
      const auto task_has_ended = std::make_shared<std::atomic<bool>>(false);
      event_loop* const loop = event_loop::current();
      loop->immediate([&right, threads, loop, task_has_ended, thread = std::this_thread::get_id()] {
        const bool is_here = thread == std::this_thread::get_id();
        right.set_value(event_loop::current() == loop && (is_here ? task_has_ended->load() : threads == 2));
      });
      *task_has_ended = true;
    });
    CHECK(right.get_future().get());
  }
}

TEST_CASE("there are as many loops as wanted workers, and only the pool drives them") {
  threadpool pool(2);
  CHECK_THROWS_AS(pool.loop(2), std::out_of_range);
  CHECK_THROWS_AS(pool.loop(0).run(), std::logic_error);
  CHECK_THROWS_AS(pool.loop(0).run_for(1s), std::logic_error);
  CHECK_THROWS_AS(pool.loop(0).iterate(), std::logic_error);
  pool.loop(0).stop();  // does nothing
  std::promise<void> ran;
  pool.loop(0).post([&ran] { ran.set_value(); });
  ran.get_future().get();
  event_loop& second = pool.loop(1);
  pool.configurepool(1);
  CHECK_THROWS_AS(pool.loop(1), std::out_of_range);
  pool.configurepool(2);
  CHECK(&pool.loop(1) == &second);
}

TEST_CASE("timers of a worker's loop fire in order and never early, and handles cancel them") {
  threadpool pool(1);
  std::vector<int> order;  // belongs to the loop
  std::promise<void> done;
  const auto begin = std::chrono::steady_clock::now();
  std::atomic<bool> early{false};
  pool.loop(0).deferred(8ms, [&] {
    early = std::chrono::steady_clock::now() - begin < 8ms;
    order.push_back(8);
    done.set_value();
  });
  pool.loop(0).deferred(2ms, [&order] { order.push_back(2); });
  auto handle = pool.loop(0).deferred(4ms, [&order] { order.push_back(4); });
  CHECK(handle.cancel());
  done.get_future().wait();
  CHECK_FALSE(early);
  CHECK(order == std::vector<int>{2, 8});
}

TEST_CASE("a task that posts itself for ever does not keep a task from outside from its turn") {
  for (unsigned before = 1; before < 100'000; before *= 3) {
    std::atomic<unsigned> ran{0};
    std::atomic<bool> is_over{false};
    threadpool pool(1);
    struct again {
      threadpool& pool;
      std::atomic<unsigned>& ran;
      std::atomic<bool>& is_over;
      void operator()() const {
        ++ran;
        if (!is_over) pool.execute(again(*this));
      }
    };
    pool.execute(again{pool, ran, is_over});
    while (ran < before) std::this_thread::yield();
    const auto from_outside = pool.post([] {});
    CHECK(from_outside.wait_for(10s) == std::future_status::ready);
    is_over = true;
  }
}

TEST_CASE("tasks that post tasks and callbacks that post callbacks starve neither each other nor the timers") {
  std::atomic<bool> stop{false};
  std::atomic<int> tasks{0}, callbacks{0}, timers{0};
  threadpool pool(1);
  const std::function<void()> task = [&] {
    ++tasks;
    if (!stop) pool.execute(task);
  };
  const std::function<void()> callback = [&] {
    ++callbacks;
    if (!stop) pool.loop(0).immediate(callback);
  };
  const std::function<void()> timer = [&] {
    ++timers;
    if (!stop) pool.loop(0).deferred(100us, timer);
  };
  pool.execute(task);
  pool.loop(0).post(callback);
  pool.loop(0).deferred(1ms, timer);
  while (tasks < 10'000 || callbacks < 10'000 || timers < 10) std::this_thread::yield();
  stop = true;
  pool.wait_idle();
}

TEST_CASE("timers also fire between long tasks") {
  threadpool pool(1);
  std::atomic<int> left{400};
  std::atomic<int> left_at_timer{-1};
  const std::function<void()> task = [&] {
    testing::work_for(500us);
    if (--left > 0) pool.execute(task);
  };
  pool.loop(0).deferred(5ms, [&] { left_at_timer = left.load(); });
  pool.execute(task);
  while (left_at_timer < 0) std::this_thread::yield();
  CHECK(left_at_timer > 0);  // the tasks take 200 ms
  left = 1;
  pool.wait_idle();
}

TEST_CASE("a timer fires after few long tasks that follow many short ones") {
  threadpool pool(1);
  event_loop& loop = pool.loop(0);
  const auto far_ahead = loop.deferred(1h, [] {});  // so that the worker compares timers with the clock
  std::atomic<int> begun{0};
  std::atomic<int> begun_when_due{0};
  std::atomic<bool> fired{false};
  const std::function<void(int)> chain = [&](int left) {  // a task at a time: the clock is looked at between them
    if (left != 0) return pool.execute([&chain, left] { chain(left - 1); });
    const auto due = std::chrono::steady_clock::now() + 5ms;
    loop.deferred(5ms, [&] { fired = true; });
    for (int i = 0; i < 300; ++i) {
      pool.execute([&, due] {
        if (fired) return;
        std::this_thread::sleep_for(1ms);
        begun.fetch_add(1);
        if (std::chrono::steady_clock::now() < due) begun_when_due.fetch_add(1);
      });
    }
  };
  chain(20'000);
  while (!fired) std::this_thread::yield();
  pool.wait_idle();
  CHECK(begun - begun_when_due <= 24);  // of 300
}

TEST_CASE("a timer fires after few long tasks, also when the worker turns to its oldest ones") {
  int begun = 0;  // one thread's, like all of these
  int begun_before = 0;
  int most = 0;
  std::function<void()> fire;  // a timer may be left when the pool ends
  threadpool pool(1);
  event_loop& loop = pool.loop(0);
  fire = [&] {
    most = std::max(most, begun - std::exchange(begun_before, begun));
    if (begun < 200) loop.deferred(5ms, std::cref(fire));  // five tasks take that long
  };
  pool.execute([&] {
    loop.immediate(std::cref(fire));
    for (int i = 0; i < 200; ++i) {
      pool.execute([&] {
        ++begun;
        std::this_thread::sleep_for(1ms);
      });
    }
  });
  pool.wait_idle();
  CHECK(begun == 200);
  CHECK(most <= 10);
}

TEST_CASE("a worker with a timer far ahead sleeps") {
  threadpool pool(2);
  auto handle = pool.loop(0).deferred(1h, [] {});
  while (pool.idlesize() != 2) std::this_thread::yield();
  CHECK(testing::sleeps_for(100ms, 20ms));
  CHECK(handle.cancel());
}

TEST_CASE("a thread looks at the clock once in 16 short calls, and after each long one") {
  async::detail::clock_look looks;
  auto now = async::detail::wait_clock::now();
  const auto calls_to_next = [&](std::chrono::nanoseconds each) {
    int calls = 1;
    for (now += each; !looks.is_due(); now += each) ++calls;
    looks.looked(now);
    return calls;
  };
  for (int i = 0; i < 20; ++i) calls_to_next(100ns);
  CHECK(calls_to_next(100ns) == 16);
  for (int i = 0; i < 8; ++i) calls_to_next(5us);
  CHECK(calls_to_next(5us) >= 4);  // about once in 20 to 50 us
  calls_to_next(10ms);
  CHECK(calls_to_next(10ms) == 1);
  for (int i = 0; i < 20; ++i) calls_to_next(100ns);
  looks.hurry();
  CHECK(calls_to_next(100ns) == 1);
}

TEST_CASE("a post to a loop of a sleeping pool wakes one worker") {
  threadpool pool(4);
  std::uint64_t wakes = 0;
  for (int i = 0; i < 100; ++i) {
    while (pool.idlesize() != 4) std::this_thread::yield();
    const auto before = pool.stats().wakes;
    on(pool.loop(2), [] { return 0; });
    const auto woken = pool.stats().wakes - before;
    CHECK(woken <= 1);  // 0: one had announced sleep, and looked once more
    wakes += woken;
  }
  CHECK(wakes >= 20);
}

TEST_CASE("posts of one thread to a loop keep their order while the pool is resized") {
  threadpool pool(2);
  event_loop& loop = pool.loop(1);
  std::atomic<bool> stop{false};
  std::thread resizer([&] {
    for (std::size_t n = 0; !stop; ++n) pool.configurepool(n % 4);
    pool.configurepool(2);
  });
  const int count = static_cast<int>(testing::rounds(50'000));
  int next = 0;
  bool in_order = true;
  for (int i = 0; i < count; ++i) {
    loop.post([&next, &in_order, i] { in_order = in_order && next++ == i; });
    if (i % 64 == 0) std::this_thread::yield();
  }
  stop = true;
  resizer.join();
  CHECK(on(loop, [&] { return next; }) == count);
  CHECK(in_order);
}

TEST_CASE("the loop of a worker that has ended goes on, with its timers") {
  threadpool pool(2);
  event_loop& loop = pool.loop(1);
  std::promise<void> fired;
  loop.deferred(30ms, [&fired] { fired.set_value(); });
  pool.configurepool(1);
  const auto first = on(pool.loop(0), [] { return std::this_thread::get_id(); });
  until_driven_by(loop, [first](std::thread::id id) { return id == first; });
  fired.get_future().wait();
  pool.configurepool(2);
  CHECK(on(loop, [] { return 1; }) == 1);
}

TEST_CASE("a paused pool runs no callbacks and fires no timers; the next growth continues both") {
  threadpool pool(3);
  event_loop& loop = pool.loop(2);
  pool.configurepool(0);
  pool.wait_idle();
  std::atomic<int> ran{0};
  loop.post([&ran] { ++ran; });
  loop.deferred(1ms, [&ran] { ++ran; });
  std::this_thread::sleep_for(20ms);
  CHECK(ran == 0);
  pool.configurepool(1);
  while (ran != 2) std::this_thread::yield();
}

TEST_CASE("an exception of a callback goes to the pool's hook") {
  std::promise<std::string> what;
  threadpool_options options;
  options.threads = 1;
  options.on_unhandled = [&what](std::exception_ptr error) {
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& e) {
      what.set_value(e.what());
    }
  };
  threadpool pool(std::move(options));
  pool.loop(0).post([] { throw std::runtime_error("thrown"); });
  CHECK(what.get_future().get() == "thrown");
  CHECK(on(pool.loop(0), [] { return 1; }) == 1);
}

TEST_CASE("a task that waits with wait() drives the worker's loop meanwhile") {
  threadpool pool(1);
  const int answer = pool.post([&pool] {
                           std::promise<int> later;
                           auto result = later.get_future();
                           pool.loop(0).deferred(2ms, [&later] { later.set_value(42); });
                           return pool.wait(result);
                         })
                         .get();
  CHECK(answer == 42);
}

TEST_CASE("callbacks that wait when the pool stops, and later ones, are destroyed without running") {
  struct held : testing::live_count<held> {};
  threadpool pool(2);
  event_loop& loop = pool.loop(1);
  std::atomic<int> ran{0};
  auto handle = loop.deferred(1h, [&ran, h = held()] { ++ran; });
  pool.configurepool(0);
  pool.wait_idle();
  loop.post([&ran, h = held()] { ++ran; });
  CHECK(held::live() == 2);
  pool.stop();
  CHECK(held::live() == 0);
  CHECK_FALSE(handle);
  loop.post([&ran, h = held()] { ++ran; });
  loop.deferred(1ms, [&ran, h = held()] { ++ran; });
  CHECK(held::live() == 0);
  CHECK(ran == 0);
}

TEST_CASE("callbacks posted to a loop run also when the pool stops before its threads have begun") {
  int ran = 0;
  for (int i = 0; i < 500; ++i) {
    threadpool pool(2);
    event_loop& loop = pool.loop(1);
    loop.post([&ran, &loop] {
      loop.post([&ran, &loop] { loop.post([&ran] { ++ran; }); });  // in different turns
    });
  }
  CHECK(ran == 500);
}

TEST_CASE("an endless chain of callbacks does not keep the pool from stopping") {
  std::atomic<int> ran{0};
  {
    const std::function<void()> again = [&] {
      ++ran;
      event_loop::current()->immediate(again);
    };
    threadpool pool(2);
    pool.loop(0).post(again);
    pool.loop(1).post(again);
    while (ran < 1000) std::this_thread::yield();
  }
  CHECK(ran >= 1000);
}

TEST_CASE("after many short sleeps, long tasks delay a timer by a few tasks only") {
  using clock = std::chrono::steady_clock;
  threadpool pool(1);
  for (int i = 0; i < 20; ++i) {
    pool.post([] {}).get();
    while (pool.idlesize() != 1) std::this_thread::yield();
  }
  std::atomic<bool> has_fired{false};
  const clock::time_point due = clock::now() + 20ms;
  int begun_late = 0;  // belongs to the worker
  for (int i = 0; i < 400; ++i) {
    pool.execute([&] {
      const clock::time_point begin = clock::now();
      if (begin >= due && !has_fired) ++begun_late;
      while (!has_fired && clock::now() < begin + 500us) {
      }
    });
  }
  std::promise<int> late;
  pool.loop(0).deferred(due - clock::now(), [&] {
    has_fired = true;
    late.set_value(begun_late);
  });
  CHECK(late.get_future().get() <= 16);
  pool.wait_idle();
}

TEST_CASE("loop(i) needs a wanted worker, but a reference outlives it: after stop() it destroys callbacks unrun") {
  threadpool pool(2);
  CHECK_THROWS_AS(pool.configurepool(65'536), std::length_error);
  CHECK(pool.size() == 2);
  event_loop& loop = pool.loop(1);
  pool.configurepool(1);
  CHECK_THROWS_AS(pool.loop(1), std::out_of_range);
  CHECK(on(loop, [] { return true; }));
  pool.stop();
  CHECK(pool.size() == 0);
  CHECK_THROWS_AS(pool.loop(0), std::out_of_range);
  const auto token = std::make_shared<int>(0);
  bool has_run = false;
  loop.post([&has_run, token] { has_run = true; });
  CHECK(token.use_count() == 1);
  CHECK(!has_run);
}
