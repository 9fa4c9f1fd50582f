// SPDX-License-Identifier: BSL-1.0
//
// A coroutine goes to a pool by schedule().
// expect: co_await schedule\(pool\)
#include <chrono>

#include "async/threadpool.hpp"
#include "steps/interop/coroutine.hpp"

using namespace std::chrono_literals;

steps::interop::task<> wait(async::threadpool& pool) {
#ifndef CONTROL
  co_await pool;
#else
  co_await steps::interop::schedule(pool);
#endif
}

int main() {
  async::threadpool pool(1);
  steps::interop::start(wait(pool)).get();
}
