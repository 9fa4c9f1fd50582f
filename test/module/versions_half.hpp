// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <thread>
#include <vector>

#include "async/async.hpp"
#include "module/versions.hpp"
#include "steps/steps.hpp"

namespace {

using namespace std::chrono_literals;

const void* shared_pool() { return &async::threadpool::shared(); }

int use_pools(int threads) {
  async::threadpool pool(static_cast<std::size_t>(threads));
  std::atomic<int> sum{0};
  for (int i = 0; i != 1000; ++i) pool.execute([&sum, i] { sum += i; });
  pool.wait_idle();
  int failed = sum == 499'500 ? 0 : 1;
  failed += async::async([] { return 7; }).get() == 7 ? 0 : 1;
  failed += pool.post([&pool] { return pool.post([] { return 8; }).get(); }).get() == 8 ? 0 : 1;
  std::atomic<int> runs{0};
  async::parallel_for(pool, 0, 10'000, [&runs](int) { ++runs; });
  return failed + (runs == 10'000 ? 0 : 1);
}

int use_queues(int elements) {
  async::queue<int> queue;
  async::bounded_queue<int> bounded(64);
  std::thread producer([&] {
    for (int i = 1; i <= elements; ++i) queue.enqueue(i);
    queue.close();
  });
  std::thread between([&] {
    int element = 0;
    while (queue.blocking_dequeue(element)) bounded.blocking_enqueue(element);
    bounded.close();
  });
  int element = 0;
  int expected = 0;
  bool in_order = true;
  while (bounded.blocking_dequeue(element)) in_order = in_order && element == ++expected;
  producer.join();
  between.join();
  return in_order && expected == elements ? 0 : 1;
}

int use_flows(int flows) {
  async::threadpool pool(2);
  steps::Mutex mutex;
  int inside = 0;
  std::vector<async::future<int>> ends;
  for (int i = 0; i != flows; ++i) {
    ends.push_back(steps::post<int>(pool, [&mutex, &inside, i](steps::IAsyncSteps& asi) {
      asi.sync(mutex, [&inside](steps::IAsyncSteps& within) {
        ++inside;
        within.add([](steps::IAsyncSteps& waits) { waits.setTimeout(1ms); },
                   [](steps::IAsyncSteps& handler, steps::ErrorCode code) {
                     if (code == steps::errors::Timeout) handler.success();
                   });
      });
      asi.add([i](steps::IAsyncSteps& last) { last.success(i); });
    }));
  }
  int failed = 0;
  for (int i = 0; i != flows; ++i) failed += ends[static_cast<std::size_t>(i)].get() == i ? 0 : 1;
  return failed + (inside == flows ? 0 : 1);
}

void throw_stopped() { throw async::stopped(); }

int throw_through(void (*f)()) {
  try {
    f();
  } catch (const async::stopped&) {
    return 1;
  } catch (const std::runtime_error&) {
    return 0;
  }
  return 1;
}

constexpr module_test::half own_half{&shared_pool, &use_pools, &use_queues, &use_flows, &throw_through, &throw_stopped};

}  // namespace
