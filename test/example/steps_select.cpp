// SPDX-License-Identifier: BSL-1.0
//
// Flows that serve two queues until they are told to stop: each waits for the first of several things, without a
// thread, and goes on with steps that belong to it.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <vector>

#include "async/async.hpp"
#include "steps/steps.hpp"

namespace {

using namespace std::chrono_literals;
using steps::IAsyncSteps;

int price_of(int order) { return 3 * order; }

struct shop {
  explicit shop(async::threadpool& p) : pool(p) {}

  async::threadpool& pool;
  async::queue<int> urgent, orders;  // they outlive the flows
  async::bounded_queue<int> bills{4};
  async::promise<void> end;
  async::shared_future<void> closing = end.get_future().share();
  std::atomic<int> idle{0};
};

// [select]
void bill(IAsyncSteps& asi, shop& s, int order) {
  asi.await(s.pool, price_of, order);
  asi.add([&s](IAsyncSteps& step, int price) { step.enqueue(s.bills, price); });
}

void serve(IAsyncSteps& asi, shop& s) {
  asi.loop([&s](IAsyncSteps& turn) {
    turn.select(                                                                        // waits without a thread
        async::on_pop(s.urgent, [&s](IAsyncSteps& step, int o) { bill(step, s, o); }),  // one of these is a step
        async::on_pop(s.orders, [&s](IAsyncSteps& step, int o) { bill(step, s, o); }),
        async::on_ready(s.closing, [](IAsyncSteps& step) { step.breakLoop(); }),  // no order was left
        async::after(10ms, [&s](IAsyncSteps&) { ++s.idle; }));
  });
}
// [/select]

}  // namespace

int main() {
  async::threadpool pool(2);
  shop s(pool);
  std::vector<async::future<void>> clerks;
  for (int i = 0; i < 100; ++i) clerks.push_back(steps::post(pool, [&s](IAsyncSteps& asi) { serve(asi, s); }));
  for (int o = 1; o <= 1'000; ++o) o % 10 == 0 ? s.urgent.enqueue(o) : s.orders.enqueue(o);
  long sum = 0;
  for (int i = 0, bill = 0; i < 1'000; ++i) {
    s.bills.blocking_dequeue(bill);
    sum += bill;
  }
  s.end.set_value();
  for (auto& clerk : clerks) clerk.get();
  std::printf("bills of %ld\n", sum);
  return sum == 3 * 500'500 ? 0 : 1;
}
