// SPDX-License-Identifier: BSL-1.0
//
// await() takes one future.
// expect: write await\(async::when_all\(std::move\(futures\)\)\)
#include <utility>
#include <vector>

#include "async/when_all.hpp"
#include "steps/steps.hpp"

int main() {
  async::event_loop loop;
  steps::AsyncSteps flow{loop};
  std::vector<async::future<int>> futures;
#ifndef CONTROL
  flow.await(std::move(futures));
#else
  flow.await(async::when_all(std::move(futures)));
#endif
}
