// SPDX-License-Identifier: BSL-1.0
//
// Tasks side by side are tasks.
// expect: when_all\(\) takes tasks only
#include "async/threadpool.hpp"
#include "steps/interop/coroutine.hpp"
#include "steps/interop/when_all.hpp"
#include "steps/mutex.hpp"

steps::interop::task<int> work(int x) { co_return x; }

steps::interop::task<> wait(async::threadpool& pool, steps::Mutex& mutex) {
#ifndef CONTROL
  co_await steps::interop::when_all(pool.post([] { return 1; }), work(2));
  static_cast<void>(mutex);
#else
  co_await steps::interop::schedule(pool);
  co_await steps::interop::when_all(work(1), work(2));
  static_cast<void>(mutex);
#endif
}

int main() {
  async::threadpool pool(1);
  steps::Mutex mutex;
  steps::interop::start(wait(pool, mutex)).get();
}
