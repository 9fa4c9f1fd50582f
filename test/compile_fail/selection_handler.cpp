// SPDX-License-Identifier: BSL-1.0
//
// In a coroutine, handlers are those of threads: they get no flow.
// expect: on_pop\(queue, f\) calls f\(element\), with an rvalue
#include "async/queue.hpp"
#include "async/select.hpp"
#include "steps/interop/coroutine.hpp"

steps::interop::task<> wait(async::queue<int>& queue) {
#ifndef CONTROL
  co_await async::selection(async::on_pop(queue, [](steps::IAsyncSteps&, int) {}));
#else
  co_await async::selection(async::on_pop(queue, [](int) {}));
#endif
}

int main() {
  async::queue<int> queue;
  queue.enqueue(1);
  steps::interop::start(wait(queue));
}
