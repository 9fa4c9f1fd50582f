// SPDX-License-Identifier: BSL-1.0
//
// stop(discard) of both pools: what has not begun is dropped and told, and the count of it is exact.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "async/async.hpp"
#include "support/gate.hpp"
#include "support/live_count.hpp"
#include "support/occupied.hpp"
#include "support/pool_of_one.hpp"
#include "support/thrown.hpp"
#include "support/wait_while.hpp"

using async::blocking_pool;
using async::discard;
using async::dropped_call;
using async::threadpool;
using async::threadpool_options;
using testing::gate;
using testing::is_broken;
using testing::is_deadlock;
using testing::pool_of_one;

namespace {

struct counted : testing::live_count<counted> {};

/// Opens the gate when stop(discard) has dropped what `dropped` tells, and returns the count of stop().
template <class Pool, class Dropped>
std::size_t stop_while_held(Pool& pool, gate& held, Dropped dropped) {
  std::thread opener([&] {
    while (!dropped()) std::this_thread::yield();
    held.open();
  });
  const std::size_t count = pool.stop(discard);
  opener.join();
  return count;
}

template <class Future>
bool is_dropped(Future& future) {
  try {
    future.get();
  } catch (const dropped_call& error) {
    return error.code() == std::future_errc::broken_promise && error.why() == dropped_call::reason::stopped &&
           std::string(error.what()) == async::stopped().what();
  } catch (const std::future_error&) {  // a plain broken promise
  }
  return false;
}
/// Posts a call, to see.
template <class Pool>
bool is_refusing(Pool& pool) {
  try {
    pool.execute([] {});
  } catch (const async::stopped&) {
    return true;
  }
  return false;
}

/// A call whose destructor waits at a gate, and stays for a while longer.
struct held_at_end {
  struct scene {
    gate dropped;
    std::atomic<bool> has_returned{false}, is_gone{false};
  };
  scene* where;
  explicit held_at_end(scene& s) : where(&s) {}
  held_at_end(held_at_end&& o) noexcept : where(std::exchange(o.where, nullptr)) {}
  held_at_end& operator=(held_at_end&&) = delete;
  ~held_at_end() {
    if (where == nullptr) return;
    where->dropped.pass();
    testing::linger(where->has_returned);
    where->is_gone = true;
  }
  void operator()() const {}
};

}  // namespace

TEST_CASE_TEMPLATE("stop(discard) destroys the tasks that wait and breaks their futures while a task runs", Pool,
                   threadpool, blocking_pool) {
  constexpr std::size_t count = 1'000;
  const auto pool = pool_of_one<Pool>();
  gate held;
  bool was_called = false, went_on = false;
  async::future<void> running = pool->post([&] {
    held.pass();
    went_on = true;
  });
  held.wait_for_one();
  std::vector<async::future<void>> waiting;
  for (std::size_t i = 0; i < count; ++i) {
    waiting.push_back(pool->post([&was_called, c = counted()] { was_called = true; }));
    pool->execute([&was_called, c = counted()] { was_called = true; });
  }
  // The futures are broken although the only thread is in a task.
  const auto all_are_broken = [&] {
    return waiting.front().is_ready() && waiting.back().is_ready() && counted::live() == 0;
  };
  CHECK(stop_while_held(*pool, held, all_are_broken) == 2 * count);
  CHECK(went_on);
  CHECK(!was_called);
  running.get();
  for (auto& each : waiting) REQUIRE(is_dropped(each));
  CHECK_THROWS_AS(pool->execute([] {}), async::stopped);
  CHECK(pool->stop(discard) == 2 * count);
  pool->stop();
}

TEST_CASE_TEMPLATE("stop(discard) of a pool without work returns 0; inside a task it is refused as stop() is", Pool,
                   threadpool, blocking_pool) {
  const auto pool = pool_of_one<Pool>();
  CHECK(pool->post([&pool] { return is_deadlock([&pool] { pool->stop(discard); }); }).get());
  CHECK(pool->stop(discard) == 0);
}

