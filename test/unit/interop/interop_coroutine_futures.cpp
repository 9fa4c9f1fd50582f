// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <coroutine>
#include <cstddef>
#include <future>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "async/async.hpp"
#include "async/threadpool.hpp"
#include "steps/asynctool.hpp"
#include "steps/interop/coroutine.hpp"
#include "support/alloc_counter.hpp"
#include "support/coroutines.hpp"
#include "support/flows.hpp"
#include "support/live_count.hpp"
#include "support/work_for.hpp"

// when_ready(): futures of this library notify the coroutines that wait for them, others are polled.

using steps::IAsyncSteps;
using steps::interop::co;
using steps::interop::start;
using steps::interop::task;
using steps::interop::when_ready;
using testing::bench;
using testing::lines;
using testing::other_coroutine;
using namespace std::chrono_literals;

namespace {

struct local : testing::live_count<local> {};

template <class Future>
bool is_ready(const Future& f) {
  return f.wait_for(0s) == std::future_status::ready;
}

template <class Future>
auto wait_for(async::event_loop& loop, Future f) -> task<decltype(f.get())> {
  co_return co_await when_ready(loop, std::move(f));
}

other_coroutine wait_outside(async::event_loop& loop, std::future<std::shared_ptr<local>> f, int& ends) {
  const local mine;
  try {
    co_await when_ready(loop, std::move(f));
    ++ends;
  } catch (const std::future_error&) {
    ends += 100;
  }
}

/// Runs the loop, whose time stands still, so that timers do not fire, until the wait has ended; false if it does not.
template <class T>
bool ends_timeless(bench& b, const std::future<T>& end) {
  for (const auto limit = std::chrono::steady_clock::now() + 30s; std::chrono::steady_clock::now() < limit;) {
    b.drain();
    if (is_ready(end)) return true;
    std::this_thread::yield();
  }
  return false;
}

/// A call that ends after its future has been looked at and not been ready.
template <class F>
auto after_a_look(bench& b, F result) {
  return [&b, result] {
    std::promise<void> looked;
    b.loop.post([&b, &looked] { b.loop.post([&looked] { looked.set_value(); }); });
    looked.get_future().wait();
    return result();
  };
}

}  // namespace

TEST_CASE("when_ready() passes a future's value or exception, deferred ones too, and refuses an empty one") {
  bench b;
  std::promise<std::string> promise;
  std::future<std::string> end = start(wait_for(b.loop, promise.get_future()));
  b.pass(30ms);
  CHECK_FALSE(is_ready(end));
  promise.set_value("late");
  b.pass(11ms);
  CHECK(end.get() == "late");

  end = start(wait_for(b.loop, std::async(std::launch::deferred, [] { return std::string("lazy"); })));
  b.drain();
  CHECK(end.get() == "lazy");

  std::promise<std::string> broken;
  broken.set_exception(std::make_exception_ptr(std::runtime_error("broken")));
  end = start(wait_for(b.loop, broken.get_future()));
  b.drain();
  CHECK_THROWS_AS(end.get(), std::runtime_error);

  CHECK_THROWS_AS(start(wait_for(b.loop, std::future<std::string>())).get(), std::future_error);
}

