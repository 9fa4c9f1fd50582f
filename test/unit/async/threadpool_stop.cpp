// SPDX-License-Identifier: BSL-1.0
//
// A pool that stops at a bad moment, and hooks that use the pool: work that does not wait is completed.
#include <doctest/doctest.h>

#include <atomic>        // for atomic
#include <chrono>        // for hours, milliseconds, steady_clock
#include <exception>     // for exception_ptr
#include <functional>    // for function
#include <future>        // for promise, future
#include <memory>        // for make_unique, shared_ptr
#include <system_error>  // for system_error
#include <thread>        // for thread, yield
#include <utility>       // for exchange, move

#include "async/detail/loop/loop_entry.hpp"
#include "async/detail/loop/loop_ref.hpp"
#include "async/parallel_for.hpp"
#include "async/task_group.hpp"
#include "async/threadpool.hpp"
#include "steps/asyncsteps.hpp"
#include "steps/spawn.hpp"
#include "support/gate.hpp"

using async::event_loop;
using async::threadpool;
using async::threadpool_options;

namespace {

/// A callback that posts the next one, until none is left.
struct chain {
  event_loop* loop;
  int left;
  std::atomic<int>* ran;
  void operator()() {
    ++*ran;
    if (--left > 0) loop->post(chain{loop, left, ran});
  }
};

void await(const std::atomic<int>& count, int wanted) {
  while (count < wanted) std::this_thread::yield();
}

/// Stops a pool of one with a flow that waits, whose cancel handler calls handle(pool).
template <class Handler>
void stop_with_flow(Handler handle) {
  threadpool pool(1);
  std::atomic<int> waits{0};
  steps::execute(pool, [&](steps::IAsyncSteps& asi) {
    asi.setCancel([&](steps::IAsyncSteps&) { handle(pool); });
    asi.waitExternal();
    ++waits;
  });
  await(waits, 1);
  pool.stop();
}

}  // namespace

