// SPDX-License-Identifier: BSL-1.0
//
// A program of two translation units on the single header.
#include <cstdio>

#include "program.hpp"

int main() {
  async::threadpool pool(2);
  const long sum = sum_on(pool, 1'000);
  const long end = pool.post(through_a_flow, sum).get();
  if (sum != 500'500 || end != 1'001'002) {
    std::printf("wrong: %ld and %ld\n", sum, end);
    return 1;
  }
  return 0;
}