TEST_CASE_TEMPLATE("stop(discard) counts neither calls that were cancelled nor those that a waiting task has made",
                   Pool, threadpool, blocking_pool) {
  const auto pool = pool_of_one<Pool>();
  gate held;
  std::promise<async::future<int>> hand;
  pool->execute([&, get = hand.get_future()]() mutable {
    async::future<int> made = get.get();
    if constexpr (std::is_same_v<Pool, threadpool>) made.get();  // makes it: the queue keeps an empty entry
    held.pass();
  });
  async::future<int> made = pool->post([] { return 1; });
  if (std::is_same_v<Pool, blocking_pool>) made.cancel();
  hand.set_value(std::move(made));
  held.wait_for_one();
  std::vector<async::future<void>> calls;
  for (int i = 0; i < 10; ++i) calls.push_back(pool->post([] {}));
  for (std::size_t i = 0; i < 4; ++i) CHECK(calls[i].cancel());
  CHECK(stop_while_held(*pool, held, [&] { return calls.back().is_ready(); }) == 6);
  CHECK(is_broken(calls.front()));
  CHECK(is_dropped(calls.back()));
}

TEST_CASE("stop(discard) does not count calls of async::async that a waiting task has made") {
  threadpool pool(1);
  gate held;
  std::promise<std::future<int>> hand;
  pool.execute([&, get = hand.get_future()]() mutable {
    CHECK(get.get().get() == 1);
    held.pass();
  });
  hand.set_value(async::detail::call_in_pool<int>(pool.core(), [] { return 1; }));
  held.wait_for_one();
  const async::future<void> waiting = pool.post([] {});
  CHECK(stop_while_held(pool, held, [&] { return waiting.is_ready(); }) == 1);
}

TEST_CASE_TEMPLATE("stop(discard) during a stop() of another thread drops what that has left", Pool, threadpool,
                   blocking_pool) {
  const auto pool = pool_of_one<Pool>();
  gate held;
  pool->execute([&held] { held.pass(); });
  held.wait_for_one();
  async::future<void> waiting = pool->post([] {});
  std::thread stopper([&pool] { pool->stop(); });
  while (!is_refusing(*pool)) std::this_thread::yield();
  CHECK(stop_while_held(*pool, held, [&] { return waiting.is_ready(); }) >= 1);
  stopper.join();
  CHECK(is_dropped(waiting));
}

TEST_CASE_TEMPLATE("wait_idle() returns when stop(discard) has dropped what it waits for, and after that", Pool,
                   threadpool, blocking_pool) {
  const auto pool = pool_of_one<Pool>();
  gate held;
  pool->execute([&held] { held.pass(); });
  held.wait_for_one();
  async::future<void> waiting = pool->post([] {});
  std::thread waiter([&pool] { pool->wait_idle(); });
  CHECK(stop_while_held(*pool, held, [&] { return waiting.is_ready(); }) == 1);
  waiter.join();
  pool->wait_idle();
}

TEST_CASE_TEMPLATE("stop() and stop(discard) return when another thread's stop(discard) has destroyed what it drops",
                   Pool, threadpool, blocking_pool) {
  enum class other { stops_before, stops_after, discards_after };
  for (const other what : {other::stops_before, other::stops_after, other::discards_after}) {
    constexpr std::size_t count = 10;
    const auto pool = pool_of_one<Pool>();
    gate held;
    pool->execute([&held] { held.pass(); });
    held.wait_for_one();
    held_at_end::scene scene;
    pool->execute(held_at_end(scene));
    for (std::size_t i = 1; i < count; ++i) pool->execute([c = counted()] {});
    bool was_gone = false;
    std::size_t first = 0, second = 0;
    const auto stop_too = [&] {
      if (what == other::discards_after) {
        second = pool->stop(discard);
      } else {
        pool->stop();
      }
      was_gone = scene.is_gone && counted::live() == 0;
      scene.has_returned = true;
    };
    std::thread stopper;
    if (what == other::stops_before) {
      stopper = std::thread(stop_too);
      while (!is_refusing(*pool)) std::this_thread::yield();
    }
    std::thread discarder([&] { first = pool->stop(discard); });
    scene.dropped.wait_for_one();
    if (what != other::stops_before) stopper = std::thread(stop_too);
    held.open();
    scene.dropped.open();
    discarder.join();
    stopper.join();
    CHECK(was_gone);
    CHECK(first >= count);  // and calls that is_refusing() has posted
    if (what == other::discards_after) CHECK(second == first);
    CHECK(pool->stop(discard) == first);
  }
}