TEST_CASE("a chain of callbacks posted while the worker falls asleep runs although the pool stops at once") {
  for (int i = 0; i < 150; ++i) {
    std::atomic<int> ran{0};
    threadpool pool(1);
    event_loop& loop = pool.loop(0);
    for (int looks = 0; pool.idlesize() == 0; ++looks) {
      if (looks > 1'000) std::this_thread::yield();  // on a busy machine
    }
    loop.post(chain{&loop, 5, &ran});
    pool.stop();
    REQUIRE(ran == 5);
  }
}

TEST_CASE("the callbacks of a loop of a paused pool run when it grows, also when it stops at once") {
  for (int i = 0; i < 50; ++i) {
    std::atomic<int> ran{0};
    threadpool pool(1);
    event_loop& loop = pool.loop(0);
    const std::function<void()> next = [&] {
      if (++ran < 3'000) loop.immediate(next);
    };
    loop.post(next);
    await(ran, 1);
    pool.configurepool(0);
    pool.wait_idle();
    pool.configurepool(1);
    pool.stop();
    REQUIRE(ran == 3'000);
  }
}

TEST_CASE("a paused pool that stops drives its loops for a task that waits for a callback") {
  std::promise<void> promise;
  std::future<void> future = promise.get_future();
  std::atomic<int> begun{0}, waits{0}, waited{0}, ended{0};
  threadpool_options options{.threads = 2};
  options.on_thread_stop = [&ended](std::size_t) { ++ended; };
  threadpool pool(std::move(options));
  event_loop &first = pool.loop(0), &second = pool.loop(1);
  const auto wait_at_second = [&] {
    ++begun;
    await(begun, 2);  // each worker has one of the tasks
    if (event_loop::current() != &second) return;
    ++waits;
    pool.wait(future);
    ++waited;
  };
  for (int i = 0; i < 2; ++i) pool.execute(wait_at_second);
  await(waits, 1);
  pool.configurepool(0);
  await(ended, 1);  // the other worker has gone
  first.post([&] { promise.set_value(); });
  pool.stop();
  CHECK(waited == 1);
}

TEST_CASE("the start hook of a worker can use the worker's loop, also when the pool ends at once") {
  std::atomic<int> failed{0}, ran{0};
  for (int i = 0; i < 100; ++i) {
    threadpool_options options{.threads = 2};
    options.on_thread_start = [&ran](std::size_t index) {
      event_loop& loop = threadpool::current()->loop(index);
      loop.post(chain{&loop, 3, &ran});
    };
    options.on_unhandled = [&failed](const std::exception_ptr&) { ++failed; };
    const threadpool pool(std::move(options));
  }
  CHECK(failed == 0);
  CHECK(ran == 100 * 2 * 3);
}

TEST_CASE("stop hooks can resize the pool at the same time") {
  std::atomic<int> there{0}, back{0};
  threadpool* known = nullptr;
  threadpool_options options{.threads = 2};
  options.on_thread_stop = [&](std::size_t) {
    if (++there > 2) return;
    await(there, 2);
    known->configurepool(0);
    ++back;
  };
  threadpool pool(std::move(options));
  known = &pool;
  pool.wait_idle();
  pool.configurepool(0);
  await(back, 2);
  pool.stop();
  CHECK(there == 2);
}

TEST_CASE("a stop hook can start the next thread of its worker") {
  std::atomic<int> ended{0}, ran{0};
  threadpool* known = nullptr;
  threadpool_options options{.threads = 1};
  options.on_thread_stop = [&](std::size_t) {
    if (++ended == 1) known->configurepool(1);
  };
  threadpool pool(std::move(options));
  known = &pool;
  pool.configurepool(0);
  await(ended, 1);
  pool.execute([&ran] { ++ran; });
  await(ran, 1);
  pool.stop();
  CHECK(ended == 2);
}

TEST_CASE("the start hook of a worker's next thread runs after the stop hook of the previous one") {
  std::atomic<int> in_use{0}, overlaps{0}, started{0};
  std::atomic<bool> stopping{false}, grown{false};
  threadpool_options options{.threads = 1};
  options.on_thread_start = [&](std::size_t) {
    if (++in_use != 1) ++overlaps;
    ++started;
  };
  options.on_thread_stop = [&](std::size_t) {
    stopping = true;
    while (!grown) std::this_thread::yield();
    for (int i = 0; i < 1'000; ++i) std::this_thread::yield();  // the next thread has time to begin
    --in_use;
  };
  threadpool pool(std::move(options));
  pool.wait_idle();
  pool.configurepool(0);
  while (!stopping) std::this_thread::yield();
  pool.configurepool(1);
  grown = true;
  await(started, 2);
  CHECK(overlaps == 0);
}

TEST_CASE("a start hook waits for a promise: none of the tasks that the worker's previous thread has left runs in it") {
  static thread_local bool is_in_hook = false;
  std::atomic<int> started = 0;
  std::atomic<int> stopped = 0;
  std::atomic<int> ran = 0;
  std::atomic<int> ran_in_hook = 0;
  threadpool_options options{.threads = 1};
  options.on_thread_start = [&](std::size_t) {
    if (++started != 2) return;
    is_in_hook = true;
    async::promise<int> promise;
    std::thread fulfils([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      promise.set_value(1);
    });
    static_cast<void>(promise.get_future().get());
    fulfils.join();
    is_in_hook = false;
  };
  options.on_thread_stop = [&](std::size_t) { ++stopped; };
  threadpool pool(std::move(options));
  pool.execute([&] {
    pool.configurepool(0);
    for (int i = 0; i != 10; ++i) {
      pool.execute([&] {
        ++ran;
        if (is_in_hook) ++ran_in_hook;
      });
    }
  });
  while (stopped != 1) std::this_thread::yield();
  pool.configurepool(1);
  pool.wait_idle();
  CHECK(ran == 10);
  CHECK(ran_in_hook == 0);
}

TEST_CASE("a stop hook is inside the pool: it cannot wait for the pool's end, and its posts are run") {
  std::atomic<int> refused{0}, ran{0};
  threadpool_options options{.threads = 1};
  options.on_thread_stop = [&](std::size_t) {
    threadpool* const pool = threadpool::current();
    REQUIRE(pool != nullptr);
    try {
      pool->stop();
    } catch (const std::system_error&) {
      ++refused;
    }
    pool->execute([&ran] { ++ran; });
  };
  threadpool pool(std::move(options));
  pool.stop();
  CHECK(refused == 1);
  CHECK(ran == 1);
}

TEST_CASE("a cancel handler on a thread outside can resize the pool whose worker is about to end") {
  std::atomic<int> busy{0}, go{0}, cancelled{0};
  threadpool pool(1);
  auto flow = std::make_unique<steps::AsyncSteps>(pool);
  flow->add([&](steps::IAsyncSteps& asi) {
    asi.setCancel([&](steps::IAsyncSteps&) {  // runs on the thread that destroys the flow, since the worker is busy
      pool.configurepool(0);
      ++go;
      for (int i = 0; i < 2'000; ++i) {  // meanwhile the worker ends
        pool.configurepool(0);
        std::this_thread::yield();
      }
      ++cancelled;
    });
    asi.waitExternal();
    pool.execute([&] {
      ++busy;
      await(go, 1);
    });
  });
  flow->execute();
  await(busy, 1);
  flow.reset();
  CHECK(cancelled == 1);
}

TEST_CASE("a task posted while stop() empties the loops is not run inside the post") {
  bool posting = false, inside = false;
  int ran = 0;
  threadpool pool(1);
  struct poster {
    explicit poster(std::function<void()> f) : post(std::move(f)) {}
    poster(poster&& other) noexcept : post(std::exchange(other.post, nullptr)) {}
    ~poster() {
      if (post) post();
    }
    std::function<void()> post;
  };
  pool.loop(0).deferred(std::chrono::hours(1), [p = poster([&] {
                                                  posting = true;
                                                  pool.execute([&] {
                                                    inside = posting;
                                                    ++ran;
                                                  });
                                                  posting = false;
                                                })] { static_cast<void>(p); });
  pool.stop();
  CHECK_FALSE(inside);
  CHECK(ran == 1);
}

TEST_CASE("what a cancel handler posts may wait, also when stop() is called in a callback") {
  int got = 0;
  event_loop loop;
  loop.post([&got] {
    stop_with_flow([&got](threadpool& pool) {
      pool.execute([&] {
        try {
          got = pool.post([] { return 7; }).get();
        } catch (const std::system_error&) {  // refused
        }
      });
    });
  });
  while (loop.iterate().have_work) {
  }
  CHECK(got == 7);
}

TEST_CASE("loops that cancel handlers and dropped tasks make do not belong to the group whose task calls stop()") {
  std::atomic<int> calls{0};
  threadpool other(2);
  const auto make_loop = [&] { async::parallel_for(other, 0, 100, [&calls](int) { ++calls; }); };
  std::function<void()> stop;
  SUBCASE("stop()") {
    stop = [&] { stop_with_flow([&](threadpool&) { make_loop(); }); };
  }
  SUBCASE("stop(discard)") {
    stop = [&] {
      threadpool paused(0);
      paused.execute([at_end = std::shared_ptr<void>(nullptr, [&](void*) { make_loop(); })] {});
      paused.stop(async::discard);
    };
  }
  async::task_group group(other);
  group.run([&] {
    group.cancel();
    stop();
  });
  group.wait();
  CHECK(calls == 100);
}

TEST_CASE("a thread that comes too late to a loop of a pool enters it, finds it closed, and wakes nobody") {
  async::detail::loop_ref ref;
  {
    threadpool pool(1);
    ref = async::detail::loop_ref(async::detail::core_of(pool.loop(0)));
  }
  const async::detail::loop_entry here(*ref.get());
  CHECK(here);
  CHECK(ref.get()->closing());
}

TEST_CASE("a second stop() starts no thread, although a thread outside is in a loop of the pool") {
  std::atomic<int> started{0};
  threadpool pool({.threads = 1, .on_thread_start = [&started](std::size_t) { ++started; }});
  pool.stop();
  testing::gate gate;
  std::thread outside([&] { async::parallel_for(pool, 0, 1, [&gate](int) { gate.pass(); }); });
  gate.wait_for_one();
  std::thread stopper([&pool] { pool.stop(); });
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  while (started == 1 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  gate.open();
  stopper.join();
  outside.join();
  CHECK(started == 1);
}
