// SPDX-License-Identifier: BSL-1.0
//
// A function for the end of a step takes nothing: the step has ended.
// expect: the function of onEnd\(\) is called as f\(\)
#include "steps/steps.hpp"

int main() {
  async::event_loop loop;
  steps::AsyncSteps flow{loop};
  flow.add([](steps::IAsyncSteps& asi) {
    asi.onEnd([] {});
#ifndef CONTROL
    asi.onEnd([](steps::IAsyncSteps&) {});
#endif
  });
}
