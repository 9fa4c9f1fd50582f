// SPDX-License-Identifier: BSL-1.0
//
// A pause is a select() with a time only.
// expect: write select\(async::after\(duration\)\)
#include <chrono>

#include "async/select.hpp"
#include "steps/steps.hpp"

using namespace std::chrono_literals;

int main() {
  async::event_loop loop;
  steps::AsyncSteps flow{loop};
#ifndef CONTROL
  flow.await(10ms);
#else
  flow.select(async::after(10ms));
#endif
}
