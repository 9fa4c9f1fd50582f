// SPDX-License-Identifier: BSL-1.0
//
// Waits for an async::future: in tasks of a pool they help, in callbacks of event loops they refuse to stop the loop.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "async/async.hpp"
#include "async/event_loop.hpp"
#include "steps/steps.hpp"
#include "support/scale.hpp"
#include "support/start_line.hpp"
#include "support/wait_while.hpp"

namespace {

using namespace std::chrono_literals;

template <class F>
bool refuses(F&& f) {
  try {
    f();
  } catch (const std::system_error& e) {
    return e.code() == std::errc::resource_deadlock_would_occur;
  }
  return false;
}

int down(async::threadpool& pool, int n) {
  return n == 0 ? 0 : 1 + pool.post([&pool, n] { return down(pool, n - 1); }).get();
}

}  // namespace

TEST_CASE("get() in a task makes the call that it waits for, on one worker and to any depth") {
  for (const std::size_t threads : {1U, 2U}) {
    async::threadpool pool(threads);
    CHECK(pool.post([&pool] { return down(pool, 200); }).get() == 200);
    CHECK(pool.post([&pool] {
                async::future<int> next =
                    pool.post([] { return 1; }).then([](async::future<int> f) { return f.get() + 1; });
                async::future<int> last = std::move(next).then(pool, [](async::future<int> f) { return f.get() + 1; });
                return last.get();
              })
              .get() == 3);
  }
}

TEST_CASE("get() in a task waits for what another thread makes ready, without blocking the pool") {
  async::threadpool pool(1);
  async::promise<int> promise;
  async::future<int> outer = pool.post([&pool, future = promise.get_future()]() mutable {
    // Only a worker that is not blocked runs this one.
    async::future<int> other = pool.post([] { return 1; });
    return future.get() + other.get();
  });
  async::future<void> beside = pool.post([&promise] { promise.set_value(2); });
  CHECK(outer.get() == 3);
  beside.get();
}

TEST_CASE("a continuation that runs before the wake-up of a worker may wait for that worker's pool") {
  async::threadpool pool(1);
  async::promise<int> promise;
  const async::shared_future<int> source = promise.get_future();
  std::promise<async::future<int>> continued;
  async::future<int> waits = pool.post([&] {
    // Runs within the wait below, and so adds its continuation after the wake-up. The last one added runs first.
    pool.execute([&] {
      continued.set_value(source.then([&pool](const async::shared_future<int>& ready) {
        int sum = ready.get();
        for (int i = 0; i != 20; ++i) sum += pool.post([] { return 1; }).get();
        return sum;
      }));
    });
    return source.get();
  });
  async::future<int> sum = continued.get_future().get();
  promise.set_value(1);
  CHECK(waits.get() == 1);
  CHECK(sum.get() == 21);
}

TEST_CASE("a timed wait in a task lets tasks run that are queued after it has begun to sleep") {
  async::threadpool pool(1);
  async::promise<int> promise;
  std::promise<void> begun;
  async::future<bool> in_time = pool.post([&begun, future = promise.get_future()] {
    begun.set_value();
    return future.wait_for(10s) == std::future_status::ready;
  });
  begun.get_future().wait();
  std::this_thread::sleep_for(20ms);  // it sleeps now, or calls a stand-in at once
  pool.execute([&promise] { promise.set_value(1); });
  CHECK(in_time.get());
}

TEST_CASE("a future of another pool") {
  async::threadpool a(1), b(1);
  for (std::size_t i = 0; i < testing::rounds(500); ++i) {
    async::future<int> there = a.post([&a, &b] {
      async::future<int> f = b.post([&a] {
        async::future<int> back = a.post([] { return 1; });
        return back.get() + 1;
      });
      return f.get() + 1;
    });
    REQUIRE(there.get() == 3);
  }
}

TEST_CASE("a shared future that several tasks wait for") {
  async::threadpool pool(2);
  for (std::size_t i = 0; i < testing::rounds(500); ++i) {
    const async::shared_future<int> first = pool.post([] { return 1; }).share();
    std::vector<async::future<int>> all;
    for (int n = 0; n < 4; ++n) all.push_back(pool.post([first, n] { return first.get() + n; }));
    int sum = 0;
    for (auto& each : all) sum += each.get();
    REQUIRE(sum == 10);
  }
}

TEST_CASE("a future that then() unwraps, in a task of a pool of one worker") {
  async::threadpool pool(1);
  CHECK(pool.post([&pool] {
              return pool.post([] { return 1; })
                  .then([&pool](async::future<int> f) { return pool.post([n = f.get()] { return n + 1; }); })
                  .get();
            })
            .get() == 2);
}

