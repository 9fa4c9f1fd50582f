// SPDX-License-Identifier: BSL-1.0
//
// blocking_section: a task that blocks, and a worker in its place.
#include "async/blocking_section.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "async/blocking_pool.hpp"
#include "async/task_group.hpp"
#include "async/threadpool.hpp"
#include "steps/asyncsteps.hpp"
#include "steps/spawn.hpp"
#include "support/gate.hpp"
#include "support/held_workers.hpp"
#include "support/meeting.hpp"
#include "support/wait_while.hpp"
#if defined(__linux__)
#include <unistd.h>

#include "support/thread_failure.hpp"
#include "support/thread_sleep.hpp"
#endif

using async::blocking_section;
using async::threadpool;
using testing::meeting;
using testing::patience;
using namespace std::chrono_literals;

namespace {

/// Tasks that tell the largest number of them that ran at a time.
class crowd {
 public:
  void visit(std::chrono::microseconds stay) {
    const std::size_t now = ++inside_;
    std::size_t most = most_;
    while (most < now && !most_.compare_exchange_weak(most, now)) {
    }
    std::this_thread::sleep_for(stay);
    --inside_;
  }
  std::size_t most() const { return most_; }

 private:
  std::atomic<std::size_t> inside_{0};
  std::atomic<std::size_t> most_{0};
};

/// The largest number of tasks that run at a time, once that is at most `limit`: a worker that is about to exit may run
/// one more task before.
std::size_t settled_crowd(threadpool& pool, std::size_t limit) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (;;) {
    constexpr std::size_t count = 30;
    crowd tasks;
    std::atomic<std::size_t> done{0};
    for (std::size_t i = 0; i < count; ++i) {
      pool.execute([&tasks, &done] {
        tasks.visit(200us);
        ++done;
      });
    }
    while (done != count) std::this_thread::yield();
    if (tasks.most() <= limit || std::chrono::steady_clock::now() > deadline) return tasks.most();
  }
}

}  // namespace

TEST_CASE("blocking_section: tasks posted before and during a section run while it blocks the only worker") {
  threadpool pool(1);
  std::promise<void> first, second;
  testing::gate gate;
  auto blocks = pool.post([&] {
    gate.pass();
    const blocking_section here;
    return first.get_future().wait_for(patience) == std::future_status::ready &&
           second.get_future().wait_for(patience) == std::future_status::ready;
  });
  gate.wait_for_one();
  pool.execute([&] { first.set_value(); });
  gate.open();
  pool.execute([&] { second.set_value(); });
  CHECK(blocks.get());
  pool.wait_idle();
}

TEST_CASE("blocking_section: as many tasks as there are sections may wait for each other, on any number of workers") {
  for (const std::size_t workers : {1U, 2U, 5U}) {
    constexpr std::size_t party = 40;
    meeting all(party);
    threadpool pool(workers);
    for (std::size_t i = 0; i < 2 * party; ++i) {
      pool.execute([&] {
        const blocking_section here;
        all.come();
      });
    }
    pool.wait_idle();
    CHECK(all.met() == 2);
    CHECK(pool.size() == workers);
  }
}

TEST_CASE("blocking_section: flows, timers and completions go on beside a step that blocks") {
  threadpool pool(1);
  std::promise<int> answer;
  auto blocks = steps::post(pool, [&](steps::IAsyncSteps& asi) {
    const blocking_section here;
    auto result = answer.get_future();
    const bool came = result.wait_for(patience) == std::future_status::ready;
    asi.add([n = came ? result.get() : 0](steps::IAsyncSteps& inner) { inner.success(n); });
  });
  auto waits = steps::post<void>(pool, [&](steps::IAsyncSteps& asi) {
    asi.add([](steps::IAsyncSteps& timer) { timer.setTimeout(5ms); },
            [](steps::IAsyncSteps& timer, steps::ErrorCode code) {
              if (code == steps::errors::Timeout) timer.success();
            });
    asi.add([&](steps::IAsyncSteps&) { answer.set_value(42); });
  });
  waits.get();
  blocks.get();
}

TEST_CASE("blocking_section: outside of sections no more tasks run at a time than the pool has threads") {
  constexpr std::size_t workers = 2;
  threadpool pool(workers);
  for (int round = 0; round < 20; ++round) {
    {
      meeting all(8);
      for (int i = 0; i < 8; ++i) {
        pool.execute([&] {
          const blocking_section here;
          all.come();
        });
      }
      pool.wait_idle();
      CHECK(all.met() == 1);
    }
    CHECK(settled_crowd(pool, workers) <= workers);
  }
}

