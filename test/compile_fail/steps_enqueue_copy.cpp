// SPDX-License-Identifier: BSL-1.0
//
// An element that cannot be copied is moved into the step.
// expect: write enqueue\(queue, std::move\(element\)\)
#include <memory>
#include <utility>

#include "steps/steps.hpp"

int main() {
  async::event_loop loop;
  async::queue<std::unique_ptr<int>> queue;
  auto element = std::make_unique<int>(1);
  steps::AsyncSteps flow{loop};
#ifndef CONTROL
  flow.enqueue(queue, element);
#else
  flow.enqueue(queue, std::move(element));
#endif
}
