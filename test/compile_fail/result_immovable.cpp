// SPDX-License-Identifier: BSL-1.0
//
// The result of a call moves to where its future finds it.
// expect: the type that a call returns must be movable
#include <memory>
#include <mutex>

#include "async/threadpool.hpp"

int main() {
  async::threadpool pool(1);
#ifndef CONTROL
  pool.post([] { return std::mutex{}; }).wait();
#else
  pool.post([] { return std::make_unique<std::mutex>(); }).wait();
#endif
}
