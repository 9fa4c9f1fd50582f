// SPDX-License-Identifier: BSL-1.0
//
// Every part of the library in a file that includes nothing of it. Standard headers stand before the import.
#include <any>
#include <atomic>
#include <chrono>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <future>
#include <memory>
#include <numeric>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>
#include <version>

#include "import/checks.hpp"

import asyncsteps;

using namespace std::chrono_literals;
using steps::ErrorCode;
using steps::IAsyncSteps;

namespace {

int twice(int x) { return 2 * x; }

void calls(checks& all) {
  std::future<int> plain = async::async(twice, 1);
  CHECK(plain.get() == 2);

  async::threadpool pool(async::threadpool_options{.threads = 2, .name = "import"});
  CHECK(async::usable_concurrency() != 0 && pool.size() == 2);
  CHECK(pool.post(twice, 21).get() == 42);
  CHECK(pool.post(async::priority::high, twice, 2).then([](async::future<int> f) { return f.get() + 1; }).get() == 5);
  auto pair = async::when_all(pool.post(twice, 1), pool.post(twice, 2)).get();
  CHECK(std::get<0>(pair).get() + std::get<1>(pair).get() == 6);
  std::vector<async::future<int>> several;
  several.push_back(async::make_ready_future(7));
  async::when_any_result<std::vector<async::future<int>>> first = async::when_any(std::move(several)).get();
  CHECK(first.index == 0 && first.futures[0].get() == 7);

  async::future_group group;
  group.add(pool.post(twice, 3));
  group.when_empty().get();
  CHECK(group.size() == 0 && group.cancel() == 0);

  async::promise<int> promise, other;
  swap(promise, other);  // found by its argument
  async::shared_future<int> shared = promise.get_future().share();
  promise.set_value(3);
  CHECK(shared.get() == 3 && !shared.has_exception());
  try {
    async::make_exceptional_future<int>(std::make_exception_ptr(std::runtime_error("why"))).get();
    CHECK(false);
  } catch (const std::runtime_error& error) {
    CHECK(error.what() == std::string("why"));
  }

  std::atomic<int> done{0};
  for (int i = 0; i < 10; ++i) pool.execute([&done] { ++done; });
  pool.wait_idle();
  const async::threadpool_stats stats = pool.stats();
  CHECK(done == 10 && stats.tasks >= 10);
  CHECK(pool.wait_idle_for(std::chrono::hours(1)));
  const bool inside = pool.post([&pool] {
                            const async::blocking_section here;
                            return async::threadpool::current() == &pool;
                          })
                          .get();
  CHECK(inside);
  async::blocking_pool blocking(async::blocking_pool_options{.max_threads = 1});
  CHECK(blocking.post(twice, 4).get() == 8);
  CHECK(blocking.wait_idle_until(std::chrono::steady_clock::now() + std::chrono::hours(1)));
  pool.stop(async::discard);
  try {
    pool.execute([] {});
    CHECK(false);
  } catch (const async::stopped& error) {
    CHECK(dynamic_cast<const async::stopped_by_fork*>(&error) == nullptr);
  }
  async::threadpool none(0);
  async::future<int> dropped = none.post(twice, 1);
  none.stop(async::discard);
  try {
    dropped.get();
    CHECK(false);
  } catch (const async::dropped_call& error) {
    CHECK(error.why() == async::dropped_call::reason::stopped);
  }

  async::task task = [&done] { done = 0; };
  CHECK(task != nullptr);
  task();
  const async::unique_function<void(int)> function = [&done](int x) { done = x; };
  function(4);
  CHECK(done == 4);
}

template <async::loop_range Range>
long sum_of(async::threadpool& pool, const Range& numbers) {
  return async::parallel_reduce(
      pool, numbers, 0L, [](long x, long sum) { return sum + x; }, [](long a, long b) { return a + b; });
}

void fork_and_join(checks& all) {
  async::threadpool pool(2);
  std::vector<int> numbers(1'000);
  CHECK(async::parallel_for(
      pool, std::size_t{0}, numbers.size(), [&](std::size_t i) { numbers[i] = static_cast<int>(i); }, async::auto_grain,
      async::no_token{}));
  CHECK(std::accumulate(numbers.begin(), numbers.end(), 0) == 499'500);
  CHECK(sum_of(pool, numbers) == 499'500);
  int a = 0, b = 0;
  CHECK(async::parallel_invoke(pool, [&a] { a = 1; }, [&b] { b = 2; }));
  CHECK(a + b == 3);

  std::atomic<int> ran{0};
  async::task_group group(pool);
  for (int i = 0; i < 10; ++i) group.run([&ran] { ++ran; });
  group.wait();
  CHECK(ran == 10 && !async::current_group_is_cancelling());
  async::task_group alone(pool, async::independent);
  std::atomic<bool> noticed{false};
  alone.run([&] {
    alone.cancel();
    noticed = async::current_group_is_cancelling();
  });
  alone.wait();
  CHECK(noticed);
}

void queues(checks& all) {
  async::queue<std::string> texts;
  async::bounded_queue<int> numbers(2);
  CHECK(texts.enqueue("one") && texts.dequeue() == "one" && !texts.dequeue().has_value());
  CHECK(numbers.enqueue(1) && numbers.enqueue(2) && !numbers.enqueue(3) && numbers.capacity() == 2);
  std::thread consumer([&] {
    for (int x = 0; numbers.blocking_dequeue(x);) texts.enqueue(std::to_string(x));
    texts.close();
  });
  CHECK(numbers.blocking_enqueue(3) && numbers.enqueue_for(1h, 4));
  numbers.close();
  consumer.join();
  std::string all_texts;
  for (std::string text; texts.blocking_dequeue(text);) all_texts += text;
  CHECK(all_texts == "1234");
}

void selects(checks& all) {
  async::bounded_queue<int> numbers(1);
  async::queue<int> orders;
  async::event stop;
  int got = 0;
  const auto next = [&] {
    return async::select(async::on_pop(orders, [&got](int x) { got = x; }), async::on_set(stop),
                         async::after(1h, [] {}));
  };
  orders.enqueue(5);
  CHECK(next() == 0 && got == 5);
  stop.set();
  CHECK(next() == 1);
  async::future<int> ready = async::make_ready_future(1);
  CHECK(async::select(async::on_ready(ready, [&got](async::future<int>& f) { got = f.get(); }), async::otherwise()) ==
        0);
  CHECK(async::select(async::on_push(numbers, 9)) == 0 && got == 1 && numbers.dequeue() == 9);
  orders.close();
  CHECK(async::select(async::on_pop(orders, [](int) {})) == async::nothing_left);
}

void loops(checks& all) {
  async::manual_clock clock;
  async::event_loop loop{async::time_source(clock)};
  std::string order;
  loop.deferred(2h, [&] { order += "b"; });
  async::event_loop::handle never = loop.deferred(1h, [&] { order += "x"; });
  loop.immediate([&] { order += "a"; });
  bool posted = false;
  loop.post([&] { posted = true; });
  never.cancel();
  loop.run_for(3h);  // of virtual time
  CHECK(order == "ab" && posted);
}

void flows(checks& all) {
  async::threadpool pool(2);
  steps::AsyncTool tool;
  steps::AsyncSteps flow{tool};
  std::string trail;
  flow.add([](IAsyncSteps& asi) { asi.error("Mine", "why"); },
           [&trail](IAsyncSteps& asi, ErrorCode code) {
             trail += std::string(code) + ":" + std::string(asi.state().error_info());
             asi.success(20, 22);
           });
  flow.add([](IAsyncSteps& asi, int a, int b) { asi.success(a + b); });
  flow.add([&](IAsyncSteps& asi, int sum) {
    CHECK(sum == 42);
    asi.repeat(3, [&trail](IAsyncSteps&, std::size_t i) { trail += std::to_string(i); });
    asi.forEach(std::vector<int>{7, 8}, [&trail](IAsyncSteps&, std::size_t, int x) { trail += std::to_string(x); });
    asi.loop([&trail](IAsyncSteps& round) {
      trail += "l";
      round.breakLoop();
    });
    asi.add(
        [](IAsyncSteps& waits) {
          waits.setTimeout(1ms);
          waits.waitExternal();
        },
        [&trail](IAsyncSteps& late, ErrorCode code) {
          if (code == steps::errors::Timeout) trail += "t";
          late.success();
        });
    asi.add([&tool](IAsyncSteps& waits) {
      waits.state()["text"] = std::string("kept");
      tool.loop().immediate([done = waits.completion<int>()] { done.success(1); });
    });
    asi.add([](IAsyncSteps& last, int one) { last.success(last.state<std::string>("text") + std::to_string(one)); });
  });
  CHECK(flow.promise<std::string>().get() == "kept1");
  CHECK(trail == "Mine:why01278lt");

  std::atomic<int> sum{0};
  async::future<int> answer = steps::post<int>(pool, [&](IAsyncSteps& asi) {
    auto& branches = asi.parallel(steps::BranchTurns::step);
    for (int i = 1; i <= 4; ++i) {
      branches.add([&pool, &sum, i](IAsyncSteps& branch) {
        branch.await(pool, twice, i).add([&sum](IAsyncSteps&, int x) { sum += x; });
      });
    }
    asi.race().add([](IAsyncSteps& winner) { winner.success(5); });
    asi.add([&sum](IAsyncSteps& last, int five) { last.success(sum + five); });
  });
  CHECK(answer.get() == 25);

  int attempts = 0, rounds = 0;
  steps::NitroSteps<steps::nitro::MaxSteps<8>, steps::nitro::MaxParallel<0>> nitro{pool};
  nitro.retry(steps::Retry{.attempts = 3, .delay = 1ms}.on("Busy"), [&attempts](IAsyncSteps& asi) {
    if (++attempts < 3) asi.error("Busy");
  });
  nitro.every({.period = 1ms, .missed = steps::MissedTicks::skip}, [&rounds](IAsyncSteps& asi, const steps::Tick&) {
    if (++rounds == 2) asi.breakLoop();
  });
  nitro.promise().get();
  CHECK(attempts == 3 && rounds == 2);

  try {
    steps::post(tool.loop(), [](IAsyncSteps& asi) { asi.error("Lost", "in a flow"); }).get();
    CHECK(false);
  } catch (const steps::Error& error) {
    CHECK(error.what() == std::string("Lost") && error.error_info() == std::string("in a flow"));
  }
}

void waits_of_flows(checks& all) {
  async::threadpool pool(2);
  steps::Mutex mutex;
  steps::Semaphore semaphore(1);
  steps::Throttle throttle{100, 1s};
  steps::Limiter limiter{{.concurrent = 2}};
  steps::ISync* const kinds[] = {&mutex, &semaphore, &throttle, &limiter};
  steps::Event event;
  async::bounded_queue<int> queue(1);
  int guarded = 0;
  std::vector<async::future<void>> ends;
  for (int i = 0; i < 4; ++i) {
    ends.push_back(steps::post(pool, [&](IAsyncSteps& asi) {
      asi.await(event);
      for (steps::ISync* kind : kinds) asi.sync(*kind, [](IAsyncSteps&) {});
      asi.sync(mutex, [&guarded](IAsyncSteps&) { ++guarded; });
      asi.enqueue(queue, 1);
    }));
  }
  async::future<int> total = steps::post<int>(pool, [&](IAsyncSteps& asi) {
    auto& sum = asi.stack<int>(0);
    asi.repeat(3, [&](IAsyncSteps& round) { round.await(queue).add([&sum](IAsyncSteps&, int x) { sum += x; }); });
    asi.select(async::on_pop(queue, [&sum](IAsyncSteps&, int x) { sum += x; }), async::after(1h, [](IAsyncSteps&) {}));
    asi.add([&sum](IAsyncSteps& last) { last.success(sum); });
  });
  event.set();
  for (auto& end : ends) end.get();
  CHECK(guarded == 4 && total.get() == 4);
}

steps::interop::task<int> numbers(async::threadpool& pool, async::queue<int>& queue, async::event& event) {
  namespace interop = steps::interop;
  co_await interop::schedule(pool);
  const auto one = [](int x) -> interop::task<int> { co_return x; };
  auto [a, b] = co_await interop::when_all(one(1), one(2));
  std::vector<interop::task<int>> both;
  both.push_back(one(3));
  interop::when_any_result<int> any = co_await interop::when_any(std::move(both));
  steps::Semaphore permits(1);
  const int limited = co_await interop::with_timeout(1h, interop::sync(permits, one(0)));
  co_await interop::sleep_for(pool.loop(0), 1ms);
  const int tried = co_await interop::retry({.attempts = 2}, [&] { return pool.post(twice, 0); });
  const int posted = co_await interop::post(pool, twice, 2);
  const int awaited = co_await pool.post(twice, 3);
  co_await event.on_set();
  const std::optional<int> popped = co_await queue.pop();
  int selected = 0;
  const auto keep = [&selected](int x) { selected = x; };
  co_await async::selection(async::on_pop(queue, keep), async::after(1h));
  co_return a + b + any.value + limited + tried + posted + awaited + popped.value() + selected;
}

void coroutines(checks& all) {
  async::threadpool pool(2);
  async::queue<int> queue;
  async::event event;
  const auto provide = [&] {
    queue.enqueue(10);
    queue.enqueue(20);
    event.set();
  };
  provide();
  async::future<int> started = steps::interop::start(numbers(pool, queue, event));
  CHECK(started.get() == 46);
  provide();
  steps::AsyncSteps flow{pool};
  flow.add(steps::interop::co([&](IAsyncSteps& asi) -> steps::interop::task<int> {
    asi.setTimeout(1h);
    co_return co_await numbers(pool, queue, event);
  }));
  CHECK(flow.promise<int>().get() == 46);
#if defined(__cpp_lib_jthread)
  bool stopped = false;
  steps::post(pool, [&stopped](IAsyncSteps& asi) {
    asi.add(
        [&stopped](IAsyncSteps& step) {
          const auto token = steps::interop::stop_token_of(step);
          step.setCancel([&stopped, token](IAsyncSteps&) { stopped = token.stop_requested(); });
          step.setTimeout(1ms);
          step.waitExternal();
        },
        [](IAsyncSteps& step, ErrorCode) { step.success(); });
  }).get();
  CHECK(stopped);
#endif
}

void traces(checks& all) {
  async::trace session(async::trace_options{.events_per_thread = 64});
  std::ostringstream out;
  session.write(out);
  CHECK(!async::trace::is_compiled_in && out.str().find("ASYNCSTEPS_TRACE") != std::string::npos);
}

}  // namespace

int main() {
  checks all;
  for (auto* part : {calls, fork_and_join, queues, selects, loops, flows, waits_of_flows, coroutines, traces}) {
    try {
      part(all);
    } catch (const steps::Error& error) {
      std::printf("%s: %s\n", error.what(), std::string(error.error_info()).c_str());
      CHECK(false);
    }
  }
  return all.end();
}