TEST_CASE("a future of this library notifies the coroutine, which does not poll") {
  async::threadpool pool(1);
  bench b;
  SUBCASE("a call of a pool") {
    const auto text = [] { return std::string("post"); };
    std::future<std::string> end = start(wait_for(b.loop, std::future<std::string>(pool.post(after_a_look(b, text)))));
    REQUIRE(ends_timeless(b, end));
    CHECK(end.get() == "post");
  }
  SUBCASE("a call that throws") {
    const auto thrower = []() -> int { throw std::runtime_error("thrown"); };
    std::future<int> end = start(wait_for(b.loop, std::future<int>(pool.post(after_a_look(b, thrower)))));
    REQUIRE(ends_timeless(b, end));
    CHECK_THROWS_WITH_AS(end.get(), "thrown", std::runtime_error);
  }
#if ASYNCSTEPS_CALL_STATE != 0  // else such a future does not tell, and the coroutine blocks its loop
  SUBCASE("async::async() of a reference") {
    int value = 0;
    const auto refer = [&value]() -> int& { return value; };
    const auto wait = [&value](async::event_loop& loop, std::future<int&> f) -> task<bool> {
      co_return &co_await when_ready(loop, std::move(f)) == &value;
    };
    std::future<bool> end =
        start(wait(b.loop, async::async([&b, refer]() -> int& { return after_a_look(b, [] {})(), refer(); })));
    REQUIRE(ends_timeless(b, end));
    CHECK(end.get());
  }
#endif
  SUBCASE("a flow of a pool") {
    const auto three = [&b](IAsyncSteps& asi) {
      after_a_look(b, [] {})();
      asi.success(3);
    };
    std::future<int> end = start(wait_for(b.loop, steps::post<int>(pool, three)));
    REQUIRE(ends_timeless(b, end));
    CHECK(end.get() == 3);
    end = start(wait_for(b.loop, std::future<int>(steps::post<int>(pool, three))));
    REQUIRE(ends_timeless(b, end));
    CHECK(end.get() == 3);
  }
  SUBCASE("a coroutine") {
    const auto other = [](async::threadpool& p, bench& at) -> task<int> {
      co_await steps::interop::schedule(p);
      after_a_look(at, [] {})();
      co_return 4;
    };
    std::future<int> end = start(wait_for(b.loop, start(other(pool, b))));
    REQUIRE(ends_timeless(b, end));
    CHECK(end.get() == 4);
    end = start(wait_for(b.loop, std::future<int>(start(other(pool, b)))));
    REQUIRE(ends_timeless(b, end));
    CHECK(end.get() == 4);
  }
  SUBCASE("in a step") {
    steps::AsyncSteps flow{b.loop};
    flow.add(co([&](IAsyncSteps& asi) -> task<int> {
      std::future<int> later = pool.post(after_a_look(b, [] { return 5; }));
      co_return co_await when_ready(asi.tool(), std::move(later));
    }));
    std::future<int> end = flow.promise<int>();
    REQUIRE(ends_timeless(b, end));
    CHECK(end.get() == 5);
  }
}

TEST_CASE("a flow notifies a coroutine of the same loop of its end and of its cancel") {
  bench b;
  steps::AsyncSteps ends{b.loop};
  steps::AsyncSteps is_cancelled{b.loop};
  steps::completion<> done;
  ends.add([&](IAsyncSteps& asi) { done = asi.completion<>(); });
  is_cancelled.add([](IAsyncSteps& asi) { asi.waitExternal(); });
  std::future<void> first = start(wait_for(b.loop, ends.promise<void>()));
  std::future<void> second = start(wait_for(b.loop, is_cancelled.promise<void>()));
  b.drain();
  CHECK_FALSE(is_ready(first));
  CHECK(done.success());
  b.drain();
  REQUIRE(is_ready(first));
  CHECK_NOTHROW(first.get());
  is_cancelled.cancel();
  b.drain();
  REQUIRE(is_ready(second));
  CHECK_THROWS_AS(second.get(), std::future_error);
}

TEST_CASE("a pool that stops cancels its flows, and their broken promises resume the coroutines that wait") {
  async::threadpool pool(1);
  bench b;
  steps::AsyncSteps flow{pool};
  flow.add([](IAsyncSteps& asi) { asi.waitExternal(); });
  std::future<void> end = start(wait_for(b.loop, flow.promise<void>()));
  b.drain();
  CHECK_FALSE(is_ready(end));
  pool.stop();
  b.drain();
  REQUIRE(is_ready(end));
  CHECK_THROWS_AS(end.get(), std::future_error);
}

TEST_CASE("other futures are polled seldom, and noticed soon") {
  bench b;
  std::promise<int> promise;
  std::future<int> end = start(wait_for(b.loop, promise.get_future()));
  CHECK(b.turns_in(1s) < 250);
  promise.set_value(7);
  b.pass(12ms);
  REQUIRE(is_ready(end));
  CHECK(end.get() == 7);
}

