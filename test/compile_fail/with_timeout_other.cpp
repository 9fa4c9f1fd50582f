// SPDX-License-Identifier: BSL-1.0
//
// A limit is that of a task.
// expect: with_timeout\(\) takes a task
#include "async/threadpool.hpp"
#include "steps/interop/coroutine.hpp"
#include "steps/interop/with_timeout.hpp"
#include "steps/mutex.hpp"

steps::interop::task<int> work(int x) { co_return x; }

steps::interop::task<> wait(async::threadpool& pool, steps::Mutex& mutex) {
#ifndef CONTROL
  co_await steps::interop::with_timeout(std::chrono::seconds(1), pool.post([] { return 1; }));
  static_cast<void>(mutex);
#else
  co_await steps::interop::schedule(pool);
  co_await steps::interop::with_timeout(std::chrono::seconds(1), work(2));
  static_cast<void>(mutex);
#endif
}

int main() {
  async::threadpool pool(1);
  steps::Mutex mutex;
  steps::interop::start(wait(pool, mutex)).get();
}
