// SPDX-License-Identifier: BSL-1.0
#include "program.hpp"

long sum_on(async::threadpool& pool, long n) {
  async::queue<long> parts;
  async::parallel_for(pool, 1L, n + 1, [&](long i) { parts.enqueue(i); });
  long sum = 0;
  for (long part = 0; parts.dequeue(part);) sum += part;
  return sum;
}

long through_a_flow(long number) {
  async::event_loop loop;
  steps::AsyncSteps flow{loop};
  steps::Mutex mutex;
  long end = 0;
  flow.add([&](steps::IAsyncSteps& asi) { asi.success(number, 2L); })
      .sync(mutex, [](steps::IAsyncSteps& asi, long a, long b) { asi.success(a * b); })
      .add([&](steps::IAsyncSteps&, long product) { end = product + 2; });
  flow.execute();
  while (loop.iterate().have_work) {
  }
  return end;
}
