// SPDX-License-Identifier: BSL-1.0
//
// The body of a loop over integers must take an integer.
// expect: the body of parallel_for\(\) is called as f\(i\)
#include <string>

#include "async/parallel_for.hpp"

int main() {
  async::threadpool pool(1);
  async::parallel_for(pool, 0, 10, [](int) {});
#ifndef CONTROL
  async::parallel_for(pool, 0, 10, [](const std::string&) {});
#endif
}
