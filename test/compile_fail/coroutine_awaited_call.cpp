// SPDX-License-Identifier: BSL-1.0
//
// A step awaits a call of the pool, not a coroutine that it makes there.
// expect: the function is a coroutine, which begins when it is awaited
#include "steps/interop/coroutine.hpp"
#include "steps/steps.hpp"

steps::interop::task<int> work(int x) { co_return x; }

void step(steps::IAsyncSteps& asi, async::threadpool& pool) {
#ifndef CONTROL
  asi.await(pool, work, 1);
#else
  static_cast<void>(pool);
  asi.add(steps::interop::co([](steps::IAsyncSteps&) -> steps::interop::task<int> { return work(1); }));
#endif
}