TEST_CASE("a pool of one thread runs one task at a time while a coroutine waits for a std::future of a call") {
  async::threadpool pool(1), other(1);
  async::event gate;
  std::future<int> call = other.post([&gate] {
    gate.wait();
    return 7;
  });
  std::future<int> end = start(wait_for(pool.loop(0), std::move(call)));
  std::atomic<int> inside{0}, most{0};
  for (int i = 0; i < 500; ++i) {
    pool.execute([&] {
      most = std::max(most.load(), ++inside);
      testing::work_for(200us);
      --inside;
    });
  }
  pool.wait_idle();
  CHECK(most.load() == 1);
  gate.set();
  CHECK(end.get() == 7);
}

TEST_CASE("a coroutine that is destroyed while it waits drops the future, and leaves nothing in the loop") {
  bench b;
  int ends = 0;
  std::promise<std::shared_ptr<local>> promise;
  const other_coroutine c = wait_outside(b.loop, promise.get_future(), ends);
  SUBCASE("before the first look") {}
  SUBCASE("after it") { b.drain(); }
  SUBCASE("after many") { b.pass(30ms); }
  c.handle.destroy();
  CHECK_FALSE(b.loop.iterate().have_work);
  auto value = std::make_shared<local>();
  promise.set_value(value);
  {
    const std::promise<std::shared_ptr<local>> gone(std::move(promise));
  }
  CHECK(value.use_count() == 1);  // no other owner of the shared state is left
  b.pass(20ms);
  CHECK(ends == 0);
}

TEST_CASE("a coroutine that is destroyed on another thread while it waits: the loop drops the future when it looks") {
  bench b;
  int ends = 0;
  std::promise<std::shared_ptr<local>> promise;
  const other_coroutine c = wait_outside(b.loop, promise.get_future(), ends);
  b.pass(5ms);
  std::thread([&] { c.handle.destroy(); }).join();
  b.pass(10ms);
  CHECK_FALSE(b.loop.iterate().have_work);
  auto value = std::make_shared<local>();
  promise.set_value(value);
  {
    const std::promise<std::shared_ptr<local>> gone(std::move(promise));
  }
  CHECK(value.use_count() == 1);
  CHECK(ends == 0);
}

TEST_CASE("a wait that another thread begins resumes on the loop") {
  async::threadpool pool(1);
  async::threadpool other(1);
  steps::AsyncTool tool;
  const auto work = [&](async::event_loop& loop) -> task<bool> {
    co_await steps::interop::schedule(pool);
    bool here = true;
    for (int i = 0; i < 200; ++i) {
      std::future<int> later = other.post([i] { return i; });
      here = here && i == co_await when_ready(loop, std::move(later)) && loop.is_same_thread();
      if (i % 3 == 0) co_await steps::interop::schedule(pool);
    }
    co_return here;
  };
  CHECK(start(work(tool)).get());
}

TEST_CASE("a destroyed loop ends the waits for futures with a broken promise; promises may be kept after that") {
  auto pool = std::make_unique<async::threadpool>(0);
  auto loop = std::make_unique<async::event_loop>();
  int ends = 0;
  std::promise<std::shared_ptr<local>> foreign;
  const auto make = [] { return std::make_shared<local>(); };
  const auto wait = [&](auto future) { return wait_outside(*loop, std::move(future), ends); };
  std::vector<other_coroutine> all;
  all.push_back(wait(pool->post(make)));
  all.push_back(wait(foreign.get_future()));
  loop->iterate();
  all.push_back(wait(pool->post(make)));  // not looked at
  std::thread([&] { all.push_back(wait(pool->post(make))); }).join();
  SUBCASE("before a promise is kept") {}
  SUBCASE("when it has been told, and has not looked yet") { pool->stop(); }
  loop.reset();
  CHECK(ends == 400);
  pool.reset();  // which makes the calls
  foreign.set_value(make());
  CHECK(ends == 400);
  for (const other_coroutine& c : all) c.handle.destroy();
  {
    const std::promise<std::shared_ptr<local>> gone(std::move(foreign));
  }
  CHECK(local::live() == 0);
}

