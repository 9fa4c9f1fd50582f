// SPDX-License-Identifier: BSL-1.0
//
// A step enqueues what an element can be made from.
// expect: enqueue\(queue, arguments\.\.\.\) makes an element from copies of the arguments
#include <string>

#include "async/queue.hpp"
#include "steps/steps.hpp"

int main() {
  async::event_loop loop;
  async::queue<std::string> queue;
  steps::AsyncSteps flow{loop};
  flow.enqueue(queue, "text");
#ifndef CONTROL
  flow.enqueue(queue, 1.5, queue);
#endif
}
