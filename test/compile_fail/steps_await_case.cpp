// SPDX-License-Identifier: BSL-1.0
//
// await() takes no case of select().
// expect: write select\(case\)
#include <chrono>

#include "async/select.hpp"
#include "steps/steps.hpp"

using namespace std::chrono_literals;

int main() {
  async::event_loop loop;
  steps::AsyncSteps flow{loop};
#ifndef CONTROL
  flow.await(async::after(10ms));
#else
  flow.select(async::after(10ms));
#endif
}
