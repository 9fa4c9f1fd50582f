// SPDX-License-Identifier: BSL-1.0
//
// A value that a step function returned would be lost.
// expect: a step function returns void
#include <string>

#include "steps/steps.hpp"

int main() {
  async::event_loop loop;
  steps::AsyncSteps flow{loop};
  flow.add([](steps::IAsyncSteps& asi) { asi.success(1); });
#ifndef CONTROL
  flow.add([](steps::IAsyncSteps&) { return 1; });
#endif
}
