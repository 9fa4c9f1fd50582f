// SPDX-License-Identifier: BSL-1.0
//
// A wait for the first of no tasks would never end.
// expect: when_any\(\) of no tasks would never end
#include "steps/interop/when_all.hpp"

steps::interop::task<int> number() { co_return 1; }

int main() {
#ifndef CONTROL
  static_cast<void>(steps::interop::when_any());
#else
  static_cast<void>(steps::interop::when_any(number()));
#endif
}
