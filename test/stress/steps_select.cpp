// SPDX-License-Identifier: BSL-1.0
//
// Flows that select on the same queues as threads and other flows, while they are cancelled and time out: each element
// that was put in comes out once, or is still inside.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

#include "async/async.hpp"
#include "async/select.hpp"
#include "steps/steps.hpp"
#include "support/scale.hpp"

namespace {

using async::after;
using async::on_pop;
using async::on_push;
using async::on_ready;
using steps::ErrorCode;
using steps::IAsyncSteps;
using namespace std::chrono_literals;

unsigned random_number() {
  thread_local unsigned random = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(&random));
  random = random * 1664525U + 1013904223U;
  return random >> 16;
}
std::chrono::microseconds moment(unsigned most) { return std::chrono::microseconds(random_number() % most); }

struct exchange {
  explicit exchange(std::size_t count) : in(count), out(count) {}

  async::queue<std::size_t> a, b;
  async::bounded_queue<std::size_t> c{1}, d{4};
  std::vector<std::atomic<int>> in, out;  // how often each number went in and came out
  std::atomic<std::size_t> next{0};

  bool is_number(std::size_t& n) {
    n = next.fetch_add(1, std::memory_order_relaxed);
    return n < in.size();
  }
  void note_in(std::size_t n) { in[n].fetch_add(1, std::memory_order_relaxed); }
  void note_out(std::size_t n) { out[n].fetch_add(1, std::memory_order_relaxed); }

  /// Adds a step that takes one number, or none in a while.
  void take(IAsyncSteps& asi) {
    const auto keep = [this](IAsyncSteps&, std::size_t n) { note_out(n); };
    switch (random_number() % 4) {
      case 0:
        asi.select(on_pop(a, keep), on_pop(c, keep), on_pop(b, keep), on_pop(d, keep));
        return;
      case 1:
        asi.select(on_pop(d, keep), on_pop(c, keep), on_pop(b, keep), on_pop(a, keep), after(moment(200)));
        return;
      case 2:
        asi.select(on_pop(b, keep), on_pop(a, keep), after(moment(50)));
        return;
      default:
        asi.await(a).add(keep);
    }
  }
  /// Adds a step that puts a number in, or gives up after a while.
  void put(IAsyncSteps& asi) {
    std::size_t n = 0;
    if (!is_number(n)) return asi.breakLoop();
    const auto done = [this, n](IAsyncSteps&) { note_in(n); };
    asi.select(on_push(c, n, done), on_push(d, n, done), after(moment(300), [this, n](IAsyncSteps& late) {
                 note_in(n);
                 late.enqueue(a, n);
               }));
  }

  void consume_by_flow(IAsyncSteps& asi) {
    asi.loop([this](IAsyncSteps& turn) {
      turn.add(
          [this](IAsyncSteps& one) {
            if (random_number() % 2 == 0) one.setTimeout(moment(300));
            take(one);
          },
          [](IAsyncSteps& handler, ErrorCode code) {
            if (code == steps::errors::Timeout) handler.success();
          });
    });
  }
  void produce_by_thread() {
    for (std::size_t n = 0; is_number(n);) {
      note_in(n);
      n % 3 == 0 ? a.enqueue(n) : n % 3 == 1 ? b.enqueue(n) : c.blocking_enqueue(n);
    }
  }
  void consume_by_thread() {
    const auto keep = [this](std::size_t n) { note_out(n); };
    while (async::select(on_pop(c, keep), on_pop(d, keep), on_pop(a, keep), on_pop(b, keep)) != async::nothing_left) {
      if (random_number() % 8 == 0) std::this_thread::sleep_for(moment(100));  // lets flows have their share
    }
  }
  void close() { a.close(), b.close(), c.close(), d.close(); }
};

}  // namespace

