// SPDX-License-Identifier: BSL-1.0
//
// What a step cannot wait for.
// expect: await\(\) takes a future that is moved in, a queue, an event
#include <string>

#include "steps/steps.hpp"

int main() {
  async::event_loop loop;
  async::event event;
  steps::AsyncSteps flow{loop};
#ifndef CONTROL
  flow.await(std::string("done"));
#else
  flow.await(event);
#endif
}
