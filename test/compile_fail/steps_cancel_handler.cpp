// SPDX-License-Identifier: BSL-1.0
//
// A cancel handler takes the step, or nothing.
// expect: a cancel handler is called as f\(IAsyncSteps&\) or f\(\)
#include "steps/steps.hpp"

int main() {
  async::event_loop loop;
  steps::AsyncSteps flow{loop};
  flow.add([](steps::IAsyncSteps& asi) {
    asi.setCancel([] {});
    asi.setCancel([](steps::IAsyncSteps&) {});
#ifndef CONTROL
    asi.setCancel([](int) {});
#endif
  });
}
