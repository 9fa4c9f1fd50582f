// SPDX-License-Identifier: BSL-1.0
//
// A thread's select() has no flow to hand to a handler.
// expect: on_pop\(queue, f\) calls f\(element\), with an rvalue
#include "async/queue.hpp"
#include "async/select.hpp"
#include "steps/steps.hpp"

int main() {
  async::queue<int> queue;
#ifndef CONTROL
  async::select(async::on_pop(queue, [](steps::IAsyncSteps&, int) {}), async::otherwise());
#else
  async::select(async::on_pop(queue, [](int) {}), async::otherwise());
#endif
}
