// SPDX-License-Identifier: BSL-1.0
//
// A task gives a value, not a reference.
// expect: task<T> gives a value: return a pointer in place of a reference
#include "steps/interop/coroutine.hpp"

int number = 1;

#ifndef CONTROL
steps::interop::task<int&> work() { co_return number; }
#else
steps::interop::task<int*> work() { co_return &number; }
#endif

int main() { steps::interop::start(work()); }
