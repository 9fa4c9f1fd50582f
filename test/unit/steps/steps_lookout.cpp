// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "async/blocking_section.hpp"
#include "async/bounded_queue.hpp"
#include "async/event.hpp"
#include "async/event_loop.hpp"
#include "async/future_group.hpp"
#include "async/task_group.hpp"
#include "async/threadpool.hpp"
#include "steps/steps.hpp"
#include "support/flows.hpp"
#include "support/held_workers.hpp"
#include "support/journey.hpp"
#include "support/occupied.hpp"
#include "support/scale.hpp"
#include "support/waiting_flow.hpp"
#include "support/work_for.hpp"

// Flows and loops of a pool whose workers are all inside tasks that go on until they have ended: the lookout serves
// them.

using async::event_loop;
using async::threadpool;
using async::threadpool_options;
using steps::IAsyncSteps;
using testing::any_flow;
using testing::held_workers;
using testing::journey;
using testing::made_by;
using testing::occupied;
using testing::until;
using testing::wait_for;
using testing::waiting_flow;
using namespace std::chrono_literals;

namespace {

/// Starts a flow, keeps all workers inside tasks, ends the flow's wait, and sees it end. False when the flow's timer
/// was too early for that.
bool goes_on(std::size_t workers, made_by how, wait_for what, std::chrono::milliseconds time) {
  threadpool pool(workers);
  journey trip(pool, what, time);
  any_flow flow(pool, how, [&trip](IAsyncSteps& asi) { trip.set_out(asi); });
  trip.thread();
  held_workers held(pool, held_workers::inside::task, workers);
  if (trip.has_gone_on()) return false;
  trip.end_wait();
  REQUIRE(held.see(flow.end));
  flow.end.get();
  CHECK(pool.stats().late_turns != 0);
  return true;
}

/// Counts the calls of the hooks.
struct counted_threads {
  std::atomic<int> started{0}, stopped{0};
  threadpool_options options(std::size_t threads) {
    threadpool_options made;
    made.threads = threads;
    made.on_thread_start = [this](std::size_t) { ++started; };
    made.on_thread_stop = [this](std::size_t) { ++stopped; };
    return made;
  }
};

}  // namespace

TEST_CASE("a flow's wait ends while all workers are inside tasks") {
  for (const std::size_t workers : {2U, 4U}) {
    for (const made_by how : testing::all_flows) {
      for (const wait_for what : testing::all_waits) {
        CAPTURE(workers);
        CAPTURE(static_cast<int>(how));
        CAPTURE(static_cast<int>(what));
        for (auto time = 10ms; !goes_on(workers, how, what, time);) time *= 2;
      }
    }
  }
}

TEST_CASE("flows are cancelled, timed out and destroyed while all workers are inside tasks") {
  enum class by { cancel, destructor, time };
  for (const by what : {by::cancel, by::destructor, by::time}) {
    for (const made_by how : {made_by::async_steps, made_by::nitro_steps, made_by::branch}) {
      CAPTURE(static_cast<int>(what));
      CAPTURE(static_cast<int>(how));
      std::atomic<int> handlers{0};
      std::promise<void> waits;
      threadpool pool(2);
      any_flow flow(pool, how, [&](IAsyncSteps& asi) {
        asi.setCancel([&handlers] { ++handlers; });
        if (what == by::time) asi.setTimeout(200ms);
        asi.add([&](IAsyncSteps& step) {
          step.waitExternal();
          waits.set_value();
        });
      });
      waits.get_future().get();
      std::future<void> call;
      held_workers held(pool, held_workers::inside::task, 2);
      call = std::async(std::launch::async, [&] {
        if (what == by::cancel) flow.owner->cancel();
        if (what == by::destructor) flow.owner.reset();
      });
      REQUIRE(held.see(call));
      REQUIRE(held.see(flow.end));
      CHECK_THROWS(flow.end.get());
      CHECK(handlers == 1);
    }
  }
}

