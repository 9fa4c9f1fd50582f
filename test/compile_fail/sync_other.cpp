// SPDX-License-Identifier: BSL-1.0
//
// A lock is held by a task.
// expect: sync\(\) takes a task: call a function
#include "async/threadpool.hpp"
#include "steps/interop/coroutine.hpp"
#include "steps/interop/sync.hpp"
#include "steps/mutex.hpp"

steps::interop::task<int> work(int x) { co_return x; }

steps::interop::task<> wait(async::threadpool& pool, steps::Mutex& mutex) {
#ifndef CONTROL
  co_await steps::interop::sync(mutex, [] { return work(1); });
  static_cast<void>(pool);
#else
  co_await steps::interop::schedule(pool);
  co_await steps::interop::sync(mutex, work(1));
#endif
}

int main() {
  async::threadpool pool(1);
  steps::Mutex mutex;
  steps::interop::start(wait(pool, mutex)).get();
}
