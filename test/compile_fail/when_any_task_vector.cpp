// SPDX-License-Identifier: BSL-1.0
//
// when_any() takes a vector of tasks away, which has to be seen.
// expect: when_any\(\) takes the tasks away: write std::move\(tasks\)
#include <utility>
#include <vector>

#include "steps/interop/when_all.hpp"

int main() {
  std::vector<steps::interop::task<int>> tasks;
#ifndef CONTROL
  steps::interop::when_any(tasks);
#else
  static_cast<void>(steps::interop::when_any(std::move(tasks)));
#endif
}
