// SPDX-License-Identifier: BSL-1.0
//
// A future of a coroutine's task would be ready before the coroutine has begun.
// expect: the function is a coroutine, which begins when it is awaited
#include "async/threadpool.hpp"
#include "steps/interop/coroutine.hpp"

steps::interop::task<int> work(int x) { co_return x; }

int main() {
  async::threadpool pool(1);
#ifndef CONTROL
  pool.post(work, 1).wait();
#else
  pool.post([](int x) { return steps::interop::start(work(x)); }, 1).wait();
#endif
}
