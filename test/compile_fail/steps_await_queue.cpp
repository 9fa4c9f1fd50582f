// SPDX-License-Identifier: BSL-1.0
//
// A flow waits for a queue that outlives it.
// expect: a flow refers to its queue, which outlives it: pass no temporary
#include "async/queue.hpp"
#include "steps/steps.hpp"

int main() {
  async::event_loop loop;
  async::queue<int> queue;
  steps::AsyncSteps flow{loop};
  flow.await(queue);
#ifndef CONTROL
  flow.await(async::queue<int>());
#endif
}
