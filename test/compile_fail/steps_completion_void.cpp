// SPDX-License-Identifier: BSL-1.0
//
// A wait without results has no type for them.
// expect: a wait without results is completion<>\(\)
#include "steps/steps.hpp"

void wait(steps::IAsyncSteps& asi) {
  asi.completion<>().success();
#ifndef CONTROL
  asi.completion<void>().success();
#endif
}
