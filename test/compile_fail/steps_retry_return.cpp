// SPDX-License-Identifier: BSL-1.0
//
// A value that the function of retry() returned would be lost.
// expect: the function of retry\(\) returns void
#include <cstddef>

#include "steps/steps.hpp"

int main() {
  async::event_loop loop;
  steps::AsyncSteps flow{loop};
  flow.retry({.attempts = 3}, [](steps::IAsyncSteps& asi, std::size_t number) { asi.success(number); });
#ifndef CONTROL
  flow.retry({.attempts = 3}, [](steps::IAsyncSteps&, std::size_t number) { return number; });
#endif
}
