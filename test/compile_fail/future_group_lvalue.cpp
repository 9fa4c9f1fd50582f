// SPDX-License-Identifier: BSL-1.0
//
// future_group::add() takes a future away, which has to be seen.
// expect: add\(\) takes the future away: write add\(std::move\(future\)\)
#include <utility>

#include "async/future_group.hpp"

int main() {
  async::future_group group;
  async::future<int> future = async::make_ready_future(1);
#ifndef CONTROL
  group.add(future);
#else
  group.add(std::move(future));
#endif
}
