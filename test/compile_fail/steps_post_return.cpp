// SPDX-License-Identifier: BSL-1.0
//
// The future gets the result of success(). A value that the body returned would be lost, and a coroutine would not run.
// expect: the body of a flow returns void
#include "steps/steps.hpp"

int main() {
  async::event_loop loop;
  static_cast<void>(steps::post<int>(loop, [](steps::IAsyncSteps& asi) { asi.success(1); }));
#ifndef CONTROL
  static_cast<void>(steps::post<int>(loop, [](steps::IAsyncSteps&) { return 1; }));
#endif
}
