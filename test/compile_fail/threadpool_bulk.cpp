// SPDX-License-Identifier: BSL-1.0
//
// bulk_execute takes callables without arguments.
// expect: async_callable
#include <functional>
#include <vector>

#include "async/threadpool.hpp"

int main() {
  async::threadpool pool(1);
  std::vector<std::function<void()>> tasks(2, [] {});
  pool.bulk_execute(tasks.begin(), tasks.size());
#ifndef CONTROL
  std::vector<std::function<void(int)>> wrong(2, [](int) {});
  pool.bulk_execute(wrong.begin(), wrong.size());
#endif
}
