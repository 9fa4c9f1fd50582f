// SPDX-License-Identifier: BSL-1.0
//
// A wait for a queue takes an element out of it.
// expect: a flow changes the queue that it waits for: not const
#include "async/bounded_queue.hpp"
#include "steps/steps.hpp"

int main() {
  async::event_loop loop;
  async::bounded_queue<int> queue(1);
  steps::AsyncSteps flow{loop};
  flow.await(queue);
#ifndef CONTROL
  const auto& seen = queue;
  flow.await(seen);
#endif
}
