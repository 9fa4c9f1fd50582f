// SPDX-License-Identifier: BSL-1.0
//
// A flow does not outlive its event loop.
// expect: deleted|no matching constructor
#include "steps/steps.hpp"

int main() {
#ifndef CONTROL
  steps::AsyncSteps flow{steps::AsyncTool{}};
#else
  steps::AsyncTool tool;
  steps::AsyncSteps flow{tool};
#endif
}
