// SPDX-License-Identifier: BSL-1.0
//
// A coroutine pauses on a loop.
// expect: write co_await sleep_for\(loop, duration\)
#include <chrono>

#include "async/event_loop.hpp"
#include "steps/interop/coroutine.hpp"

using namespace std::chrono_literals;

steps::interop::task<> wait(async::event_loop& loop) {
#ifndef CONTROL
  co_await 10ms;
#else
  co_await steps::interop::sleep_for(loop, 10ms);
#endif
}

int main() {
  async::event_loop loop;
  steps::interop::start(wait(loop));
}
