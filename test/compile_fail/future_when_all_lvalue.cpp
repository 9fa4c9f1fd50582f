// SPDX-License-Identifier: BSL-1.0
//
// when_all() takes futures away, which has to be seen.
// expect: when_all\(\) takes the futures away: write std::move\(future\)
#include <utility>

#include "async/when_all.hpp"

int main() {
  async::future<int> future = async::make_ready_future(1);
#ifndef CONTROL
  static_cast<void>(async::when_all(future, async::make_ready_future(2)));
#else
  static_cast<void>(async::when_all(std::move(future), async::make_ready_future(2)));
#endif
}
