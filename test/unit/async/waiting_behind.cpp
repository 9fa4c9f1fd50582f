// SPDX-License-Identifier: BSL-1.0
//
// A function of then() waits for what another action of the same future has to bring about, on the same thread.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <coroutine>
#include <exception>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "async/async.hpp"
#include "steps/steps.hpp"
#include "support/occupied.hpp"
#include "support/scale.hpp"

using async::shared_future;
using async::threadpool;
using steps::IAsyncSteps;
using namespace std::chrono_literals;

namespace {

/// Two pools, and a future with several actions.
struct place {
  threadpool pool, other{1};
  async::promise<int> promise{};
  shared_future<int> gate = promise.get_future();
  bool in_task;

  place(std::size_t threads, bool opens_in_task) : pool(threads), in_task(opens_in_task) {}

  /// Makes `gate` ready. The first of its actions to run calls wait().
  template <class Wait>
  void open(Wait wait) {
    async::future<void> waiting = gate.then([&wait](const shared_future<int>&) { wait(); });
    in_task ? pool.post([this] { promise.set_value(1); }).get() : promise.set_value(1);
    waiting.get();
  }
};

/// Calls test(place&) for a gate that a task opens, and a thread outside.
template <class Test>
void in_each_place(Test test) {
  for (const bool in_task : {true, false}) {
    for (const std::size_t threads : {1U, 4U}) {
      CAPTURE(in_task);
      CAPTURE(threads);
      place here(threads, in_task);
      test(here);
    }
  }
}

/// A coroutine that adds what it awaits.
struct adding {
  struct promise_type {
    adding get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { std::terminate(); }
  };
  std::coroutine_handle<promise_type> handle;
};
adding add_to(int& sum, shared_future<int> gate) { sum += co_await gate; }

}  // namespace

TEST_CASE("a function of then() waits for a task that continues the same future") {
  in_each_place([](place& here) {
    auto link = here.gate.then(here.other, [](const shared_future<int>& f) { return f.get() + 1; });
    here.open([&link] { CHECK(link.get() == 2); });
  });
  in_each_place([](place& here) {
    async::blocking_pool blocking;
    auto link = here.gate.then(blocking, [](const shared_future<int>& f) { return f.get() + 1; });
    here.open([&link] { CHECK(link.get() == 2); });
  });
}

TEST_CASE("a function of then() waits for when_all() and when_any() of the same future") {
  in_each_place([](place& here) {
    auto all = async::when_all(std::vector<shared_future<int>>{here.gate, async::make_ready_future(1)});
    here.open([&all] { CHECK(all.get().size() == 2); });
  });
  in_each_place([](place& here) {
    auto all = async::when_all(std::vector<shared_future<int>>{here.gate});
    here.open([&all] { CHECK(all.wait_for(1h) == std::future_status::ready); });
  });
  in_each_place([](place& here) {
    auto any = async::when_any(std::vector<shared_future<int>>{here.gate});
    here.open([&any] { CHECK(async::select(async::on_ready(any)) == 0); });
  });
  in_each_place([](place& here) {
    auto link = async::when_all(std::vector<shared_future<int>>{here.gate}).then(here.other, [](auto) { return 2; });
    here.open([&link] { CHECK(link.get() == 2); });
  });
}

TEST_CASE("a function of then() waits for a std::shared_future of the same future") {
  in_each_place([](place& here) {
    const std::shared_future<int> standard = here.gate;
    here.open([&standard] { CHECK(standard.get() == 1); });
  });
}

TEST_CASE("a function of then() waits for a flow that awaits the same future") {
  in_each_place([](place& here) {
    std::atomic<bool> waits{false};
    auto flow = steps::post<int>(here.other, [&waits, gate = here.gate](IAsyncSteps& asi) {
      asi.await(gate);
      asi.add([](IAsyncSteps& step, int value) { step.success(value); });
      waits = true;
    });
    while (!waits) std::this_thread::yield();
    here.other.post([] {}).get();  // after the turn
    here.open([&flow] { CHECK(flow.get() == 1); });
  });
}

TEST_CASE("a function of then() waits for a future_group with the same future, or ends it") {
  in_each_place([](place& here) {
    async::future_group group;
    group.add(here.gate);
    auto end = group.when_empty();
    bool is_told = false;
    auto told = end.then([&is_told](const shared_future<void>&) { is_told = true; });
    here.open([&] {
      end.get();
      told.get();
      CHECK(is_told);
    });
  });
  in_each_place([](place& here) {
    auto group = std::make_unique<async::future_group>();
    group->add(here.gate);
    bool is_told = false;
    auto told = group->when_empty().then([&is_told](const shared_future<void>&) { is_told = true; });
    here.open([&] {
      group.reset();
      CHECK(is_told);
    });
  });
}

