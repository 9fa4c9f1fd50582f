// SPDX-License-Identifier: BSL-1.0
//
// An attempt is awaited.
// expect: returns what is awaited: a task, a future of this library
#include "steps/interop/coroutine.hpp"
#include "steps/interop/retry.hpp"

steps::interop::task<int> ask() { co_return 1; }

steps::interop::task<int> patient() {
#ifndef CONTROL
  co_return co_await steps::interop::retry({.attempts = 3}, [] { return 1; });
#else
  co_return co_await steps::interop::retry({.attempts = 3}, [] { return ask(); });
#endif
}

int main() { steps::interop::start(patient()); }
