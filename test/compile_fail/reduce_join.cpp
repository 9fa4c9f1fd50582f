// SPDX-License-Identifier: BSL-1.0
//
// The join of a reduce combines two values, not a value and an element.
// expect: the join of parallel_reduce\(\) is called as join\(left, right\)
#include <string>
#include <vector>

#include "async/parallel_reduce.hpp"

int main() {
  async::threadpool pool(1);
  const std::vector<std::string> all(10, "x");
  const auto add = [](std::size_t sum, const std::string& s) { return sum + s.size(); };
#ifndef CONTROL
  return async::parallel_reduce(pool, all, std::size_t{0}, add, add) == 10 ? 0 : 1;
#else
  const auto join = [](std::size_t left, std::size_t right) { return left + right; };
  return async::parallel_reduce(pool, all, std::size_t{0}, add, join) == 10 ? 0 : 1;
#endif
}
