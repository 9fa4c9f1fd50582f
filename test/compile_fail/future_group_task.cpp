// SPDX-License-Identifier: BSL-1.0
//
// A group has futures as members; a task begins when it is awaited or started.
// expect: add\(\) takes futures: write add\(start\(task\)\)
#include "async/future_group.hpp"
#include "steps/interop/coroutine.hpp"

steps::interop::task<int> work() { co_return 1; }

int main() {
  async::future_group group;
#ifndef CONTROL
  group.add(work());
#else
  group.add(steps::interop::start(work()));
#endif
}
