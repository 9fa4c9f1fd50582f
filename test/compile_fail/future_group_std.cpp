// SPDX-License-Identifier: BSL-1.0
//
// future_group::add() takes futures of this library.
// expect: add\(\) takes an async::future or async::shared_future: make one of a std::future by
#include <future>
#include <utility>

#include "async/future_group.hpp"

int main() {
  async::future_group group;
  std::future<int> future = std::async([] { return 1; });
#ifndef CONTROL
  group.add(std::move(future));
#else
  group.add(async::future<int>(std::move(future)));
#endif
}
