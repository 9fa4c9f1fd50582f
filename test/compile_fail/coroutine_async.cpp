// SPDX-License-Identifier: BSL-1.0
//
// A future of a task would be ready before the task has begun.
// expect: the function is a coroutine, which begins when it is awaited
#include "async/async.hpp"
#include "steps/interop/coroutine.hpp"

steps::interop::task<> nothing() { co_return; }

int main() {
#ifndef CONTROL
  async::async(nothing).get();
#else
  async::async([] { return steps::interop::start(nothing()); }).get().get();
#endif
}
