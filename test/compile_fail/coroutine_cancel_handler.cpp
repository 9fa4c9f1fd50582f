// SPDX-License-Identifier: BSL-1.0
//
// A cancel handler cannot wait.
// expect: a cancel handler cannot wait
#include "steps/interop/coroutine.hpp"
#include "steps/steps.hpp"

int main() {
  async::event_loop loop;
  steps::AsyncSteps flow{loop};
  flow.add([](steps::IAsyncSteps& asi) {
#ifndef CONTROL
    asi.setCancel(steps::interop::co([](steps::IAsyncSteps&) -> steps::interop::task<> { co_return; }));
#else
    asi.setCancel([] {});
#endif
  });
}
