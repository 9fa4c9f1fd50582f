// SPDX-License-Identifier: BSL-1.0
//
// A coroutine awaits the execution of a flow.
// expect: co_await execute\(flow\)
#include "steps/interop/coroutine.hpp"
#include "steps/steps.hpp"

steps::interop::task<> work(steps::AsyncSteps& flow) {
#ifndef CONTROL
  co_await flow;
#else
  co_await steps::interop::execute(flow);
#endif
}

int main() { static_cast<void>(&work); }
