// SPDX-License-Identifier: BSL-1.0
//
// A coroutine has a lock as a step.
// expect: co_await sync\(lock, task\)
#include <chrono>

#include "steps/interop/coroutine.hpp"
#include "steps/steps.hpp"

using namespace std::chrono_literals;

steps::interop::task<> wait(steps::IAsyncSteps& asi, steps::Mutex& mutex) {
#ifndef CONTROL
  co_await mutex;
#else
  co_await steps::interop::sleep_for(asi.tool(), 10ms);
#endif
}

int main() {
  async::event_loop loop;
  steps::Mutex mutex;
  steps::AsyncSteps flow{loop};
  flow.sync(mutex, steps::interop::co([&mutex](steps::IAsyncSteps& asi) { return wait(asi, mutex); }));
}
