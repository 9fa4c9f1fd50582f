// SPDX-License-Identifier: BSL-1.0
//
// A step waits for the queue, not for a pointer to it.
// expect: write await\(\*pointer\)
#include "steps/steps.hpp"

int main() {
  async::event_loop loop;
  async::queue<int> queue;
  steps::AsyncSteps flow{loop};
#ifndef CONTROL
  flow.await(&queue);
#else
  flow.await(queue);
#endif
}
