// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "async/bounded_queue.hpp"
#include "async/queue.hpp"
#include "steps/asynctool.hpp"
#include "steps/interop/coroutine.hpp"
#include "support/flows.hpp"
#include "support/live_count.hpp"
#include "support/scale.hpp"

// Coroutines that await queues, as steps and with start(). Coroutines of other types: queue_awaiting.cpp.

using steps::ErrorCode;
using steps::IAsyncSteps;
using steps::interop::co;
using steps::interop::task;
using testing::bench;
using testing::lines;
using testing::noting_code;
using namespace std::chrono_literals;

namespace {

struct local : testing::live_count<local> {};
using ints = std::vector<int>;
constexpr int closed = -1;

/// A step that takes one element.
auto pops(async::queue<int>& q, ints& got, int mark = 0) {
  return co([&q, &got, mark](IAsyncSteps&) -> task<> {
    const local mine;
    const std::optional<int> x = co_await q.pop();
    got.push_back(x ? *x + mark : closed);
  });
}
/// A step that adds one element.
auto pushes(async::bounded_queue<int>& q, int value, ints& sent) {
  return co([&q, &sent, value](IAsyncSteps&) -> task<> {
    const local mine;
    const bool is_in = co_await q.push(value);
    sent.push_back(is_in ? value : closed);
  });
}

}  // namespace

TEST_CASE_TEMPLATE("a step waits for an element, in a task below, and goes on in the loop's turn", Flow, STEPS_FLOWS) {
  bench b;
  async::queue<int> q;
  int got = 0;
  Flow flow{b.loop};
  flow.add(co([&q](IAsyncSteps&) -> task<int> {
        const auto below = [](async::queue<int>& from) -> task<int> {
          int sum = 0;
          while (const std::optional<int> x = co_await from.pop()) sum += *x;
          co_return sum;
        };
        co_return co_await below(q);
      }))
      .add([&got](IAsyncSteps&, int x) { got = x; });
  flow.execute();
  b.drain();
  q.enqueue(1);
  CHECK(q.approx_size() == 1);  // not taken before the loop's turn
  b.drain();
  CHECK(q.empty());
  b.loop.post([&] {
    q.enqueue(2);
    q.enqueue(3);
  });
  b.drain();
  CHECK(q.empty());
  q.enqueue(4);
  q.close();
  b.drain();
  CHECK(got == 10);
  CHECK(b.unhandled.empty());
}

TEST_CASE_TEMPLATE("a step does not wait for an element that is there", Flow, STEPS_FLOWS) {
  bench b;
  async::queue<int> q;
  for (int i = 0; i < 5; ++i) q.enqueue(i);
  int turns = 0, taken = 0;
  Flow flow{b.loop};
  flow.add(co([&](IAsyncSteps&) -> task<> {
    for (; taken < 5; ++taken) co_await q.pop();
    co_await q.push(9);
  }));
  flow.execute();
  for (; b.loop.iterate().have_work; ++turns) {
  }
  CHECK(turns <= 1);
  CHECK(taken == 5);
  CHECK(q.dequeue() == 9);
}

TEST_CASE("a step waits for room, and gets it in its turn") {
  bench b;
  async::bounded_queue<int> q(1);
  ints sent;
  steps::AsyncSteps one{b.loop}, two{b.loop}, three{b.loop};
  one.add(pushes(q, 1, sent));
  two.add(pushes(q, 2, sent));
  three.add(pushes(q, 3, sent));
  for (auto* flow : {&one, &two, &three}) {
    flow->execute();
    b.drain();
  }
  CHECK(sent == ints{1});
  CHECK(q.dequeue() == 1);
  b.drain();
  CHECK(sent == ints{1, 2});
  q.close();
  b.drain();
  CHECK(sent == ints{1, 2, closed});
  CHECK(q.dequeue() == 2);
  CHECK(!q.dequeue());
}

TEST_CASE("steps are served in the order in which they began to wait") {
  bench b;
  async::queue<int> q;
  ints got;
  std::vector<std::unique_ptr<steps::AsyncSteps>> flows;
  for (int i = 1; i <= 4; ++i) {
    flows.push_back(std::make_unique<steps::AsyncSteps>(b.loop));
    flows.back()->add(pops(q, got, 10 * i));
    flows.back()->execute();
    b.drain();
  }
  q.enqueue(1);
  CHECK(q.dequeue() == 1);  // before the first one's turn: it stays in front
  b.drain();
  for (int i = 2; i <= 5; ++i) {
    q.enqueue(i);
    b.drain();
  }
  CHECK(got == ints{12, 23, 34, 45});
}

