// SPDX-License-Identifier: BSL-1.0
//
// co_await of a number.
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
