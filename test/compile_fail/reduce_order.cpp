// SPDX-License-Identifier: BSL-1.0
//
// The identity stands before the functions of a reduce.
// expect: the body of parallel_reduce\(\) follows the identity
#include <functional>

#include "async/parallel_reduce.hpp"

int main() {
#ifndef CONTROL
  const auto sum = async::parallel_reduce(0, 10, std::plus<>(), std::plus<>(), 0);
#else
  const auto sum = async::parallel_reduce(0, 10, 0, std::plus<>(), std::plus<>());
#endif
  static_cast<void>(sum);
}
