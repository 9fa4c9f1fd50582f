// SPDX-License-Identifier: BSL-1.0
//
// The element would be lost with a coroutine that never begins.
// expect: the function is a coroutine, which begins when it is awaited
#include "async/queue.hpp"
#include "async/select.hpp"
#include "steps/interop/coroutine.hpp"

steps::interop::task<> nothing() { co_return; }

int main() {
  async::queue<int> queue;
  queue.enqueue(1);
#ifndef CONTROL
  async::select(async::on_pop(queue, [](int) { return nothing(); }));
#else
  async::select(async::on_pop(queue, [](int) { steps::interop::start(nothing()); }));
#endif
}
