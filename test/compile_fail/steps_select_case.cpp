// SPDX-License-Identifier: BSL-1.0
//
// A case is used once, in the call that it is made in.
// expect: asi\.select\(\) takes cases that are made in the call
#include <chrono>

#include "async/select.hpp"
#include "steps/steps.hpp"

int main() {
  async::event_loop loop;
  steps::AsyncSteps flow{loop};
#ifndef CONTROL
  auto limit = async::after(std::chrono::seconds(1));
  flow.select(limit);
#else
  flow.select(async::after(std::chrono::seconds(1)), [](steps::IAsyncSteps&, steps::ErrorCode) {});
#endif
}
