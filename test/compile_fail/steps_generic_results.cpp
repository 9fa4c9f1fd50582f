// SPDX-License-Identifier: BSL-1.0
//
// The types of the results are those of the parameters: auto has none.
// expect: asi comes first, what follows needs types
#include <string>

#include "steps/steps.hpp"

int main() {
  async::event_loop loop;
  steps::AsyncSteps flow{loop};
  flow.add([](auto& asi, int v) { asi.success(v); });
#ifndef CONTROL
  flow.add([](auto& asi, auto v) { asi.success(v); });
#endif
}
