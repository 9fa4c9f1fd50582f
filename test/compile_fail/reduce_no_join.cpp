// SPDX-License-Identifier: BSL-1.0
//
// Two parts of a reduce have to be combined.
// expect: parallel_reduce\(\) needs a join behind the body
#include <functional>
#include <vector>

#include "async/parallel_reduce.hpp"

int main() {
  const std::vector<int> all(10, 1);
#ifndef CONTROL
  return async::parallel_reduce(all, 0, std::plus<>()) == 10 ? 0 : 1;
#else
  return async::parallel_reduce(all, 0, std::plus<>(), std::plus<>()) == 10 ? 0 : 1;
#endif
}
