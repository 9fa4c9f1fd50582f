// SPDX-License-Identifier: BSL-1.0
//
// A task that a full pool runs on the thread that posts it counts as a running task of the pool. Tasks that go beyond
// the limit, and those within it, do not hold up each other.
#include <doctest/doctest.h>

#include <atomic>        // for atomic
#include <chrono>        // for steady_clock, milliseconds
#include <cstdint>       // for uint64_t
#include <exception>     // for exception_ptr
#include <stdexcept>     // for runtime_error
#include <system_error>  // for system_error
#include <thread>        // for thread, this_thread
#include <utility>       // for exchange, move
#include <vector>        // for vector

#include "async/detail/pool/injector.hpp"
#include "async/event.hpp"
#include "async/event_loop.hpp"
#include "async/threadpool.hpp"

using async::priority;
using async::threadpool;
using async::threadpool_options;

namespace {

/// The options of a pool that has no workers, and room for one task.
threadpool_options one_place(threadpool_options::overflow when_full = threadpool_options::overflow::caller_runs) {
  threadpool_options options;
  options.threads = 0;
  options.max_queue = 1;
  options.when_full = when_full;
  return options;
}

/// Whether `flag` is set within 50 ms.
bool is_set_soon(const std::atomic<bool>& flag) {
  const auto latest = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
  while (!flag && std::chrono::steady_clock::now() < latest) std::this_thread::yield();
  return flag;
}

/// Posts another one of these, as often as it says.
struct successors {
  threadpool* pool;
  priority level;
  int left;
  std::atomic<int>* ran;
  void operator()() const {
    ++*ran;
    if (left > 0) pool->execute(level, successors{pool, level, left - 1, ran});
  }
};

}  // namespace

TEST_CASE("a task on its poster is inside the pool") {
  threadpool other(1);
  threadpool pool(one_place());
  for (const priority level : {priority::normal, priority::low}) {
    pool.execute(level, [] {});
    const std::uint64_t before = pool.stats().tasks;
    const auto looks = [&pool, level] {
      bool is_inside = false;
      pool.execute(level, [&] {
        is_inside = threadpool::current() == &pool;
        CHECK_THROWS_AS(pool.wait_idle(), std::system_error);
        CHECK_THROWS_AS(pool.stop(), std::system_error);
      });
      return is_inside;
    };
    CHECK(looks());
    CHECK(threadpool::current() == nullptr);
    CHECK(other.post([&] { return looks() && threadpool::current() == &other; }).get());
    CHECK(pool.stats().tasks == before + 2);
  }
  pool.configurepool(1);
}

TEST_CASE("a task on its poster may wait for a future, also in a callback of an event loop") {
  threadpool pool(one_place());
  async::event_loop loop;
  int got = 0;
  loop.post([&] {
    for (int i = 0; i < 4; ++i) pool.execute([] {});
    got = pool.post([&pool] { return pool.post([] { return 1; }).get(); }).get();
  });
  loop.iterate();
  CHECK(got == 1);
}

TEST_CASE("wait_idle() and stop() wait for a task on its poster") {
  threadpool pool(one_place());
  pool.execute([] {});
  async::event begun;
  std::atomic<bool> has_returned{false};
  std::atomic<bool> was_early{false};
  std::thread poster([&] {
    pool.execute([&] {
      begun.set();
      was_early = is_set_soon(has_returned);
    });
  });
  begun.wait();
  SUBCASE("wait_idle()") {
    pool.configurepool(1);
    pool.wait_idle();
  }
  SUBCASE("stop()") { pool.stop(); }
  SUBCASE("stop(discard)") { CHECK(pool.stop(async::discard) == 1); }
  has_returned = true;
  poster.join();
  CHECK(!was_early);
}

TEST_CASE("tasks inside a full pool queue their successors: no stack grows, none waits, none is rejected") {
  using overflow = threadpool_options::overflow;
  constexpr int many = 200'000;
  for (const priority level : {priority::normal, priority::high}) {
    std::atomic<int> ran{0};
    threadpool pool(one_place());
    pool.execute(level, [] {});
    pool.execute(level, successors{&pool, level, many, &ran});
    CHECK(ran == 1);
    pool.configurepool(1);
    pool.wait_idle();
    CHECK(ran == many + 1);
  }
  for (const overflow when_full : {overflow::block, overflow::reject}) {
    std::atomic<int> ran{0};
    threadpool pool(one_place(when_full));
    pool.execute(successors{&pool, priority::normal, many, &ran});
    pool.configurepool(1);
    pool.wait_idle();
    CHECK(ran == many + 1);
  }
}

TEST_CASE("a callback that stop() destroys may post any number of tasks to a full pool") {
  // Its destructor runs on the thread that stops the pool, inside the pool, after the workers have ended.
  struct poster {
    threadpool* pool;
    std::atomic<int>* ran;
    poster(threadpool* p, std::atomic<int>* r) noexcept : pool(p), ran(r) {}
    poster(poster&& other) noexcept : pool(std::exchange(other.pool, nullptr)), ran(other.ran) {}
    poster& operator=(poster&&) = delete;
    ~poster() {
      for (int i = 0; pool != nullptr && i < 100; ++i) {
        pool->execute([r = ran] { ++*r; });
      }
    }
    void operator()() const {}
  };
  std::atomic<int> ran{0};
  auto options = one_place();
  options.threads = 1;
  threadpool pool(std::move(options));
  static_cast<void>(pool.loop(0).deferred(std::chrono::hours(1), poster(&pool, &ran)));
  pool.stop();
  CHECK(ran == 100);
}

TEST_CASE("an exception of a task on its poster goes to on_unhandled, on that thread") {
  std::thread::id called_on;
  auto options = one_place();
  options.on_unhandled = [&called_on](std::exception_ptr) { called_on = std::this_thread::get_id(); };
  threadpool pool(std::move(options));
  pool.execute([] {});
  pool.execute([] { throw std::runtime_error("on the poster"); });
  CHECK(called_on == std::this_thread::get_id());
  pool.configurepool(1);
}

TEST_CASE("tasks within the limit and those beyond it take turns, also when each one taken is replaced at once") {
  async::detail::injector queue(2, threadpool_options::overflow::caller_runs);
  bool has_run = false;
  const auto put = [&queue](auto f) {
    async::task work(f);
    queue.put_from_inside(work);
  };
  for (int i = 0; i < 2; ++i) put([] {});
  put([&has_run] { has_run = true; });  // beyond the limit
  for (int i = 0; i < 2; ++i) {
    async::task next;
    REQUIRE(queue.take(next));
    next();
    put([] {});
  }
  CHECK(has_run);
}

TEST_CASE("tasks of a thread that may not wait stay in order when there is room again") {
  async::detail::injector queue(2, threadpool_options::overflow::block);
  std::vector<int> order;
  const auto put = [&queue, &order](int number) {
    async::task work([&order, number] { order.push_back(number); });
    CHECK(queue.put(work, false));
  };
  const auto run_one = [&queue] {
    async::task next;
    if (!queue.take(next)) return false;
    next();
    return true;
  };
  for (int i = 0; i < 5; ++i) put(i);
  CHECK(run_one());
  put(5);
  while (run_one()) {
  }
  std::erase_if(order, [](int number) { return number < 2; });  // these two were within the limit
  CHECK(order == std::vector{2, 3, 4, 5});
}
