// SPDX-License-Identifier: BSL-1.0
//
// A value that the function of every() returned would be lost.
// expect: the function of every\(\) returns void
#include <chrono>

#include "steps/steps.hpp"

int main() {
  async::event_loop loop;
  steps::AsyncSteps flow{loop};
  flow.every(std::chrono::seconds(1), [](steps::IAsyncSteps& asi) { asi.breakLoop(); });
#ifndef CONTROL
  flow.every(std::chrono::seconds(1), [](steps::IAsyncSteps&, const steps::Tick& tick) { return tick.number; });
#endif
}