TEST_CASE("a step that is cancelled while it waits leaves the queue") {
  bench b;
  async::queue<int> q;
  ints got;
  steps::AsyncSteps one{b.loop}, two{b.loop};
  one.add(pops(q, got, 10));
  two.add(pops(q, got, 20));
  one.execute();
  two.execute();
  b.drain();
  CHECK(local::live() == 2);
  one.cancel();
  b.drain();
  CHECK(local::live() == 1);
  q.enqueue(1);
  b.drain();
  CHECK(got == ints{21});
}

TEST_CASE("an element that arrives before a cancel goes to the next that waits") {
  bench b;
  async::queue<int> q;
  ints got;
  for (const bool in_turn : {false, true}) {
    steps::AsyncSteps one{b.loop}, two{b.loop};
    one.add(pops(q, got, 10));
    two.add(pops(q, got, 20));
    one.execute();
    two.execute();
    b.drain();
    const auto both = [&] {
      q.enqueue(1);
      one.cancel();
    };
    in_turn ? b.loop.post(both) : both();
    b.drain();
    CHECK(got == ints{21});
    got.clear();
  }
  CHECK(q.empty());
  CHECK(local::live() == 0);
}

TEST_CASE("an element that arrives before its flow is destroyed stays in the queue") {
  bench b;
  async::queue<int> q;
  ints got;
  {
    steps::AsyncSteps flow{b.loop};
    flow.add(pops(q, got));
    flow.execute();
    b.drain();
    q.enqueue(2);
  }
  b.drain();
  CHECK(q.dequeue() == 2);
  CHECK(got.empty());
  CHECK(local::live() == 0);
}

TEST_CASE("a step's timeout that comes with the element leaves it in the queue, or comes too late") {
  bench b;
  async::queue<int> q;
  ints got;
  lines seen;
  steps::AsyncSteps flow{b.loop};
  flow.add(co([&](IAsyncSteps& asi) -> task<> {
             asi.setTimeout(5ms);
             got.push_back(*co_await q.pop());
           }),
           noting_code(seen));
  flow.execute();
  b.drain();
  b.clock.advance(5ms);
  q.enqueue(1);
  b.drain();
  const std::optional<int> left = q.dequeue();
  CHECK(got.size() + seen.size() == 1);
  CHECK(got.size() + (left ? 1U : 0U) == 1);
}

TEST_CASE("a loop that ends while a notification is under way leaves the element in the queue") {
  async::queue<int> q;
  ints got;
  {
    bench b;
    steps::AsyncSteps flow{b.loop};
    flow.add(pops(q, got));
    flow.execute();
    b.drain();
    q.enqueue(1);
    q.enqueue(2);
  }
  CHECK(local::live() == 0);
  {
    std::optional<async::event_loop> loop(std::in_place);
    steps::AsyncSteps flow{*loop};
    flow.add(pops(q, got));
    flow.add(pops(q, got));
    flow.add(pops(q, got));
    flow.execute();
    while (loop->iterate().have_work && got.size() != 2) {
    }
    loop->iterate();
    q.enqueue(3);
    loop.reset();
  }
  CHECK(got == ints{1, 2});
  CHECK(q.dequeue() == 3);
  CHECK(local::live() == 0);
}

TEST_CASE("a coroutine that is no step resumes on the thread that enqueues") {
  async::queue<int> q;
  const auto sum = [](async::queue<int>& from) -> task<int> {
    int all = 0;
    while (const std::optional<int> x = co_await from.pop()) all += *x;
    co_return all;
  };
  std::future<int> result = steps::interop::start(sum(q));
  q.enqueue(1);
  CHECK(q.empty());
  q.enqueue(2);
  q.close();
  CHECK(result.get() == 3);
}

