// SPDX-License-Identifier: BSL-1.0
//
// Nobody awaits what a cancel handler returns.
// expect: the function is a coroutine, which begins when it is awaited
#include "steps/interop/coroutine.hpp"
#include "steps/steps.hpp"

steps::interop::task<> nothing() { co_return; }

int main() {
  async::event_loop loop;
  steps::AsyncSteps flow{loop};
  flow.add([](steps::IAsyncSteps& asi) {
#ifndef CONTROL
    asi.setCancel(nothing);
#else
    asi.setCancel([] { steps::interop::start(nothing()); });
#endif
  });
}