TEST_CASE("a loop's first flow starts, and its first callback is called, while all workers are inside tasks") {
  for (const bool is_flow : {false, true}) {
    CAPTURE(is_flow);
    threadpool pool(2);
    std::promise<void> called;
    auto is_called = called.get_future();
    std::optional<steps::AsyncSteps> flow;
    held_workers held(pool, held_workers::inside::task, 2);
    if (is_flow) {
      flow.emplace(pool.loop(0));
      flow->add([&called](IAsyncSteps&) { called.set_value(); });
      flow->execute();
    } else {
      pool.loop(1).post([&called] { called.set_value(); });
    }
    REQUIRE(held.see(is_called));
  }
}

TEST_CASE("a task's callback, the first in its pool, is called while all workers are inside tasks") {
  threadpool pool(2);
  std::promise<void> called;
  auto is_called = called.get_future();
  const occupied one(pool, 1);
  CHECK(pool.post([&] {
              pool.loop(0).post([&called] { called.set_value(); });
              return is_called.wait_for(testing::patience) == std::future_status::ready;
            })
            .get());
}

TEST_CASE("callbacks and timers of each loop(i) come while all workers are inside tasks") {
  threadpool pool(3);
  held_workers held(pool, held_workers::inside::task, 3);
  for (std::size_t i = 0; i < 3; ++i) {
    event_loop& loop = pool.loop(i);
    std::promise<bool> fired;
    auto has_fired = fired.get_future();
    loop.post([&] {
      loop.deferred(20ms, [&] { fired.set_value(event_loop::current() == &loop && threadpool::current() == &pool); });
    });
    REQUIRE(held.see(has_fired));
    CHECK(has_fired.get());
  }
}

TEST_CASE("what a task sends while all workers are inside tasks reaches its flow") {
  threadpool pool(2);
  async::bounded_queue<int> queue(4);
  std::promise<int> received;
  std::future<int> number = received.get_future();
  std::atomic<bool> waits{false};
  auto end = steps::post(pool, [&](IAsyncSteps& asi) {
    asi.await(queue);
    asi.add([&](IAsyncSteps&, int n) { received.set_value(n); });
    waits = true;
  });
  until(waits);
  const occupied one(pool, 1);
  auto sends = pool.post([&] {  // the loop is queued at this worker, which stays inside
    queue.enqueue(5);
    return number.wait_for(testing::patience) == std::future_status::ready;
  });
  CHECK(sends.get());
  CHECK(number.get() == 5);
  end.get();
}

TEST_CASE("flows of each priority go on while all workers are inside tasks") {
  for (const async::priority its : {async::priority::high, async::priority::low}) {
    for (auto time = 50ms;; time *= 2) {
      threadpool pool(2);
      std::atomic<bool> waits{false}, is_over{false};
      std::promise<void> gone_on;
      auto has_gone_on = gone_on.get_future();
      auto end = steps::post(pool, its, [&](IAsyncSteps& asi) {
        testing::wait_a_moment(asi, time);
        asi.add([&](IAsyncSteps&) {
          is_over = true;
          gone_on.set_value();
        });
        waits = true;
      });
      until(waits);
      held_workers held(pool, held_workers::inside::task, 2);
      const bool was_too_early = is_over;
      REQUIRE(held.see(has_gone_on));
      held.release();
      end.get();
      if (was_too_early) continue;
      CHECK(pool.stats().late_turns != 0);
      break;
    }
  }
}

TEST_CASE("a pool of one thread runs no flow beside a task") {
  threadpool pool(1);
  std::atomic<bool> in_task{false}, waits{false}, overlaps{false};
  auto flow = steps::post(pool, [&](IAsyncSteps& asi) {
    asi.loop([&](IAsyncSteps& step) {
      testing::wait_a_moment(step);
      step.add([&](IAsyncSteps&) {
        waits = true;
        if (in_task) overlaps = true;
      });
    });
  });
  until(waits);
  pool.post([&] {
        in_task = true;
        testing::work_for(100ms);
        in_task = false;
      })
      .get();
  CHECK_FALSE(overlaps);
  CHECK(pool.stats().late_turns == 0);
  flow.cancel();
}

TEST_CASE("a pool of one thread runs one task at a time while flows look at std::futures of calls") {
  threadpool pool(1), other(1);
  async::event gate;
  std::future<void> unique = other.post([&gate] { gate.wait(); });
  std::shared_future<void> shared = other.post([&gate] { gate.wait(); });
  auto first = steps::post(pool, [&](IAsyncSteps& asi) { asi.await(std::move(unique)); });
  auto second = steps::post(pool, [&](IAsyncSteps& asi) { asi.await(shared); });
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
  first.get();
  second.get();
}

