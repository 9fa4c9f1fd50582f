// SPDX-License-Identifier: BSL-1.0
//
// then() takes the future away, which has to be seen.
// expect: write std::move\(future\)\.then\(f\)
#include <utility>

#include "async/future.hpp"

int main() {
  async::future<int> future = async::make_ready_future(1);
#ifndef CONTROL
  future.then([](async::future<int> f) { return f.get(); });
#else
  std::move(future).then([](async::future<int> f) { return f.get(); });
#endif
}