TEST_CASE("a task that waits for a function of then() that has returned a future runs no tasks of others") {
  async::threadpool pool(2);
  async::promise<int> returned;
  std::thread::id other;
  async::future<int> next = async::make_ready_future().then(pool, [&](async::future<void>) {
    other = std::this_thread::get_id();
    return returned.get_future();
  });
  pool.wait_idle();
  testing::start_line both(2);
  std::atomic<bool> has_waiter{false}, is_wrong{false};
  std::atomic<std::thread::id> waiter{};
  const auto waits_or_works = [&] {
    both.wait();
    const std::thread::id here = std::this_thread::get_id();
    if (here != other && !has_waiter.exchange(true)) {
      waiter = here;
      return next.get();
    }
    testing::wait_while(waiter, std::thread::id());
    async::task_group group(pool);
    for (int i = 0; i < 100; ++i) {
      group.run([&] {
        if (std::this_thread::get_id() == waiter) is_wrong = true;
        if (!is_wrong) std::this_thread::sleep_for(1ms);
      });
    }
    group.wait();
    returned.set_value(1);
    return 1;
  };
  async::future<int> one = pool.post(waits_or_works), two = pool.post(waits_or_works);
  CHECK(one.get() == two.get());
  CHECK_FALSE(is_wrong);
}

TEST_CASE("a task that waits for what an older task of its thread makes ready does not run that one itself") {
  async::threadpool pool(1);
  async::promise<void> p;
  std::atomic<std::thread::id> waiting{};
  bool is_inside = false;
  pool.post([&] {
        pool.execute([&] {
          is_inside = waiting.load() == std::this_thread::get_id();
          p.set_value();
        });
        pool.execute([&] {
          waiting = std::this_thread::get_id();
          p.get_future().get();
          waiting = std::thread::id();
        });
      })
      .get();
  pool.wait_idle();
  CHECK_FALSE(is_inside);
}

TEST_CASE("a task that polls: another thread makes the call") {
  async::threadpool pool(1);
  CHECK(pool.post([&pool] {
              async::future<int> f = pool.post([] { return 1; });
              while (f.wait_for(0s) == std::future_status::timeout) std::this_thread::yield();
              async::future<int> g = pool.post([] { return 1; }).then([](async::future<int> x) { return x.get(); });
              while (!g.is_ready()) static_cast<void>(g.wait_for(100us));
              return f.get() + g.get();
            })
            .get() == 2);
}

TEST_CASE("pool.wait() takes futures of both kinds, from anywhere") {
  async::threadpool pool(1);
  async::future<int> mine = pool.post([] { return 1; });
  CHECK(pool.wait(mine) == 1);
  CHECK(pool.wait(pool.post([] { return 2; })) == 2);
  CHECK(pool.post([&pool] { return pool.wait(pool.post([] { return 3; })); }).get() == 3);
  std::promise<int> foreign;
  std::future<int> theirs = foreign.get_future();
  foreign.set_value(4);
  CHECK(pool.wait(theirs) == 4);
  async::future<int> none;
  CHECK_THROWS_AS(pool.wait(none), std::future_error);
}

TEST_CASE("a callback of an event loop: a wait throws unless the result is there") {
  async::threadpool pool(1);
  async::event_loop loop;
  async::promise<int> promise;
  async::future<int> late = promise.get_future();
  async::future<int> early = async::make_ready_future(1);
  int seen = 0;
  loop.post([&] {
    CHECK(refuses([&] { late.wait(); }));
    CHECK(refuses([&] { late.get(); }));
    CHECK(late.valid());
    CHECK(late.wait_for(1ms) == std::future_status::timeout);
    CHECK_FALSE(late.is_ready());
    seen = early.get();
    promise.set_value(2);
    seen += late.get();
    loop.stop();
  });
  loop.run();
  CHECK(seen == 3);

  // on a pool's loop
  async::promise<int> other;
  async::future<int> later = other.get_future();
  async::promise<bool> refused;
  pool.loop(0).post([&] { refused.set_value(refuses([&] { later.get(); })); });
  CHECK(refused.get_future().get());
  other.set_value(1);
  CHECK(later.get() == 1);
}

TEST_CASE("a step of a flow: a wait throws unless the result is there, on a loop and on a pool") {
  async::threadpool pool(1);
  async::promise<int> promise;
  const async::shared_future<int> late = promise.get_future().share();
  const auto body = [&late](steps::IAsyncSteps& asi) { asi.success(refuses([&late] { late.wait(); })); };
  CHECK(steps::post<bool>(pool, body).get());
  async::event_loop loop;
  steps::AsyncSteps flow{loop};
  flow.add(body);
  auto refused = flow.promise<bool>();
  while (refused.wait_for(0s) != std::future_status::ready) loop.iterate();
  CHECK(refused.get());
  promise.set_value(1);
}

