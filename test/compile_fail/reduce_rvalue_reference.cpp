// SPDX-License-Identifier: BSL-1.0
//
// A body returns a value.
// expect: the body returns the new value, not a reference
#include <string>
#include <utility>
#include <vector>

#include "async/parallel_reduce.hpp"

int main() {
  async::threadpool pool(1);
  const std::vector<int> all(10, 1);
  const auto join = [](std::string a, const std::string& b) { return a += b; };
#ifndef CONTROL
  const auto add = [](std::string&& text, int) -> std::string&& { return std::move(text += "x"); };
#else
  const auto add = [](std::string&& text, int) -> std::string { return std::move(text += "x"); };
#endif
  return async::parallel_reduce(pool, all, std::string(), add, join).size() == 10 ? 0 : 1;
}
