// SPDX-License-Identifier: BSL-1.0
//
// A step does not wait for its end functions.
// expect: the function is a coroutine, which begins when it is awaited
#include "steps/interop/coroutine.hpp"
#include "steps/steps.hpp"

steps::interop::task<> nothing() { co_return; }

int main() {
  async::event_loop loop;
  steps::AsyncSteps flow{loop};
  flow.add([](steps::IAsyncSteps& asi) {
#ifndef CONTROL
    asi.onEnd(nothing);
#else
    asi.onEnd([] { steps::interop::start(nothing()); });
#endif
  });
}
