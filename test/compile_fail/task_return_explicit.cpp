// SPDX-License-Identifier: BSL-1.0
//
// co_return makes no conversion that has to be asked for: this would be a vector of five elements.
// expect: co_return takes what converts to the task's type without a cast: name the type, co_return T\(\.\.\.\)
#include <vector>

#include "steps/interop/coroutine.hpp"

steps::interop::task<std::vector<int>> work() {
#ifndef CONTROL
  co_return 5;
#else
  co_return std::vector<int>(5);
#endif
}

int main() { steps::interop::start(work()); }