TEST_CASE("what a step posts while all workers are inside tasks waits for a worker, in the order of posts") {
  threadpool pool(2);
  waiting_flow flow(pool);
  std::mutex mutex;
  std::vector<int> order;
  const auto note = [&](int n) {
    return [&, n] {
      const std::lock_guard lock(mutex);
      order.push_back(n);
    };
  };
  std::atomic<bool> has_posted{false};
  auto end = flow.then([&](IAsyncSteps& asi) {
    asi.add([&](IAsyncSteps&) {
      async::task_group group(pool);
      group.run([] {});
      group.wait();
    });
    testing::wait_a_moment(asi);
    asi.add([&](IAsyncSteps&) {
      pool.execute(note(2));
      has_posted = true;
    });
  });
  {
    held_workers held(pool, held_workers::inside::task, 2);
    pool.execute(note(1));
    CHECK(flow.token.success());
    until(has_posted);
    pool.execute(note(3));
    {
      const std::lock_guard lock(mutex);
      CHECK(order.empty());
    }
    pool.configurepool(1);  // so that one thread takes them in turn
  }
  end.get();
  pool.wait_idle();
  CHECK(order == std::vector<int>{1, 2, 3});
}

TEST_CASE("a step that waits for tasks of its own runs them while all workers are inside tasks") {
  threadpool pool(2);
  waiting_flow flow(pool);
  std::atomic<int> ran{0};
  auto end = flow.then([&](IAsyncSteps&) {
    async::task_group group(pool);
    for (int i = 0; i < 100; ++i) group.run([&ran] { ++ran; });
    group.wait();
  });
  held_workers held(pool, held_workers::inside::task, 2);
  CHECK(flow.token.success());
  REQUIRE(held.see(end));
  CHECK(ran == 100);
}

TEST_CASE("an error of a step that runs while all workers are inside tasks goes to the flow") {
  threadpool pool(2);
  waiting_flow flow(pool);
  auto end = flow.then([](IAsyncSteps&) { throw std::runtime_error("thrown"); });
  held_workers held(pool, held_workers::inside::task, 2);
  CHECK(flow.token.success());
  REQUIRE(held.see(end));
  CHECK_THROWS_WITH_AS(end.get(), "thrown", std::runtime_error);
}

TEST_CASE("a step that blocks in a section, or waits, on the lookout holds up no other flow") {
  enum class blocks { in_section, in_wait, polling };
  for (const blocks how : {blocks::in_section, blocks::in_wait, blocks::polling}) {
    CAPTURE(static_cast<int>(how));
    threadpool pool(2);
    async::promise<void> passed;
    async::future<void> has_passed = passed.get_future();
    async::event is_over;
    waiting_flow blocking(pool), passing(pool);
    auto ends = blocking.then([&](IAsyncSteps&) {
      CHECK(passing.token.success());
      if (how == blocks::in_section) {
        const async::blocking_section here;
        while (!has_passed.is_ready()) std::this_thread::sleep_for(1ms);
      } else if (how == blocks::polling) {
        while (has_passed.wait_for(1ms) != std::future_status::ready) {
        }
      } else {
        is_over.wait();
      }
      has_passed.get();  // without a wait
    });
    auto other = passing.then([&](IAsyncSteps&) {
      passed.set_value();
      is_over.set();
    });
    held_workers held(pool, held_workers::inside::task, 2);
    CHECK(blocking.token.success());
    const bool in_time = held.see(ends) && held.see(other);
    if (!in_time) held.release();
    REQUIRE(in_time);
    CHECK_NOTHROW(ends.get());
  }
}

