// SPDX-License-Identifier: BSL-1.0
//
// In a flow, the handler of a case is a step function.
// expect: asi\.select\(\) calls the handlers of its cases as step functions
#include "async/queue.hpp"
#include "async/select.hpp"
#include "steps/steps.hpp"

int main() {
  async::event_loop loop;
  async::queue<int> queue;
  steps::AsyncSteps flow{loop};
#ifndef CONTROL
  flow.select(async::on_pop(queue, [](int) {}));
#else
  flow.select(async::on_pop(queue, [](steps::IAsyncSteps&, int) {}));
#endif
}
