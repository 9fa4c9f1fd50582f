// SPDX-License-Identifier: BSL-1.0
//
// The function of every() gets asi and the tick.
// expect: the function of every\(\) is called as f\(IAsyncSteps&\) or f\(IAsyncSteps&, const steps::Tick&\)
#include <chrono>
#include <cstddef>

#include "steps/steps.hpp"

int main() {
  async::event_loop loop;
  steps::AsyncSteps flow{loop};
  flow.every(std::chrono::seconds(1), [](steps::IAsyncSteps&, const steps::Tick&) {});
#ifndef CONTROL
  flow.every(std::chrono::seconds(1), [](steps::IAsyncSteps&, std::size_t) {});
#endif
}
