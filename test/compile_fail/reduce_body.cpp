// SPDX-License-Identifier: BSL-1.0
//
// The body of a reduce takes the value before the element.
// expect: the body of parallel_reduce\(\) follows the identity
#include <functional>
#include <string>
#include <vector>

#include "async/parallel_reduce.hpp"

int main() {
  async::threadpool pool(1);
  const std::vector<std::string> all(10, "x");
#ifndef CONTROL
  const auto add = [](const std::string& s, std::size_t sum) { return sum + s.size(); };
#else
  const auto add = [](std::size_t sum, const std::string& s) { return sum + s.size(); };
#endif
  return async::parallel_reduce(pool, all, std::size_t{0}, add, std::plus<>()) == 10 ? 0 : 1;
}