TEST_CASE(
    "blocking_section: sections may end in any order; no more tasks run beside the others than there are threads") {
  for (const std::size_t workers : {1U, 2U}) {
    threadpool pool(workers);
    std::promise<void> ends[8];
    std::atomic<std::size_t> inside{0};
    for (std::size_t i = 0; i < 8; ++i) {
      pool.execute([&inside, until = ends[i].get_future().share()] {
        const blocking_section here;
        ++inside;
        until.wait();
      });
      testing::wait_while(inside, i);
    }
    for (std::size_t i = 0; i < 6; ++i) ends[i].set_value();
    CHECK(settled_crowd(pool, workers) <= workers);
    for (std::size_t i = 6; i < 8; ++i) ends[i].set_value();
    pool.wait_idle();
  }
}

TEST_CASE("blocking_section: stop() of a paused pool runs the task that a section waits for") {
  threadpool pool(1);
  std::promise<void> done;
  testing::gate gate;
  auto blocks = pool.post([&] {
    const blocking_section here;
    gate.open();
    gate.pass();
    return done.get_future().wait_for(patience) == std::future_status::ready;
  });
  gate.wait_for_one();
  pool.configurepool(0);
  pool.execute([&] { done.set_value(); });
  pool.stop();
  CHECK(blocks.get());
}

TEST_CASE("blocking_section: sections in hooks for the start of threads have no worker") {
  std::atomic<std::size_t> started{0};
  {
    threadpool pool({.threads = 2, .on_thread_start = [&started](std::size_t) {
                       const blocking_section here;
                       ++started;
                     }});
    pool.post([] {}).get();
    pool.wait_idle();
  }
  CHECK(started == 2);
}

TEST_CASE("blocking_section: sections in hooks for the end of threads have no worker, also a stand-in's") {
  std::atomic<std::size_t> started{0}, ended{0};
  threadpool pool({.threads = 1,
                   .on_thread_start = [&started](std::size_t) { ++started; },
                   .on_thread_stop =
                       [&ended](std::size_t) {
                         const blocking_section here;
                         ++ended;
                       }});
  async::promise<void> promise;
  async::future<void> waits = pool.post([awaited = promise.get_future()]() mutable { awaited.get(); });
  pool.post([] {}).get();  // by a stand-in
  testing::wait_while(ended, std::size_t{0});
  promise.set_value();
  waits.get();
  pool.stop();
  CHECK(started == 2);
  CHECK(ended == 2);
}

TEST_CASE("blocking_section: a nested one does nothing more, and those of one task may follow each other") {
  threadpool pool(1);
  crowd others;
  pool.post([&] {
        for (int i = 0; i < 3; ++i) {
          const blocking_section outer;
          {
            const blocking_section nested;
          }
          std::promise<void> done;
          for (int k = 0; k < 6; ++k) pool.execute([&] { others.visit(300us); });
          pool.execute([&] { done.set_value(); });
          done.get_future().wait();
        }
      })
      .get();
  CHECK(others.most() == 1);
}

TEST_CASE(
    "blocking_section: a section around waits of the library, and of tasks that sleep in waits, deadlocks nothing") {
  threadpool pool(1);
  std::promise<int> last;
  auto blocks = pool.post([&] {
    const blocking_section here;
    async::task_group group(pool);
    int sum = 0;
    group.run([&] { sum = 1; });
    group.wait();
    return sum + last.get_future().get();
  });
  // The worker in its place sleeps in a wait for the task behind, for which a stand-in comes.
  auto waits = pool.post([&] {
    auto behind = pool.post([] { return 1; });
    return behind.get();
  });
  auto sleeps = pool.post([&, shared = std::make_shared<std::promise<void>>()] {
    pool.execute([shared] { shared->set_value(); });
    pool.wait(shared->get_future());
    pool.execute([&last] { last.set_value(41); });
  });
  CHECK(waits.get() == 1);
  sleeps.get();
  CHECK(blocks.get() == 42);
}

TEST_CASE("blocking_section: one in a task that has polled before lasts until its own end, whatever waits inside") {
  async::blocking_pool other;
  threadpool pool(1);
  async::promise<void> never;
  pool.loop(0).deferred(1h, [] {});  // an armed timer: a poll lets another worker look after it
  const bool is_ready = pool.post([&] {
                              static_cast<void>(never.get_future().wait_for(0s));
                              const blocking_section here;
                              other.post([] { std::this_thread::sleep_for(5ms); }).get();
                              const auto done = std::make_shared<std::promise<void>>();
                              pool.execute([done] { done->set_value(); });
                              return done->get_future().wait_for(patience) == std::future_status::ready;
                            })
                            .get();
  CHECK(is_ready);
}

TEST_CASE("blocking_section: does nothing on other threads") {
  const blocking_section here;
  threadpool pool(1);
  async::blocking_pool calls({.max_threads = 2});
  calls
      .post([] {
        const blocking_section nothing;
        return threadpool::current() == nullptr;
      })
      .get();
  CHECK(pool.post([] { return 7; }).get() == 7);
}

