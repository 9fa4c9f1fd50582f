// SPDX-License-Identifier: BSL-1.0
//
// A task that cannot be copied is moved in.
// expect: async_callable
#include <memory>
#include <utility>

#include "async/threadpool.hpp"

int main() {
  async::threadpool pool(1);
  auto task = [value = std::make_unique<int>(1)] { return *value; };
  pool.post(std::move(task)).get();
#ifndef CONTROL
  pool.post(task).get();
#endif
}
