// SPDX-License-Identifier: BSL-1.0
//
// The same in a task of steps::interop.
// expect: write co_await event\.on_set\(\)
#include "async/event.hpp"
#include "steps/interop/coroutine.hpp"

steps::interop::task<> wait(async::event& event) {
#ifndef CONTROL
  co_await event;
#else
  co_await event.on_set();
#endif
}

int main() {
  async::event event(true);
  steps::interop::start(wait(event));
}
