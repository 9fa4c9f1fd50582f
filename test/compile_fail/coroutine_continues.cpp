// SPDX-License-Identifier: BSL-1.0
//
// A coroutine as a continuation would not begin.
// expect: the function is a coroutine, which begins when it is awaited
#include "async/threadpool.hpp"
#include "steps/interop/coroutine.hpp"

steps::interop::task<int> work(int x) { co_return x; }

int main() {
  async::threadpool pool(1);
#ifndef CONTROL
  const auto next = [](async::future<int> x) { return work(x.get()); };
#else
  const auto next = [](async::future<int> x) { return steps::interop::start(work(x.get())); };
#endif
  pool.post([] { return 1; }).then(next).wait();
}
