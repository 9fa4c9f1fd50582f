// SPDX-License-Identifier: BSL-1.0
#include <async/task.hpp>

#include <cstdio>
#include <utility>

#include "second.hpp"

int main() {
  int sum = 0;
  async::task add([&sum] { sum += 1; });
  run_elsewhere(std::move(add));
  if (&counter_here() != &counter_elsewhere() || sum != 1) {
    std::puts("the two halves of the program do not share one library");
    return 1;
  }
  return 0;
}
