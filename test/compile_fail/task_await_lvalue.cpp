// SPDX-License-Identifier: BSL-1.0
//
// co_await takes a task away, which has to be seen.
// expect: co_await takes the task away: write co_await std::move\(task\)
#include <utility>

#include "steps/interop/coroutine.hpp"

steps::interop::task<int> number() { co_return 1; }

steps::interop::task<int> wait() {
  steps::interop::task<int> one = number();
#ifndef CONTROL
  co_return co_await one;
#else
  co_return co_await std::move(one);
#endif
}

int main() { steps::interop::start(wait()); }