TEST_CASE("each element comes out once, while flows that select are cancelled, time out and are resized away") {
  const std::size_t rounds = testing::rounds(60);
  std::size_t elements = 0;
  for (std::size_t round = 0; round != rounds; ++round) {
    exchange all(1000);
    {
      async::threadpool pool(1 + round % 3);
      std::vector<std::unique_ptr<steps::AsyncSteps>> consumers;
      for (int i = 0; i < 12; ++i) {
        consumers.push_back(std::make_unique<steps::AsyncSteps>(pool));
        consumers.back()->add([&all](IAsyncSteps& asi) { all.consume_by_flow(asi); });
        consumers.back()->state().set_unhandled_error([](ErrorCode) {});  // QueueClosed
        consumers.back()->execute();
      }
      std::vector<async::future<void>> producers;
      for (int i = 0; i < 4; ++i) {
        producers.push_back(
            steps::post(pool, [&all](IAsyncSteps& asi) { asi.loop([&all](IAsyncSteps& turn) { all.put(turn); }); }));
      }
      std::thread producer([&all] { all.produce_by_thread(); });
      std::thread consumer([&all] { all.consume_by_thread(); });
      for (std::size_t i = 0; i < 9; ++i) {
        std::this_thread::sleep_for(moment(400));
        i % 3 == 0 ? consumers[i].reset() : consumers[i]->cancel();
        if (i % 4 == 1) pool.configurepool(1 + random_number() % 3);
      }
      producer.join();
      for (auto& end : producers) end.get();
      if (round % 4 == 0) pool.stop();  // with flows that wait
      all.close();
      consumer.join();
    }
    while (const auto left = all.a.dequeue()) all.note_out(*left);
    while (const auto left = all.b.dequeue()) all.note_out(*left);
    while (const auto left = all.c.dequeue()) all.note_out(*left);
    while (const auto left = all.d.dequeue()) all.note_out(*left);
    for (std::size_t n = 0; n != all.in.size(); ++n) {
      CAPTURE(n);
      REQUIRE(all.in[n] == 1);
      REQUIRE(all.out[n] == 1);
    }
    elements += all.in.size();
  }
  std::printf("count: %zu elements\n", elements);
}

TEST_CASE("flows that only wait, without limits, miss no element and no result") {
  const std::size_t rounds = testing::rounds(300);
  for (std::size_t round = 0; round != rounds; ++round) {
    async::threadpool pool(1 + round % 3);
    async::queue<int> a;
    async::bounded_queue<int> b(1 + round % 2);
    async::promise<void> stop;
    async::shared_future<void> stopped = stop.get_future().share();
    std::atomic<int> sum{0};
    const auto add = [&sum](IAsyncSteps&, int n) { sum += n; };
    std::vector<async::future<void>> ends;
    for (int i = 0; i < 6; ++i) {
      ends.push_back(steps::post(pool, [&, i](IAsyncSteps& asi) {
        asi.loop([&, i](IAsyncSteps& turn) {
          const auto end = [](IAsyncSteps& last) { last.breakLoop(); };
          i % 2 == 0 ? turn.select(on_pop(a, add), on_pop(b, add), on_ready(stopped, end))
                     : turn.select(on_pop(b, add), on_pop(a, add), on_ready(stopped, end));
        });
      }));
    }
    for (int i = 0; i < 2; ++i) {
      ends.push_back(steps::post(pool, [&, i](IAsyncSteps& asi) {
        asi.repeat(20,
                   [&, i](IAsyncSteps& one, std::size_t) { i == 0 ? one.select(on_push(b, 1)) : one.enqueue(a, 1); });
      }));
    }
    std::thread producer([&] {
      for (int i = 0; i < 20; ++i) {
        a.enqueue(1);
        b.blocking_enqueue(1);
      }
    });
    producer.join();
    while (sum != 80) std::this_thread::yield();
    stop.set_value();
    for (auto& end : ends) end.get();
  }
  std::printf("count: %zu elements\n", 80 * rounds);
}
