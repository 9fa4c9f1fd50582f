// SPDX-License-Identifier: BSL-1.0
//
// A future has a value of its own.
// expect: has a type that can be moved, or void

#include "steps/steps.hpp"

int main() {
  async::event_loop loop;
  steps::AsyncSteps flow{loop};
  (void)flow.promise<int>();
#ifndef CONTROL
  (void)flow.promise<int&>();
#endif
}
