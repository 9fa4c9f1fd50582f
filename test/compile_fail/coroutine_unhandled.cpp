// SPDX-License-Identifier: BSL-1.0
//
// A hook is called, not awaited.
// expect: the function is a coroutine, which begins when it is awaited
#include "async/event_loop.hpp"
#include "steps/interop/coroutine.hpp"

steps::interop::task<> nothing() { co_return; }

int main() {
  async::event_loop loop;
#ifndef CONTROL
  loop.on_unhandled([](const std::exception_ptr&) { return nothing(); });
#else
  loop.on_unhandled([](const std::exception_ptr&) { steps::interop::start(nothing()); });
#endif
}
