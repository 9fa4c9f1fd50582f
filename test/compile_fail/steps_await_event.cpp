// SPDX-License-Identifier: BSL-1.0
//
// A flow waits for an event that outlives it.
// expect: a flow refers to its event, which outlives it: pass no temporary
#include "async/event.hpp"
#include "steps/steps.hpp"

int main() {
  async::event_loop loop;
  async::event event;
  steps::AsyncSteps flow{loop};
  flow.await(event);
#ifndef CONTROL
  flow.await(async::event());
#endif
}
