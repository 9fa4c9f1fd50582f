// SPDX-License-Identifier: BSL-1.0
//
// What is no awaitable is not awaited.
// expect: co_await takes a task, a future
#include "steps/interop/coroutine.hpp"

steps::interop::task<> work(int value) {
#ifndef CONTROL
  co_await value;
#endif
  static_cast<void>(value);
  co_return;
}

int main() { static_cast<void>(&work); }
