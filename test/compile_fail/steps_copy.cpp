// SPDX-License-Identifier: BSL-1.0
//
// A step function takes its `asi` by reference; a copy would be no step.
// expect: (deleted function|deleted constructor|use of deleted)
#include "steps/steps.hpp"

int main() {
  async::event_loop loop;
  steps::AsyncSteps flow{loop};
  flow.add([](steps::IAsyncSteps& asi) {
    auto& same = asi;
    same.success();
#ifndef CONTROL
    auto copy = asi;
#endif
  });
}
