// SPDX-License-Identifier: BSL-1.0
//
// The identity stands before the functions of a reduce.
// expect: the body of parallel_reduce\(\) follows the identity
#include <functional>

#include "async/parallel_reduce.hpp"

int main() {
#ifndef CONTROL
  return async::parallel_reduce(0, 10, std::plus<>(), std::plus<>(), 0) == 45 ? 0 : 1;
#else
  return async::parallel_reduce(0, 10, 0, std::plus<>(), std::plus<>()) == 45 ? 0 : 1;
#endif
}
