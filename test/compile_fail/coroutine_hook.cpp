// SPDX-License-Identifier: BSL-1.0
//
// A hook of a pool is called, not awaited.
// expect: the function is a coroutine, which begins when it is awaited
#include "async/threadpool.hpp"
#include "steps/interop/coroutine.hpp"

steps::interop::task<> nothing() { co_return; }

int main() {
#ifndef CONTROL
  async::threadpool pool({.on_thread_start = [](std::size_t) { return nothing(); }});
#else
  async::threadpool pool({.on_thread_start = [](std::size_t) { steps::interop::start(nothing()); }});
#endif
}