TEST_CASE("a future that is made ready while its wait is cancelled, times out, or is destroyed with its flow") {
  async::threadpool pool(1);
  for (int i = 0; i < 3000; ++i) {
    bench b;
    int results = 0;
    {
      steps::AsyncSteps flow{b.loop};
      flow.add(co([&](IAsyncSteps& asi) -> task<> {
                 const local mine;
                 if (i % 3 == 0) asi.setTimeout(1ms);
                 std::future<std::shared_ptr<local>> later = pool.post([] { return std::make_shared<local>(); });
                 static_cast<void>(co_await when_ready(asi.tool(), std::move(later)));
                 ++results;
               }),
               [](IAsyncSteps& asi, steps::ErrorCode) { asi.success(); });
      flow.execute();
      for (int turns = i % 7; turns != 0; --turns) b.drain();
      if (i % 3 == 0) b.pass(2ms);
      if (i % 3 == 1) flow.cancel();
      if (i % 3 != 2) CHECK(static_cast<bool>(flow));
    }
    CHECK(results <= 1);
    CHECK(b.unhandled == lines{});
  }
  pool.wait_idle();
  pool.stop();
  CHECK(local::live() == 0);
}

namespace {

/// Throws at the move after which it cannot be moved again.
struct fragile {
  explicit fragile(int m) noexcept : moves_left(m) {}
  fragile(fragile&& other) : moves_left(other.moves_left - 1) {
    if (moves_left == 0) throw std::runtime_error("not moved");
  }
  int moves_left;
};

task<fragile> make_fragile(int moves) { co_return fragile(moves); }

}  // namespace

TEST_CASE("the constructor of a coroutine's value throws, and the future of start() is ready with the exception") {
  int failed = 0;
  for (int moves = 1; moves < 12; ++moves) {
    async::future<fragile> result = start(make_fragile(moves));
    REQUIRE(is_ready(result));
    try {
      result.get();
    } catch (const std::runtime_error&) {
      ++failed;
    }
  }
  CHECK(failed >= 3);
  CHECK(failed < 11);
}

TEST_CASE("every allocation fails once: the wait throws std::bad_alloc or ends, and nothing is left") {
  std::size_t failed = 0;
  for (std::size_t k = 0;; ++k) {
    static_cast<void>(async::threadpool::trim());
    bool injected = false;
    std::thread([&, k] {  // whose cache of blocks is empty
      bench b;
      int ends = 0;
      std::coroutine_handle<> waiting;
      std::promise<std::shared_ptr<local>> promise;
      std::future<std::shared_ptr<local>> future = promise.get_future();
      const auto work = [](async::event_loop& loop, std::future<std::shared_ptr<local>> f, int& at) -> other_coroutine {
        try {
          const std::shared_ptr<local> got = co_await when_ready(loop, std::move(f));
          at = 1;
        } catch (const std::bad_alloc&) {
          at = 2;
        }
      };
      {
        testing::fail_alloc failing(k);
        try {
          waiting = work(b.loop, std::move(future), ends).handle;
          b.drain();
        } catch (const std::bad_alloc&) {  // of the frame
          ends = 3;
        }
        injected = failing.has_failed();
      }
      promise.set_value(std::make_shared<local>());
      b.pass(12ms);
      CHECK(ends == (injected ? ends : 1));
      CHECK(ends != 0);
      if (ends == 2) ++failed;
      if (waiting) waiting.destroy();
    })
        .join();
    CHECK(local::live() == 0);
    if (!injected) break;
    REQUIRE(k < 100);
  }
  CHECK(failed > 0);
}

TEST_CASE("thousands of waits for futures of std::promise that are given up keep no memory") {
  bench b;
  int ends = 0;
  const auto run = [&](int rounds) {
    for (int i = 0; i < rounds; ++i) {
      std::promise<std::shared_ptr<local>> never;
      const other_coroutine c = wait_outside(b.loop, never.get_future(), ends);
      b.drain();
      c.handle.destroy();
    }
  };
  run(10);
  const testing::alloc_counter counter;
  run(10'000);
  CHECK(counter.live() < 10);
  CHECK(ends == 0);
}
