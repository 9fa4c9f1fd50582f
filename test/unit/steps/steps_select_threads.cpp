// SPDX-License-Identifier: BSL-1.0
//
// Flows that select, across loops and threads. Rule 43 of steps/RULES.md.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "async/async.hpp"
#include "async/select.hpp"
#include "support/flows.hpp"
#include "support/scale.hpp"

using async::after;
using async::on_pop;
using async::on_push;
using async::on_ready;
using steps::ErrorCode;
using steps::IAsyncSteps;
using testing::bench;
using namespace std::chrono_literals;

namespace {

using numbers = async::queue<int>;
using ring = async::bounded_queue<int>;

}  // namespace

TEST_CASE("rule 43: a loop or a pool that ends while flows wait takes them out of all lines") {
  numbers q;
  ring full(1);
  full.enqueue(1);
  async::promise<void> p;
  async::future<void> f = p.get_future();
  const auto wait_in = [&](IAsyncSteps& asi) {
    asi.select(on_pop(q, [](IAsyncSteps&, int) {}), on_push(full, 2), on_ready(f), after(1h));
  };
  {
    bench b;
    steps::AsyncSteps flow{b.loop};
    wait_in(flow);
    flow.execute();
    b.drain();
  }
  {
    async::threadpool pool(2);
    std::vector<async::future<void>> posted;
    std::vector<std::unique_ptr<steps::AsyncSteps>> flows;
    for (int i = 0; i < 20; ++i) {
      posted.push_back(steps::post(pool, wait_in));
      flows.push_back(std::make_unique<steps::AsyncSteps>(pool));
      wait_in(*flows.back());
      flows.back()->execute();
      if (i == 10) pool.configurepool(1);
    }
    pool.stop();
    for (auto& end : posted) CHECK_THROWS_AS(end.get(), std::future_error);
  }
  CHECK(full.dequeue() == 1);
  q.enqueue(5);
  CHECK(q.dequeue() == 5);
  CHECK(full.dequeue() == std::nullopt);
  p.set_value();
}

TEST_CASE("rule 43: thousands of flows wait on one worker") {
  async::threadpool pool(1);
  numbers q;
  async::promise<void> p;
  const async::shared_future<void> f = p.get_future().share();
  std::atomic<int> elements{0}, results{0};
  std::vector<async::future<void>> ends;
  for (int i = 0; i < 2000; ++i) {
    ends.push_back(steps::post(pool, [&](IAsyncSteps& asi) {
      asi.select(on_ready(f, [&](IAsyncSteps&) { ++results; }), on_pop(q, [&](IAsyncSteps&, int) { ++elements; }),
                 after(1h));
    }));
  }
  for (int i = 0; i < 1000; ++i) q.enqueue(i);
  while (elements != 1000) std::this_thread::yield();
  p.set_value();
  for (auto& end : ends) end.get();
  CHECK(elements == 1000);
  CHECK(results == 1000);
}

TEST_CASE("rule 43: a future that becomes ready on another thread ends the wait, and may do so at its end") {
  const std::size_t rounds = testing::rounds(3000);
  async::threadpool pool(2);
  for (std::size_t round = 0; round < rounds; ++round) {
    numbers q;
    std::atomic<int> ended{0};
    auto p = std::make_unique<async::promise<int>>();
    async::shared_future<int> f = p->get_future().share();
    std::vector<async::future<void>> ends;
    for (int i = 0; i < 3; ++i) {
      ends.push_back(steps::post(pool, [&, i](IAsyncSteps& asi) {
        asi.select(on_pop(q, [&](IAsyncSteps&, int) { ended += 1; }), on_ready(f, [&](IAsyncSteps&) { ended += 10; }),
                   after(i == 0 ? std::chrono::microseconds(round % 100) : 1h, [&](IAsyncSteps&) { ended += 100; }));
      }));
    }
    if (round % 3 == 0) q.enqueue(1);
    if (round % 2 == 0) std::this_thread::yield();
    p->set_value(1);
    if (round % 5 == 0) p.reset();
    for (auto& end : ends) end.get();
    const int sum = ended;
    REQUIRE(sum / 100 + sum / 10 % 10 + sum % 10 == 3);
    REQUIRE(static_cast<int>(q.approx_size()) == (round % 3 == 0 ? 1 : 0) - sum % 10);
  }
}

TEST_CASE("rule 43: no element is lost or doubled by cancels, timeouts and limits that meet it") {
  const std::size_t rounds = testing::scale() * (testing::sanitized ? 300 : 1500);
  async::threadpool pool(2);
  std::size_t met = 0;
  for (std::size_t round = 0; round < rounds; ++round) {
    numbers q;
    ring r(1);
    std::atomic<int> taken{0};
    const auto take = [&taken](IAsyncSteps&, int) { taken.fetch_add(1, std::memory_order_relaxed); };
    {
      std::vector<std::unique_ptr<steps::AsyncSteps>> flows;
      for (std::size_t i = 0; i < 4; ++i) {
        flows.push_back(std::make_unique<steps::AsyncSteps>(pool));
        flows.back()->add([&, i](IAsyncSteps& asi) {
          if (i == 1) asi.setTimeout(std::chrono::microseconds(20 + round % 50));
          if (i == 2) asi.select(on_pop(r, take), on_pop(q, take), after(std::chrono::microseconds(round % 70)));
          if (i == 3) asi.repeat(2, [&](IAsyncSteps& s, std::size_t) { s.select(on_pop(q, take), on_pop(r, take)); });
          if (i < 2) asi.select(on_pop(q, take), on_pop(r, take));
        });
        flows.back()->state().set_unhandled_error([](ErrorCode) {});
        flows.back()->execute();
      }
      for (std::size_t spin = 0; spin < round % 64; ++spin) std::this_thread::yield();
      q.enqueue(1);
      flows[0]->cancel();
      r.enqueue(2);
      if (round % 2 == 0) {  // the last flow stays, so that an element that the others have not taken reaches it
        while (!*flows[3] && taken.load(std::memory_order_relaxed) != 2) std::this_thread::yield();
      }
    }
    int left = 0;
    while (q.dequeue()) ++left;
    while (r.dequeue()) ++left;
    REQUIRE(taken.load() + left == 2);
    met += static_cast<std::size_t>(left);
  }
  MESSAGE("elements that their flow has not taken: ", met);
}