TEST_CASE("a function of then() waits for a future_group with what another function has made") {
  in_each_place([](place& here) {
    async::future_group group;
    const shared_future<int> made = here.gate.then([](const shared_future<int>& f) { return f.get() + 1; });
    auto sooner = made.then([&group](const shared_future<int>&) { group.when_empty().get(); });
    group.add(made);
    auto later = made.then([&group](const shared_future<int>&) { group.when_empty().get(); });
    here.open([] {});
    sooner.get();
    later.get();
  });
}

TEST_CASE("a function of then() waits for a thread that waits in select() for the same future") {
  in_each_place([](place& here) {
    async::promise<int> answer;
    std::thread selecting([&] {
      CHECK(async::select(async::on_ready(here.gate)) == 0);
      answer.set_value(2);
    });
    std::this_thread::sleep_for(5ms);  // so that it waits
    here.open([&] { CHECK(answer.get_future().get() == 2); });
    selecting.join();
  });
}

TEST_CASE("functions of then() and coroutines are called in turn, and one destroys a coroutine that is to come") {
  threadpool pool(2), other(1);
  async::promise<int> promise;
  const shared_future<int> gate = promise.get_future();
  const async::future<int> elsewhere = gate.then(other, [](const shared_future<int>&) { return 2; });
  shared_future<int> first;
  std::vector<int> order;
  int sum = 0, dropped = 0;
  const adding kept = add_to(sum, gate);
  adding gone = add_to(dropped, gate);
  // Comes after `first`, which it waits for.
  const async::future<void> second = gate.then([&](const shared_future<int>&) { order.push_back(first.get()); });
  first = gate.then([&](const shared_future<int>&) {
    order.push_back(1);
    elsewhere.wait();
    CHECK(sum == 0);
    std::exchange(gone.handle, nullptr).destroy();
    return 2;
  });
  pool.post([&promise] { promise.set_value(1); }).get();
  second.wait();
  CHECK(order == std::vector<int>{1, 2});
  CHECK(sum == 1);
  CHECK(dropped == 0);
  kept.handle.destroy();
}

TEST_CASE("a call that a pool refuses destroys coroutines that are to come, and calls what it makes ready") {
  threadpool stopped(1);
  stopped.stop();
  async::promise<int> promise;
  const shared_future<int> gate = promise.get_future();
  int sum = 0, made = 0;
  adding later = add_to(sum, gate);
  struct at_end {
    adding& one;
    adding& other;
    int& got;
    void operator()(const void*) const {
      std::exchange(one.handle, nullptr).destroy();
      std::exchange(other.handle, nullptr).destroy();
      async::promise<int> inner;
      const async::future<void> then = inner.get_future().then([this](async::future<int> f) { got = f.get(); });
      inner.set_value(3);
      CHECK(then.is_ready());
    }
  };
  adding sooner{};
  std::shared_ptr<void> guard(&sum, at_end{later, sooner, made});
  auto refused = gate.then(stopped, [guard](const shared_future<int>&) {});
  guard.reset();
  sooner = add_to(sum, gate);
  promise.set_value(1);
  CHECK(made == 3);
  CHECK(sum == 0);
  CHECK(refused.has_exception());
}

TEST_CASE("a full pool runs the call of a continuation on the thread that makes its future ready, in turn") {
  async::threadpool_options options;
  options.threads = 1;
  options.max_queue = 1;
  options.when_full = async::threadpool_options::overflow::caller_runs;
  threadpool full(std::move(options));
  const testing::occupied worker(full, 1);
  full.execute([] {});
  async::promise<int> promise;
  const shared_future<int> gate = promise.get_future();
  shared_future<int> first;
  const async::future<int> second = gate.then(full, [&first](const shared_future<int>&) { return first.get() + 1; });
  first = gate.then([](const shared_future<int>& f) { return f.get() + 1; });
  promise.set_value(1);
  CHECK(second.is_ready());
  CHECK(first.get() == 2);
}

TEST_CASE("functions of then() without a pool that wait for each other need no more stack than there is") {
  threadpool pool(2);
  async::promise<int> promise;
  const shared_future<int> gate = promise.get_future();
  const std::size_t links = testing::rounds(30'000);
  std::vector<shared_future<std::size_t>> each(links);
  each[0] = gate.then([](const shared_future<int>&) { return std::size_t{0}; });
  for (std::size_t i = 1; i != links; ++i) {
    each[i] = gate.then([&each, i](const shared_future<int>&) { return each[i - 1].get() + 1; });
  }
  pool.post([&promise] { promise.set_value(1); }).get();
  CHECK(each.back().get() == links - 1);
}
