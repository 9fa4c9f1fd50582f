// SPDX-License-Identifier: BSL-1.0
//
// The first parameter of a coroutine step is asi.
// expect: co\(f\) calls f\(IAsyncSteps&, results
#include "steps/interop/coroutine.hpp"
#include "steps/steps.hpp"

int main() {
  async::event_loop loop;
  steps::AsyncSteps flow{loop};
#ifndef CONTROL
  flow.add(steps::interop::co([]() -> steps::interop::task<> { co_return; }));
#else
  flow.add(steps::interop::co([](steps::IAsyncSteps&) -> steps::interop::task<> { co_return; }));
#endif
}
