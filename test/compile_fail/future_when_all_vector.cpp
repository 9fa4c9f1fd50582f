// SPDX-License-Identifier: BSL-1.0
//
// when_all() takes a vector of futures away, which has to be seen. Shared futures are copied.
// expect: when_all\(\) takes the futures away: write std::move\(futures\)
#include <utility>
#include <vector>

#include "async/when_all.hpp"

int main() {
  std::vector<async::future<int>> futures(3);
  std::vector<async::shared_future<int>> shared(3);
  static_cast<void>(async::when_all(shared));
#ifndef CONTROL
  static_cast<void>(async::when_all(futures));
#else
  static_cast<void>(async::when_all(std::move(futures)));
#endif
}
