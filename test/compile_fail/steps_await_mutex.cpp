// SPDX-License-Identifier: BSL-1.0
//
// A lock is for a step.
// expect: write sync\(object, f\)
#include "steps/steps.hpp"

int main() {
  async::event_loop loop;
  steps::Mutex mutex;
  steps::AsyncSteps flow{loop};
#ifndef CONTROL
  flow.await(mutex);
#else
  flow.sync(mutex, [](steps::IAsyncSteps&) {});
#endif
}
