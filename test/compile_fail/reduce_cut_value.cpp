// SPDX-License-Identifier: BSL-1.0
//
// An identity of type int would cut each sum of doubles.
// expect: an integer would cut: write 0\.0
#include <functional>
#include <vector>

#include "async/parallel_reduce.hpp"

int main() {
  async::threadpool pool(1);
  const std::vector<double> all(10, 0.5);
#ifndef CONTROL
  const auto sum = async::parallel_reduce(pool, all, 0, std::plus<>(), std::plus<>());
#else
  const auto sum = async::parallel_reduce(pool, all, 0.0, std::plus<>(), std::plus<>());
#endif
  return sum > 1 ? 0 : 1;
}
