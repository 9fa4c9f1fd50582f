// SPDX-License-Identifier: BSL-1.0
//
// A coroutine that nobody awaits never begins.
// expect: the function is a coroutine, which begins when it is awaited
#include "async/threadpool.hpp"
#include "steps/interop/coroutine.hpp"

steps::interop::task<> work() { co_return; }

int main() {
  async::threadpool pool(1);
#ifndef CONTROL
  pool.execute([] { return work(); });
#else
  pool.execute([] { steps::interop::start(work()); });
#endif
}
