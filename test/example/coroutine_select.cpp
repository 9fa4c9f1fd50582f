// SPDX-License-Identifier: BSL-1.0
//
// A kitchen: coroutines that serve two queues until they are told to stop. Each waits for the first of several things
// without a thread. Some are steps of flows on a pool, with a timeout for each; others resume where orders come in.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <vector>

#include "async/async.hpp"
#include "steps/interop/coroutine.hpp"
#include "steps/steps.hpp"

namespace {

using namespace std::chrono_literals;
using steps::IAsyncSteps;
using steps::interop::co;
using steps::interop::start;
using steps::interop::task;

struct kitchen {
  async::queue<int> urgent, orders;
  async::bounded_queue<int> counter{8}, hatch{8};  // where meals wait for the waiter
  async::event closing;
  std::atomic<int> idle{0};
};

// [select]
task<> cook(kitchen& k) {
  for (bool is_open = true; is_open;) {
    int order = 0;
    const auto take = [&order](int o) { order = o; };
    co_await async::selection(                                      // the first that is ready, in this order
        async::on_pop(k.urgent, take),                              // the order has left its queue
        async::on_pop(k.orders, take),                              //
        async::on_set(k.closing, [&is_open] { is_open = false; }),  // no order was left
        async::after(10ms, [&k] { ++k.idle; }));
    if (order == 0) continue;
    co_await async::selection(async::on_push(k.counter, 3 * order), async::on_push(k.hatch, 3 * order));
  }
}
// [/select]

}  // namespace

int main() {
  constexpr int count = 10'000;
  async::threadpool pool(2);
  kitchen k;  // outlives the coroutines

  std::vector<async::future<void>> cooks;
  for (int i = 0; i < 50; ++i) cooks.push_back(start(cook(k)));
  for (int i = 0; i < 50; ++i) {
    cooks.push_back(steps::post(pool, [&k](IAsyncSteps& asi) {
      asi.setTimeout(60s);  // ends the coroutine where it waits; the order stays in its queue
      asi.add(co([&k](IAsyncSteps&) { return cook(k); }));
    }));
  }
  auto clerk = pool.post([&k] {
    for (int o = 1; o <= count; ++o) o % 10 == 0 ? k.urgent.enqueue(o) : k.orders.enqueue(o);
  });

  long sum = 0;
  int meals = 0;
  const auto carry = [&](int meal) {
    sum += meal;
    ++meals;
  };
  while (meals < count) async::select(async::on_pop(k.counter, carry), async::on_pop(k.hatch, carry));
  clerk.get();
  k.closing.set();
  for (async::future<void>& each : cooks) each.get();
  std::printf("%d meals, sum %ld\n", meals, sum);
  return sum == 3L * count / 2 * (count + 1) && k.urgent.empty() && k.orders.empty() ? 0 : 1;
}
