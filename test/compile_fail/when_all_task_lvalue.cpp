// SPDX-License-Identifier: BSL-1.0
//
// when_all() takes tasks away, which has to be seen.
// expect: when_all\(\) takes the tasks away: write std::move\(task\)
#include <utility>

#include "steps/interop/when_all.hpp"

steps::interop::task<int> number() { co_return 1; }

int main() {
  steps::interop::task<int> one = number();
#ifndef CONTROL
  static_cast<void>(steps::interop::when_all(one, number()));
#else
  static_cast<void>(steps::interop::when_all(std::move(one), number()));
#endif
}