TEST_CASE("blocking_section: the pool may be resized, paused and stopped while a task is in one") {
  constexpr std::size_t rounds = 30;
  for (std::size_t round = 0; round < rounds; ++round) {
    std::optional<threadpool> pool(2);
    std::atomic<std::size_t> ran{0};
    testing::gate gate;
    auto blocks = pool->post([&] {
      const blocking_section here;
      gate.pass();
      ++ran;
    });
    gate.wait_for_one();
    for (int i = 0; i < 10; ++i) pool->execute([&ran] { ++ran; });
    pool->configurepool(round % 4);
    CHECK(pool->size() == round % 4);
    for (int i = 0; i < 10; ++i) pool->execute([&ran] { ++ran; });
    if (round % 3 == 0) pool->configurepool(1);
    gate.open();
    pool.reset();
    blocks.get();
    CHECK(ran == 21);
  }
}

TEST_CASE("blocking_section: in a task of a surplus worker, no more tasks run beside it than the pool has threads") {
  static thread_local std::size_t index = 0;
  for (const bool is_paused_inside : {false, true}) {
    std::atomic<int> arrived{0};
    testing::gate shrinks, blocks;
    threadpool pool({.threads = 3, .on_thread_start = [](std::size_t i) { index = i; }});
    for (int i = 0; i < 3; ++i) {
      pool.execute([&] {
        for (int now = ++arrived; now < 3; now = arrived) testing::wait_while(arrived, now);
        if (index != 2) return;
        if (!is_paused_inside) shrinks.pass();
        const blocking_section here;
        blocks.pass();
      });
    }
    if (is_paused_inside) {
      blocks.wait_for_one();
      pool.configurepool(0);
      pool.configurepool(1);
    } else {
      shrinks.wait_for_one();
      pool.configurepool(1);
      shrinks.open();
      blocks.wait_for_one();
    }
    CHECK(settled_crowd(pool, 1) == 1);
    blocks.open();
  }
}

TEST_CASE("blocking_section: a section may begin while the pool stops, and in a task that a section's worker runs") {
  for (int round = 0; round < 20; ++round) {
    meeting pair(2);
    {
      threadpool pool(1);
      for (int i = 0; i < 4; ++i) {
        pool.execute([&] {
          const blocking_section here;
          pair.come();
        });
      }
    }  // stops
    CHECK(pair.met() == 2);
  }
}

#if defined(__linux__)
TEST_CASE("blocking_section: a timer fires although the worker that has armed it ends at once, and the other sleeps") {
  for (int round = 0; round < 5; ++round) {
    threadpool pool(1);
    std::promise<void> is_in_step;
    std::promise<pid_t> section_is_over;
    pool.execute([&] {
      {
        const blocking_section here;  // the pool has two workers now
        is_in_step.get_future().wait();
      }
      section_is_over.set_value(gettid());  // one of them ends when it is free
    });
    auto flow = steps::post(pool, [&](steps::IAsyncSteps& asi) {
      asi.relinquish();  // the next step runs in a turn of the loop
      asi.add(
          [&](steps::IAsyncSteps& timer) {
            is_in_step.set_value();
            testing::wait_for_sleep_of(section_is_over.get_future().get());
            std::this_thread::sleep_for(20ms);  // until it does not wake by itself any more, to look at this loop
            timer.setTimeout(5ms);
            timer.waitExternal();
          },
          [](steps::IAsyncSteps& timer, steps::ErrorCode) { timer.success(); });
    });
    const bool is_ready = testing::is_ready_in_time(flow);
    if (!is_ready) pool.execute([] {});  // wakes the other worker
    REQUIRE(is_ready);
  }
}

TEST_CASE("blocking_section: goes on without a worker if no thread can be started") {
  threadpool pool(1);
  pool.post([] {}).get();
  {
    testing::fail_thread failing(0);
    CHECK(pool.post([] {
                const blocking_section here;
                return 1;
              })
              .get() == 1);
  }
  CHECK(pool.size() == 1);
  {
    testing::gate gate;
    auto blocks = pool.post([&] {
      const blocking_section here;
      gate.open();
      gate.pass();
      testing::fail_thread failing(0);
      CHECK_THROWS_AS(pool.configurepool(3), std::system_error);
      CHECK(pool.size() == 1);
    });
    blocks.get();
  }
  std::promise<void> done;
  auto blocks = pool.post([&] {
    const blocking_section here;
    return done.get_future().wait_for(patience) == std::future_status::ready;
  });
  pool.execute([&] { done.set_value(); });
  CHECK(blocks.get());
}
#endif
