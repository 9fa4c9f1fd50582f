// SPDX-License-Identifier: BSL-1.0
//
// A deadline is a time point of the loop's clock. Those of other clocks cannot be compared with it.
// expect: a deadline is asi\.tool\(\)\.now\(\) plus a duration
#include <chrono>

#include "steps/steps.hpp"

using namespace std::chrono_literals;

int main() {
  async::event_loop loop;
  steps::AsyncSteps flow{loop};
  flow.add([](steps::IAsyncSteps& asi) {
    asi.setDeadline(asi.tool().now() + 2s);
    asi.setDeadline(std::chrono::steady_clock::now() + 2s);
#ifndef CONTROL
    asi.setDeadline(std::chrono::system_clock::now() + 2s);
#endif
  });
}
