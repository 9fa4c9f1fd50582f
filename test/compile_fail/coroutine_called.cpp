// SPDX-License-Identifier: BSL-1.0
//
// A coroutine that has been called is no function.
// expect: write start\(f\(\)\), which begins it
#include "async/threadpool.hpp"
#include "steps/interop/coroutine.hpp"

steps::interop::task<int> work(int x) { co_return x; }

int main() {
  async::threadpool pool(1);
#ifndef CONTROL
  pool.post(work(1));
#else
  pool.post([] { return steps::interop::start(work(1)); }).get().get();
#endif
}