TEST_CASE("steps on a pool: no element is lost or doubled by timeouts and cancels") {
  for (const std::size_t workers : {2U, 4U}) {
    async::threadpool pool(workers);
    async::queue<std::uint64_t> wide;
    async::bounded_queue<std::uint64_t> narrow(2);
    std::atomic<std::uint64_t> got{0}, sent{0}, passed{0}, timeouts{0};
    std::minstd_rand random(static_cast<std::minstd_rand::result_type>(testing::seed()));
    std::atomic<bool> has_ended{false};
    // relaxed, all: sums
    std::thread producer([&] {
      for (std::uint64_t i = 1; !has_ended.load(std::memory_order_relaxed); ++i) {
        wide.enqueue(i);
        sent.fetch_add(i, std::memory_order_relaxed);
        if (i % 8 == 0) std::this_thread::yield();
        while (wide.approx_size() > 100 && !has_ended.load(std::memory_order_relaxed)) std::this_thread::yield();
      }
    });
    const std::size_t rounds = testing::rounds(400);
    for (std::size_t round = 0; round < rounds; ++round) {
      std::vector<std::unique_ptr<steps::AsyncSteps>> flows;
      std::vector<std::future<int>> ends;
      for (int i = 0; i < 24; ++i) {
        const auto dice = static_cast<std::uint32_t>(random());
        flows.push_back(std::make_unique<steps::AsyncSteps>(pool));
        flows.back()->add(co([&, dice](IAsyncSteps& asi) -> task<int> {
                            const local mine;
                            if (dice % 2 == 0) asi.setTimeout(std::chrono::microseconds(dice / 2 % 300));
                            for (int k = 0; k < 20; ++k) {
                              if (dice / 2 % 2 == 0) {  // from the first queue to the second
                                const std::optional<std::uint64_t> x = co_await wide.pop();
                                got.fetch_add(*x, std::memory_order_relaxed);
                                if (co_await narrow.push(*x)) passed.fetch_add(*x, std::memory_order_relaxed);
                              } else {
                                const std::optional<std::uint64_t> x = co_await narrow.pop();
                                passed.fetch_sub(*x, std::memory_order_relaxed);
                              }
                            }
                            co_return 1;
                          }),
                          [&timeouts](IAsyncSteps& asi, ErrorCode code) {
                            if (code == steps::errors::Timeout) timeouts.fetch_add(1, std::memory_order_relaxed);
                            asi.success(0);
                          });
        ends.push_back(flows.back()->promise<int>());
      }
      if (round % 4 != 0) std::this_thread::yield();
      for (std::size_t i = 0; i < flows.size(); ++i) {
        if (i % 3 == 0)
          flows[i].reset();
        else
          flows[i]->cancel();
      }
      for (auto& end : ends) {
        try {
          end.get();
        } catch (const std::future_error&) {
        }
      }
    }
    has_ended.store(true, std::memory_order_relaxed);
    producer.join();
    pool.stop();
    while (const auto x = wide.dequeue()) got.fetch_add(*x);
    while (const auto x = narrow.dequeue()) passed.fetch_sub(*x);
    CHECK(got.load() == sent.load());
    CHECK(passed.load() == 0);
    CHECK(local::live() == 0);
  }
}

TEST_CASE("steps on a pool: those that wait get all elements, although others are cancelled with theirs") {
  for (const std::size_t workers : {2U, 4U}) {
    async::threadpool pool(workers);
    async::queue<int> q;
    const std::size_t rounds = testing::rounds(2'000);
    for (std::size_t round = 0; round < rounds; ++round) {
      constexpr int count = 6;
      std::vector<std::unique_ptr<steps::AsyncSteps>> flows;
      std::vector<std::future<int>> kept;
      for (int i = 0; i < 2 * count; ++i) {
        flows.push_back(std::make_unique<steps::AsyncSteps>(pool));
        flows.back()->add(co([&q](IAsyncSteps&) -> task<int> {
          const local mine;
          const std::optional<int> x = co_await q.pop();
          co_return *x;
        }));
        std::future<int> end = flows.back()->promise<int>();
        if (i % 2 != 0) kept.push_back(std::move(end));
      }
      std::thread producer([&q] {
        for (int i = 0; i < count; ++i) q.enqueue(1);
      });
      for (std::size_t i = 0; i < flows.size(); i += 2) flows[i]->cancel();
      producer.join();
      for (std::size_t i = 0; i < flows.size(); i += 2) flows[i].reset();
      // Those that were cancelled have taken at most all: as many again are enough.
      for (int i = 0; i < count; ++i) q.enqueue(1);
      int sum = 0;
      for (auto& end : kept) {
        const bool in_time = end.wait_for(60s) == std::future_status::ready;
        REQUIRE(in_time);
        sum += end.get();
      }
      CHECK(sum == count);
      while (q.dequeue()) {
      }
    }
    pool.stop();
    CHECK(local::live() == 0);
  }
}
