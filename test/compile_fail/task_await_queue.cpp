// SPDX-License-Identifier: BSL-1.0
//
// A coroutine waits for an element or for room, not for a queue.
// expect: write co_await queue\.pop\(\)
#include <chrono>

#include "async/queue.hpp"
#include "steps/interop/coroutine.hpp"

using namespace std::chrono_literals;

steps::interop::task<> wait(async::queue<int>& queue) {
#ifndef CONTROL
  co_await queue;
#else
  co_await queue.pop();
#endif
}

int main() {
  async::queue<int> queue;
  steps::interop::start(wait(queue));
}
