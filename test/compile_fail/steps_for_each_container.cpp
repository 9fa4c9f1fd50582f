// SPDX-License-Identifier: BSL-1.0
//
// There is something to go over.
// expect: forEach\(\) goes over a container
#include <cstddef>
#include <vector>

#include "steps/steps.hpp"

int main() {
  async::event_loop loop;
  steps::AsyncSteps flow{loop};
  flow.forEach(std::vector<int>{1, 2}, [](steps::IAsyncSteps&, std::size_t, int) {});
#ifndef CONTROL
  flow.forEach(2, [](steps::IAsyncSteps&, std::size_t, int) {});
#endif
}