TEST_CASE_TEMPLATE("stop(discard): in destructors of what it drops, stop() and wait_idle() are refused as in a task",
                   Pool, threadpool, blocking_pool) {
  struct stops_at_end {
    Pool* pool;
    int* refused;
    stops_at_end(Pool& p, int& r) : pool(&p), refused(&r) {}
    stops_at_end(stops_at_end&& o) noexcept : pool(std::exchange(o.pool, nullptr)), refused(o.refused) {}
    ~stops_at_end() {
      if (pool == nullptr) return;
      *refused += is_deadlock([this] { pool->stop(); }) ? 1 : 0;
      *refused += is_deadlock([this] { pool->stop(discard); }) ? 1 : 0;
      *refused += is_deadlock([this] { pool->wait_idle(); }) ? 1 : 0;
    }
    void operator()() const {}
  };
  const auto pool = pool_of_one<Pool>();
  gate held;
  int refused = 0;
  pool->execute([&held] { held.pass(); });
  held.wait_for_one();
  async::future<void> waiting = pool->post(stops_at_end(*pool, refused));
  CHECK(stop_while_held(*pool, held, [&] { return waiting.is_ready(); }) == 1);
  CHECK(refused == 3);
}

TEST_CASE_TEMPLATE("stop(discard): what a running task posts is dropped, and so is what destructors post", Pool,
                   threadpool, blocking_pool) {
  struct posts_at_end {
    Pool* pool;
    std::atomic<int>* called;
    posts_at_end(Pool& p, std::atomic<int>& c) : pool(&p), called(&c) {}
    posts_at_end(posts_at_end&& o) noexcept : pool(std::exchange(o.pool, nullptr)), called(o.called) {}
    ~posts_at_end() {
      if (pool != nullptr) pool->execute([c = called] { ++*c; });
    }
    void operator()() const {}
  };
  const auto pool = pool_of_one<Pool>();
  gate held;
  std::atomic<int> called{0};
  std::optional<async::future<void>> late;
  pool->execute([&] {
    held.pass();
    late = pool->post([&called] { ++called; });
    pool->execute([&called] { ++called; });
  });
  held.wait_for_one();
  async::future<void> waiting = pool->post(posts_at_end(*pool, called));
  CHECK(stop_while_held(*pool, held, [&] { return waiting.is_ready(); }) == 4);
  CHECK(called == 0);
  CHECK(is_dropped(*late));
}

TEST_CASE("stop(discard): a stand-in for a worker that waits drops what its task posts") {
  threadpool pool(1);
  async::promise<void> end;
  gate held;
  std::atomic<int> ran{0};
  std::vector<async::future<void>> posted;
  pool.execute([&] { end.get_future().wait_for(std::chrono::hours(1)); });
  auto stood_in = pool.post([&] {
    held.pass();
    for (int i = 0; i < 10; ++i) posted.push_back(pool.post([&ran] { ++ran; }));
  });
  held.wait_for_one();
  auto queued = pool.post([&ran] { ++ran; });
  std::thread helper([&] {
    while (!queued.is_ready()) std::this_thread::yield();  // stop() has begun
    held.open();
    stood_in.get();
    for (auto& each : posted) CHECK(is_dropped(each));
    end.set_value();
  });
  CHECK(pool.stop(discard) == 11);
  helper.join();
  CHECK(is_dropped(queued));
  CHECK(ran == 0);
}

TEST_CASE_TEMPLATE("stop(discard): continuations of dropped calls run, and those for the pool are dropped", Pool,
                   threadpool, blocking_pool) {
  const auto pool = pool_of_one<Pool>();
  gate held;
  pool->execute([&held] { held.pass(); });
  held.wait_for_one();
  bool was_called = false;
  async::future<bool> here = pool->post([] {}).then([](async::future<void> f) { return is_dropped(f); });
  async::future<void> there = pool->post([] {}).then(*pool, [&was_called](async::future<void>) { was_called = true; });
  // Each call, and the continuation that is posted as the second one is dropped.
  CHECK(stop_while_held(*pool, held, [&] { return here.is_ready() && there.is_ready(); }) == 3);
  CHECK(here.get());
  CHECK(is_dropped(there));
  CHECK(!was_called);
}

