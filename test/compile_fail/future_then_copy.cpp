// SPDX-License-Identifier: BSL-1.0
//
// A continuation that cannot be copied is moved in.
// expect: then\(std::move\(f\)\)
#include <memory>
#include <utility>

#include "async/threadpool.hpp"

int main() {
  async::threadpool pool(1);
  auto next = [p = std::make_unique<int>(1)](async::future<int> result) { return result.get() + *p; };
#ifndef CONTROL
  pool.post([] { return 1; }).then(next).get();
#else
  pool.post([] { return 1; }).then(std::move(next)).get();
#endif
}
