// SPDX-License-Identifier: BSL-1.0
//
// The pool is the first argument of a loop, the body the last that it needs.
// expect: parallel_for\(\) and parallel_reduce\(\) take, after the pool
#include <vector>

#include "async/parallel_for.hpp"

int main() {
  async::threadpool pool(1);
  std::vector<int> all(10);
  const auto body = [](int& x) { ++x; };
#ifndef CONTROL
  async::parallel_for(pool, body, all);
#else
  async::parallel_for(pool, all, body);
#endif
}