TEST_CASE("a wait in a step that would stop its loop fails in less than 1 ms, with a text that names the cause") {
  async::threadpool pool(2);
  async::event_loop loop;
  struct outcome {
    std::string code, info;
    std::chrono::steady_clock::time_point begin, end;
  };
  for (const bool is_on_pool : {false, true}) {
    CAPTURE(is_on_pool);
    auto best = std::chrono::steady_clock::duration::max();  // of many rounds: the machine has other work
    for (int round = 0; round != 200; ++round) {
      outcome seen;
      async::promise<int> promise;
      async::future<int> result = promise.get_future();
      async::future<int> task = std::move(result).then(pool, [](async::future<int> f) { return f.get(); });
      const auto body = [&](steps::IAsyncSteps& asi) {
        asi.add(
            [&](steps::IAsyncSteps&) {
              seen.begin = std::chrono::steady_clock::now();
              task.get();
            },
            [&seen](steps::IAsyncSteps& handler, steps::ErrorCode code) {
              seen.end = std::chrono::steady_clock::now();
              seen.code = code;
              seen.info = std::string(handler.state().error_info());
              handler.success();
            });
      };
      if (is_on_pool) {
        steps::post(pool, body).get();
      } else {
        steps::AsyncSteps flow{loop};
        flow.add(body);
        auto end = flow.promise();
        while (end.wait_for(0s) != std::future_status::ready) loop.iterate();
        end.get();
      }
      REQUIRE(seen.code == "InternalError");
      REQUIRE(seen.info.find("a wait in a callback of an event loop would stop the loop") != std::string::npos);
      best = (std::min)(best, seen.end - seen.begin);
      promise.set_value(round);
      REQUIRE(task.get() == round);  // the future is still there
    }
    CHECK(best < (testing::sanitized || testing::emulated() ? 50ms : 1ms));
  }
}

TEST_CASE("tasks that a callback waits for may wait") {
  async::threadpool pool(2);
  std::promise<int> sum;
  pool.loop(0).post([&] {
    std::atomic<int> all{0};
    async::task_group group(pool);
    for (int i = 0; i < 20; ++i) {
      group.run([&] { all += pool.post([] { return 1; }).get(); });
    }
    group.wait();
    all += pool.wait(pool.post([&pool] { return pool.post([] { return 1; }).get(); }));
    sum.set_value(all);
  });
  CHECK(sum.get_future().get() == 21);
}

TEST_CASE("asi.await() of async::future is told at once, on a loop and on a pool") {
  for (const bool is_on_pool : {false, true}) {
    async::threadpool pool(2);
    async::event_loop loop;
    steps::AsyncSteps flow{loop};
    int number = 5;
    std::vector<int> seen;
    const auto body = [&](steps::IAsyncSteps& asi) {
      asi.await(async::make_ready_future(1));
      asi.add([&](steps::IAsyncSteps&, int n) { seen.push_back(n); });
      asi.await(pool.post([] { return 2; }));
      asi.add([&](steps::IAsyncSteps&, int n) { seen.push_back(n); });
      asi.await(pool.post([&number]() -> int& { return number; }));
      asi.add([&](steps::IAsyncSteps&, std::reference_wrapper<int> n) { seen.push_back(n); });
      asi.await(pool.post([] { return 3; }).share());
      asi.add([&](steps::IAsyncSteps&, int n) { seen.push_back(n); });
      asi.await(pool.post([] {}));
      asi.await(pool.post([]() -> int { throw std::runtime_error("thrown"); }),
                [&](steps::IAsyncSteps& inner, steps::ErrorCode code) {
                  seen.push_back(code == "thrown" ? 4 : 0);
                  inner.success();
                });
      asi.await(async::future<int>(), [&](steps::IAsyncSteps& inner, steps::ErrorCode code) {
        seen.push_back(code == "InternalError" ? 6 : 0);
        inner.success();
      });
    };
    if (is_on_pool) {
      steps::post(pool, body).get();
    } else {
      flow.add(body);
      auto end = flow.promise();
      while (end.wait_for(0s) != std::future_status::ready) loop.iterate();
      end.get();
    }
    CHECK(seen == std::vector<int>{1, 2, 5, 3, 4, 6});
  }
}

TEST_CASE("asi.await() that ends early drops the future") {
  async::event_loop loop;
  async::promise<std::shared_ptr<int>> promise;
  const auto value = std::make_shared<int>(1);
  {
    steps::AsyncSteps flow{loop};
    flow.await(promise.get_future());
    flow.execute();
    loop.iterate();
    flow.cancel();
    loop.iterate();
  }
  promise.set_value(value);
  promise = {};
  CHECK(value.use_count() == 1);
}

TEST_CASE("stop() of a pool with futures that wait: all are told") {
  async::future<int> queued;
  async::promise<void> promise;
  async::future<int> waits;
  {
    async::threadpool pool(1);
    waits = pool.post([f = promise.get_future()]() mutable {
      f.get();
      return 1;
    });
    queued = pool.post([] { return 2; });
    std::thread setter([&promise] { promise.set_value(); });
    pool.stop();
    setter.join();
    CHECK_THROWS_AS(pool.post([] {}), async::stopped);
  }
  CHECK(waits.get() == 1);
  CHECK(queued.get() == 2);
}
