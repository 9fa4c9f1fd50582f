// SPDX-License-Identifier: BSL-1.0
//
// The function of retry() gets asi and the number of the attempt, but no results, which only one attempt could have.
// expect: the function of retry\(\) is called as f\(IAsyncSteps&\) or f\(IAsyncSteps&, std::size_t attempt\)
#include <string>

#include "steps/steps.hpp"

int main() {
  async::event_loop loop;
  steps::AsyncSteps flow{loop};
  flow.retry({.attempts = 3}, [](steps::IAsyncSteps&, int) {});
#ifndef CONTROL
  flow.retry({.attempts = 3}, [](steps::IAsyncSteps&, const std::string&) {});
#endif
}
