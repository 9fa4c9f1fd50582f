// SPDX-License-Identifier: BSL-1.0
//
// when_all() is no task, and gets a time limit by the coroutine that awaits it.
// expect: with_timeout\(\) takes a task: await anything else
#include <chrono>

#include "steps/interop/when_all.hpp"
#include "steps/interop/with_timeout.hpp"

using namespace steps::interop;

task<int> work() { co_return 1; }

task<> limited() {
#ifndef CONTROL
  co_await with_timeout(std::chrono::seconds(1), when_all(work(), work()));
#else
  co_await with_timeout(std::chrono::seconds(1), []() -> task<> { co_await when_all(work(), work()); }());
#endif
}
