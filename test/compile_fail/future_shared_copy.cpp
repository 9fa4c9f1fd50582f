// SPDX-License-Identifier: BSL-1.0
//
// A std::shared_future has a value of its own, which has to be copied from a shared result.
// expect: a std::shared_future gets a copy of the value, but this one cannot be copied
#include <future>
#include <memory>
#include <utility>

#include "async/future.hpp"

int main() {
  async::future<std::unique_ptr<int>> one = async::make_ready_future(std::make_unique<int>(1));
  async::shared_future<int> copied = async::make_ready_future(1);
  std::shared_future<int> standard = copied;
#ifndef CONTROL
  std::shared_future<std::unique_ptr<int>> refused = one.share();
#else
  std::shared_future<std::unique_ptr<int>> moved = std::move(one);
#endif
}
