// SPDX-License-Identifier: BSL-1.0
//
// A queue is no case of a selection.
// expect: selection\(\) takes cases that are made in the call
#include "async/queue.hpp"
#include "async/select.hpp"
#include "steps/interop/coroutine.hpp"

steps::interop::task<> wait(async::queue<int>& queue) {
#ifndef CONTROL
  co_await async::selection(queue);
#else
  co_await async::selection(async::on_pop(queue, [](int) {}));
#endif
}

int main() {
  async::queue<int> queue;
  queue.enqueue(1);
  steps::interop::start(wait(queue));
}