TEST_CASE("stop(discard) drops the calls of async::async as broken promises") {
  threadpool pool(1);
  gate held;
  std::future<int> dropped;
  // Within the pool, where the calls wait in a deque.
  pool.execute([&] {
    dropped = pool.post([] { return 1; });
    held.pass();
  });
  held.wait_for_one();
  CHECK(stop_while_held(pool, held, [&] { return async::detail::is_ready(dropped); }) == 1);
  CHECK(is_broken(dropped));
}

TEST_CASE("stop(discard) cancels a group whose tasks wait: wait() returns false, and each task is called or counted") {
  for (const bool is_inside : {true, false}) {
    constexpr std::size_t count = 500;
    threadpool pool(2);
    std::atomic<std::size_t> called{0};
    std::atomic<bool> is_there{false}, was_complete{true}, inner_was_complete{true};
    gate held;
    const auto body = [&] {
      async::task_group group(pool);
      for (std::size_t i = 0; i < count; ++i) group.run([&called, c = counted()] { ++called; });
      group.run([&] {  // the newest, which wait() runs first
        ++called;
        is_there = true;
        held.pass();
        async::task_group inner(pool);
        for (std::size_t i = 0; i < count; ++i) inner.run([&called, c = counted()] { ++called; });
        inner_was_complete = inner.wait();
      });
      was_complete = group.wait();
    };
    std::optional<testing::occupied> other(std::in_place, pool, is_inside ? 1 : 2);
    std::thread outside;
    if (is_inside) {
      pool.execute(body);
    } else {
      outside = std::thread(body);
    }
    testing::wait_while(is_there, false);
    async::future<void> mark = pool.post([] {});
    std::thread opener([&] {
      while (!mark.is_ready()) std::this_thread::yield();
      held.open();
      other.reset();
    });
    const std::size_t dropped = pool.stop(discard);
    opener.join();
    if (outside.joinable()) outside.join();
    CHECK(!was_complete);
    CHECK(!inner_was_complete);
    CHECK(called + dropped == 2 * count + 2);  // and the mark
    CHECK(called < count);
    CHECK(counted::live() == 0);
  }
}

TEST_CASE("stop(discard) cancels a group whose running task asks whether to end, or makes loops, meanwhile") {
  for (const bool makes_loops : {false, true}) {
    threadpool pool(1);
    std::atomic<std::size_t> called{0};
    std::atomic<bool> is_there{false}, is_over{false};
    bool was_complete = true;
    std::thread owner([&] {
      async::task_group group(pool);
      group.run([&] {
        for (int i = 0; i < 10; ++i) group.run([&called, c = counted()] { ++called; });
        is_there = true;
        while (!is_over) {
          if (makes_loops) async::parallel_for(group, 0, 10, [](int) {});
          if (group.is_cancelling()) return;
        }
      });
      testing::wait_while(is_over, false);
      was_complete = group.wait();
    });
    testing::wait_while(is_there, false);
    async::future<void> mark = pool.post([] {});
    std::thread watcher([&] {
      while (!mark.is_ready()) std::this_thread::yield();
      is_over = true;
    });
    const std::size_t dropped = pool.stop(discard);
    watcher.join();
    owner.join();
    CHECK(!was_complete);
    CHECK(called + dropped == 11);  // and the mark
    CHECK(counted::live() == 0);
    if (!makes_loops) CHECK(called == 0);
  }
}

TEST_CASE("stop(discard) cancels a group when it skips a task that waits: a task of the group that runs can ask") {
  threadpool pool(1);
  async::task_group group(pool);
  std::promise<void> begun;
  bool has_seen = false;
  bool is_complete = true;
  group.run([&] {
    group.run([c = counted()] {});
    begun.set_value();
    while (counted::live() != 0) std::this_thread::yield();
    has_seen = group.is_cancelling();
  });
  begun.get_future().wait();
  const async::future<void> mark = pool.post([] {});
  std::thread waiter([&] {
    while (!mark.is_ready()) std::this_thread::yield();
    is_complete = group.wait();
  });
  CHECK(pool.stop(discard) == 2);
  waiter.join();
  CHECK(has_seen);
  CHECK_FALSE(is_complete);
}

