// SPDX-License-Identifier: BSL-1.0
//
// Results belong to the step that takes them: there is nobody to whom a T& would refer.
// expect: a step takes results by value, T&& or const T&
#include <string>

#include "steps/steps.hpp"

int main() {
  async::event_loop loop;
  steps::AsyncSteps flow{loop};
  flow.add([](steps::IAsyncSteps&, const int&) {});
#ifndef CONTROL
  flow.add([](steps::IAsyncSteps&, int&) {});
#endif
}
