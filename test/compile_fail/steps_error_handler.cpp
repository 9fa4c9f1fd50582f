// SPDX-License-Identifier: BSL-1.0
//
// An error handler takes the step and the code.
// expect: an error handler is called as f\(IAsyncSteps&, steps::ErrorCode\)
#include <string>

#include "steps/steps.hpp"

int main() {
  async::event_loop loop;
  steps::AsyncSteps flow{loop};
  flow.add([](steps::IAsyncSteps&) {}, [](steps::IAsyncSteps&, steps::ErrorCode) {});
#ifndef CONTROL
  flow.add([](steps::IAsyncSteps&) {}, [](steps::IAsyncSteps&, int) {});
#endif
}