TEST_CASE("thousands of time limits that end together reach their flows while all workers are inside tasks") {
  constexpr std::size_t flows = 3'000;
  threadpool pool(2);
  std::atomic<std::size_t> waiting{0}, over{0};
  async::future_group group;
  const auto due = std::chrono::steady_clock::now() + 1s;
  for (std::size_t i = 0; i != flows; ++i) {
    group.add(steps::post(pool, [&](IAsyncSteps& asi) {
      asi.add(
          [&](IAsyncSteps& step) {
            step.setTimeout((std::max<std::chrono::nanoseconds>)(1ms, due - std::chrono::steady_clock::now()));
            step.waitExternal();
            ++waiting;
          },
          [&](IAsyncSteps& step, steps::ErrorCode) {
            ++over;
            step.success();
          });
    }));
  }
  while (waiting != flows) std::this_thread::sleep_for(1ms);
  std::chrono::steady_clock::duration late{};
  {
    const occupied all(pool, 2);
    auto end = group.when_empty();
    REQUIRE(end.wait_for(testing::patience) == std::future_status::ready);
    late = std::chrono::steady_clock::now() - due;
  }
  CHECK(over == flows);
  if (!testing::sanitized && !testing::emulated()) CHECK(late < 600ms);
}

TEST_CASE("flows that never wait keep no others waiting while all workers are inside tasks") {
  for (const async::priority its : {async::priority::high, async::priority::normal}) {
    CAPTURE(static_cast<int>(its));
    threadpool pool(2);
    std::atomic<bool> is_over{false};
    std::atomic<int> ticks{0};
    async::bounded_queue<int> queue(4);
    std::vector<async::future<void>> ends;
    std::promise<void> received;
    auto has_received = received.get_future();
    std::atomic<int> begun{0};  // flows that have not begun wait among the tasks
    ends.push_back(steps::post(pool, [&](IAsyncSteps& asi) {
      asi.await(queue);
      asi.add([&](IAsyncSteps&, int) { received.set_value(); });
      ++begun;
    }));
    ends.push_back(steps::post(pool, its, [&](IAsyncSteps& asi) {
      asi.loop([&](IAsyncSteps& step) {
        if (is_over) step.breakLoop();
        step.relinquish();
      });
    }));
    for (const async::priority other : {async::priority::normal, async::priority::low}) {
      ends.push_back(steps::post(pool, other, [&ticks, &begun](IAsyncSteps& asi) {
        ++begun;
        asi.repeat(20, [&ticks](IAsyncSteps& step, std::size_t) {
          testing::wait_a_moment(step, 5ms);
          step.add([&ticks](IAsyncSteps&) { ++ticks; });
        });
      }));
    }
    while (begun != 3) std::this_thread::sleep_for(1ms);
    const occupied one(pool, 1);
    auto sends = pool.post([&] {  // the loop is queued at this worker, which stays inside
      queue.enqueue(5);
      const auto latest = std::chrono::steady_clock::now() + testing::patience;
      while (ticks != 40 && std::chrono::steady_clock::now() < latest) std::this_thread::sleep_for(1ms);
      return ticks == 40 && has_received.wait_for(testing::patience) == std::future_status::ready;
    });
    CHECK(sends.get());
    is_over = true;
    for (auto& end : ends) end.get();
  }
}

TEST_CASE("flows go on when a pool whose workers are all inside tasks has been shrunk and has grown again") {
  threadpool pool(2);
  std::atomic<int> ticks{0};
  auto end = steps::post(pool, [&ticks](IAsyncSteps& asi) {
    asi.loop([&ticks](IAsyncSteps& step) {
      testing::wait_a_moment(step);
      step.add([&ticks](IAsyncSteps&) { ++ticks; });
    });
  });
  const auto goes_on = [&ticks] {
    const int before = ticks;
    const auto latest = std::chrono::steady_clock::now() + testing::patience;
    while (ticks < before + 3 && std::chrono::steady_clock::now() < latest) std::this_thread::sleep_for(1ms);
    return ticks >= before + 3;
  };
  const occupied both(pool, 2);
  CHECK(goes_on());
  for (const std::size_t fewer : {0U, 1U}) {
    pool.configurepool(fewer);
    std::this_thread::sleep_for(100ms);  // the lookout goes off duty
    pool.configurepool(2);
    CHECK(goes_on());
  }
  end.cancel();
}

