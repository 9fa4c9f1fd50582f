// SPDX-License-Identifier: BSL-1.0
//
// The body of repeat() gets the index before the results of the step before.
// expect: the body of repeat\(\) is called as f\(IAsyncSteps&, std::size_t index, results\.\.\.\)
#include <cstddef>
#include <string>

#include "steps/steps.hpp"

int main() {
  async::event_loop loop;
  steps::AsyncSteps flow{loop};
#ifndef CONTROL
  flow.repeat(3, [](steps::IAsyncSteps&, std::string) {});
#else
  flow.repeat(3, [](steps::IAsyncSteps&, std::size_t, std::string) {});
#endif
}
