// SPDX-License-Identifier: BSL-1.0
//
// The body of repeat() gets asi, then the index.
// expect: the body of repeat\(\) is called as f\(IAsyncSteps&, std::size_t index, results\.\.\.\)
#include <cstddef>

#include "steps/steps.hpp"

int main() {
  async::event_loop loop;
  steps::AsyncSteps flow{loop};
  flow.repeat(3, [](steps::IAsyncSteps&, std::size_t) {});
#ifndef CONTROL
  flow.repeat(3, [](std::size_t) {});
#endif
}