TEST_CASE("stop(discard) lets loops and reductions that have begun go on to their ends") {
  threadpool pool(2);
  std::atomic<bool> is_there{false};
  gate held;
  std::atomic<std::size_t> calls{0};
  std::size_t sum = 0;
  bool is_complete = false, invoked = false;
  async::future<void> running = pool.post([&] {
    is_complete = async::parallel_for(pool, 0, 1'000, [&](int i) {
      if (i == 0) {
        is_there = true;
        held.pass();
      }
      ++calls;
    });
    sum = async::parallel_reduce(
        pool, std::size_t{0}, std::size_t{1'000}, std::size_t{0}, [](std::size_t s, std::size_t i) { return s + i; },
        [](std::size_t a, std::size_t b) { return a + b; });
    async::parallel_invoke(pool, [] {}, [&invoked] { invoked = true; });
  });
  testing::wait_while(is_there, false);
  std::vector<async::future<void>> waiting;
  std::thread opener([&held] { held.open(); });
  const std::size_t dropped = pool.stop(discard);
  opener.join();
  running.get();
  CHECK(dropped == 0);
  CHECK(is_complete);
  CHECK(calls == 1'000);
  CHECK(sum == 499'500);
  CHECK(invoked);
}

TEST_CASE("stop(discard) of a paused pool drops all, also tasks in the deques of threads that have gone") {
  std::atomic<int> called{0}, ended{0};
  threadpool_options options{.threads = 2};
  options.on_thread_stop = [&ended](std::size_t) { ++ended; };
  threadpool pool(std::move(options));
  pool.execute([&] {
    pool.configurepool(0);
    for (int i = 0; i < 100; ++i) pool.execute([&called] { ++called; });
  });
  while (ended < 2) std::this_thread::yield();
  for (int i = 0; i < 100; ++i) pool.execute([&called] { ++called; });
  const std::size_t dropped = pool.stop(discard);
  CHECK(dropped + static_cast<std::size_t>(called) == 200);
  CHECK(dropped >= 100);
}

TEST_CASE("stop(discard) ends posts that wait for room: they throw stopped") {
  threadpool_options options{.threads = 1};
  options.max_queue = 2;
  threadpool pool(std::move(options));
  gate held;
  pool.execute([&held] { held.pass(); });
  held.wait_for_one();
  std::atomic<std::size_t> accepted{0}, refused{0};
  std::vector<std::thread> posters;
  for (int i = 0; i < 4; ++i) {
    posters.emplace_back([&] {
      try {
        for (;;) {
          pool.execute([] {});
          ++accepted;
        }
      } catch (const async::stopped&) {
        ++refused;
      }
    });
  }
  while (accepted < 2) std::this_thread::yield();
  CHECK(stop_while_held(pool, held, [&] { return refused == 4; }) == accepted);
  for (auto& each : posters) each.join();
}

TEST_CASE("then(pool, f) with a pool that refuses the task tells why") {
  SUBCASE("a stopped threadpool") {
    threadpool pool(1);
    pool.stop();
    auto next = async::make_ready_future().then(pool, [](async::future<void>) {});
    CHECK(is_dropped(next));
    auto copy = async::make_ready_future().share().then(pool, [](const async::shared_future<void>&) {});
    CHECK(is_dropped(copy));
  }
  SUBCASE("a stopped blocking_pool") {
    blocking_pool pool;
    pool.stop();
    auto next = async::make_ready_future().then(pool, [](async::future<void>) {});
    CHECK(is_dropped(next));
  }
  SUBCASE("a full threadpool") {
    threadpool_options options{.threads = 1};
    options.max_queue = 1;
    options.when_full = threadpool_options::overflow::reject;
    threadpool pool(std::move(options));
    const testing::occupied busy(pool, 1);
    pool.execute([] {});
    auto next = async::make_ready_future().then(pool, [c = counted()](async::future<void>) {});
    CHECK(counted::live() == 0);
    try {
      next.get();
      FAIL("was called");
    } catch (const dropped_call& error) {
      CHECK(error.why() == dropped_call::reason::queue_full);
      CHECK(std::string(error.what()) == async::queue_full().what());
    }
  }
}