TEST_CASE("lookouts that stood in for blocked ones end") {
  counted_threads threads;
  threadpool pool(threads.options(2));
  constexpr int blocking = 5;
  std::atomic<int> inside{0};
  std::atomic<bool> is_over{false};
  std::vector<std::unique_ptr<waiting_flow>> flows;
  std::vector<std::future<void>> ends;
  for (int i = 0; i < blocking; ++i) {
    flows.push_back(std::make_unique<waiting_flow>(pool));
    ends.push_back(flows.back()->then([&](IAsyncSteps&) {
      const async::blocking_section here;
      ++inside;
      until(is_over);
    }));
  }
  {
    const occupied both(pool, 2);
    for (auto& flow : flows) CHECK(flow->token.success());
    while (inside != blocking) std::this_thread::sleep_for(1ms);
    is_over = true;
    for (auto& end : ends) end.get();
    while (threads.stopped < blocking - 1) std::this_thread::sleep_for(1ms);
  }
  CHECK(threads.started >= 2 + blocking);
  pool.wait_idle();
  CHECK(threads.started - threads.stopped >= 3);
}

TEST_CASE("the lookout calls the hooks of its pool, once each") {
  counted_threads threads;
  {
    threadpool pool(threads.options(2));
    for (int round = 0; round < 5; ++round) {
      waiting_flow flow(pool);
      auto end = flow.then([](IAsyncSteps&) {});
      held_workers held(pool, held_workers::inside::task, 2);
      CHECK(flow.token.success());
      REQUIRE(held.see(end));
      CHECK(threads.started == 3);  // it stays
    }
    CHECK(threads.stopped == 0);
  }
  CHECK(threads.stopped == 3);
}

TEST_CASE("stop() ends while tasks wait for flows") {
  for (auto time = 50ms;; time *= 2) {
    threadpool pool(2);
    std::promise<void> fired;
    const std::shared_future<void> has_fired = fired.get_future().share();
    std::atomic<bool> waits{false};
    auto end = steps::post(pool, [&](IAsyncSteps& asi) {
      testing::wait_a_moment(asi, time);
      asi.add([&fired](IAsyncSteps&) { fired.set_value(); });
      waits = true;
    });
    until(waits);
    for (int i = 0; i < 4; ++i) pool.execute([has_fired] { has_fired.wait(); });
    const bool was_too_early = has_fired.wait_for(0s) == std::future_status::ready;
    pool.stop();
    end.get();
    if (was_too_early) continue;
    CHECK(pool.stats().late_turns != 0);
    break;
  }
}

TEST_CASE("a pool that ends right after the lookout has served it") {
  for (std::size_t round = 0; round < testing::rounds(20); ++round) {
    threadpool pool(2);
    waiting_flow flow(pool);
    auto end = flow.then([](IAsyncSteps&) {});
    held_workers held(pool, held_workers::inside::task, 2);
    CHECK(flow.token.success());
    REQUIRE(held.see(end));
    if (round % 2 != 0) {
      held.release();
      pool.wait_idle();
    }
  }
}

TEST_CASE("flows that tick beside tasks of all lengths: each tick comes, each task runs, at any number of threads") {
  threadpool pool(2);
  constexpr int flows = 20;
  const int ticks = static_cast<int>(testing::rounds(100));
  std::atomic<int> ticked{0};
  async::future_group group;
  for (int i = 0; i < flows; ++i) {
    group.add(steps::post(pool, [&, i](IAsyncSteps& asi) {
      asi.repeat(static_cast<std::size_t>(ticks), [&, i](IAsyncSteps& step, std::size_t) {
        testing::wait_a_moment(step, std::chrono::milliseconds(1 + i % 7));
        step.add([&ticked](IAsyncSteps&) { ++ticked; });
      });
    }));
  }
  std::atomic<int> ran{0};
  int posted = 0;
  auto all = group.when_empty();
  for (; all.wait_for(0s) != std::future_status::ready; ++posted) {
    if (posted % 50 == 0) pool.configurepool(1 + static_cast<std::size_t>(posted / 50) % 3);
    pool.execute([&ran, length = std::chrono::milliseconds(posted % 5 == 0 ? 40 : posted % 3)] {
      testing::work_for(length);
      ++ran;
    });
    if (posted % 4 == 0) std::this_thread::sleep_for(1ms);
    while (posted - ran > 20) std::this_thread::sleep_for(1ms);
  }
  all.get();
  CHECK(ticked == flows * ticks);
  pool.wait_idle();
  CHECK(ran == posted);
}
