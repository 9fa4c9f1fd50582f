// SPDX-License-Identifier: BSL-1.0
//
// A range that cannot be cut in constant time is no range for parallel_for.
// expect: parallel_index
#include <list>
#include <vector>

#include "async/parallel_for.hpp"

int main() {
  async::threadpool pool(1);
  std::vector<int> vector(10);
  async::parallel_for(pool, vector.begin(), vector.end(), [](int&) {});
#ifndef CONTROL
  std::list<int> list(10);
  async::parallel_for(pool, list.begin(), list.end(), [](int&) {});
#endif
}
