// SPDX-License-Identifier: BSL-1.0
//
// Tasks that wait for a queue, a group, or for a limited time for a future, in a pool whose only worker they take.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>

#include "async/bounded_queue.hpp"
#include "async/event.hpp"
#include "async/future.hpp"
#include "async/queue.hpp"
#include "async/task_group.hpp"
#include "async/threadpool.hpp"
#include "support/scale.hpp"
#include "support/wait_while.hpp"

using namespace std::chrono_literals;

TEST_CASE_TEMPLATE("in a task, calls of queues that wait let the pool's tasks and loops go on", Queue,
                   async::queue<int>, async::bounded_queue<int>) {
  async::threadpool pool(1);
  constexpr bool is_bounded = std::is_same_v<Queue, async::bounded_queue<int>>;
  const auto q = std::make_unique<Queue>(1);  // room for one element, at least
  int got = 0;
  pool.post([&] {
        int n = 0;
        pool.execute([&q] { q->enqueue(1); });
        CHECK(q->blocking_dequeue(n));
        got += n;
        pool.execute([&q] { q->enqueue(2); });
        CHECK(q->dequeue_for(n, 1h));
        got += n;
        pool.loop(0).post([&q] { q->enqueue(3); });
        CHECK(q->blocking_dequeue(n));
        got += n;
        pool.loop(0).deferred(1ms, [&q] { q->enqueue(4); });
        CHECK(q->dequeue_for(n, 1h));
        got += n;
        CHECK_FALSE(q->dequeue_for(n, 1ms));
        if constexpr (is_bounded) {
          q->enqueue(5);
          pool.execute([&q] { q->dequeue(); });
          CHECK(q->blocking_enqueue(6));
          pool.loop(0).post([&q] { q->dequeue(); });
          CHECK(q->enqueue_for(1h, 7));
        }
      })
      .get();
  CHECK(got == 10);
}

TEST_CASE("in a task, a timed wait for a future lets the pool's loops go on") {
  async::threadpool pool(1);
  async::promise<int> p;
  const int got = pool.post([&] {
                        async::future<int> f = p.get_future();
                        pool.loop(0).deferred(1ms, [&p] { p.set_value(3); });
                        return f.wait_for(1h) == std::future_status::ready ? f.get() : 0;
                      })
                      .get();
  CHECK(got == 3);
}

TEST_CASE("in a task, wait() of a group lets the pool's loops go on between the group's tasks") {
  constexpr int count = 100;
  async::threadpool pool(1);
  std::atomic<int> done{0}, done_before{-1};
  pool.post([&] {
        async::task_group group(pool);
        for (int i = 0; i < count; ++i) {
          group.run([&] {
            if (++done == 10) pool.loop(0).post([&] { done_before = done.load(); });
          });
        }
        group.wait();
      })
      .get();
  testing::wait_while(done_before, -1);
  CHECK(done_before < count);
}

TEST_CASE("in a task, wait() of a shared future that another thread makes ready lets the pool's tasks go on") {
  async::threadpool pool(1);
  std::promise<int> standard;
  async::promise<int> own;
  const std::shared_future<int> first = standard.get_future().share();
  const async::shared_future<int> second = own.get_future().share();
  const int sum = pool.post([&] {
                        pool.execute([&standard] { standard.set_value(1); });
                        pool.execute([&own] { own.set_value(20); });
                        return pool.wait(first) + pool.wait(second);
                      })
                      .get();
  CHECK(sum == 21);
  CHECK(pool.wait(first) + pool.wait(second) == 21);
}

TEST_CASE("start hooks that poll do not count as waits of the tasks that their workers run then") {
  async::promise<void> go;
  const async::shared_future<void> gone = go.get_future().share();
  async::threadpool pool({.threads = 2, .on_thread_start = [gone](std::size_t) {
                            while (gone.wait_for(1ms) != std::future_status::ready) continue;
                          }});
  std::this_thread::sleep_for(20ms);  // both hooks poll
  go.set_value();
  std::promise<void> end, begun;
  pool.execute([&] {
    begun.set_value();
    end.get_future().wait();
  });
  begun.get_future().wait();
  async::promise<void> promise;
  pool.execute([awaited = promise.get_future()]() mutable { awaited.get(); });
  std::atomic<int> now{0}, most{0}, done{0};
  for (int i = 0; i != 4; ++i) {
    pool.execute([&] {
      if (++now > most) most = now.load();
      std::this_thread::sleep_for(50ms);
      --now;
      ++done;
    });
  }
  while (done != 4) std::this_thread::yield();
  promise.set_value();
  end.set_value();
  pool.wait_idle();
  CHECK(most == 1);  // by the stand-in of the one that waits
}

TEST_CASE("in a task, wait() of a std::shared_future of a call is no poll: other tasks, as they end, only look at it") {
  constexpr int tasks = 20'000;
  async::threadpool other(1);
  for (std::size_t round = 0; round < testing::rounds(20); ++round) {
    const std::size_t workers = 2 + round % 2;
    std::atomic<std::size_t> started{0};
    std::size_t stand_ins = 0;
    {
      async::threadpool_options options;
      options.threads = workers;
      options.on_thread_start = [&started](std::size_t) { ++started; };
      async::threadpool pool(std::move(options));
      async::event gate;
      std::atomic<bool> waits{false};
      const std::shared_future<void> call = other.post([&gate] { gate.wait(); });
      async::future<void> waiting = pool.post([&pool, &waits, call] {
        waits = true;
        pool.wait(call);
      });
      testing::wait_while(waits, false);
      std::atomic<int> ran{0};
      for (int i = 0; i < tasks; ++i) pool.execute([&ran] { ++ran; });
      while (ran != tasks) std::this_thread::yield();
      gate.set();
      waiting.get();
      pool.wait_idle();
      stand_ins = pool.stats().stand_ins;
    }
    CHECK(started.load() == workers + stand_ins);  // no others, which would take the places of threads that poll
  }
}
