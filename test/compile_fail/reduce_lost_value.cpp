// SPDX-License-Identifier: BSL-1.0
//
// A body that returns nothing changes the value itself, not a copy.
// expect: a body that returns nothing changes the value
#include <functional>
#include <vector>

#include "async/parallel_reduce.hpp"

int main() {
  async::threadpool pool(1);
  const std::vector<int> all(10, 1);
#ifndef CONTROL
  const auto add = [](long sum, int x) { sum += x; };
#else
  const auto add = [](long& sum, int x) { sum += x; };
#endif
  return async::parallel_reduce(pool, all, 0L, add, std::plus<>()) == 10 ? 0 : 1;
}
