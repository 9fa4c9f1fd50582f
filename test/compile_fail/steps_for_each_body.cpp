// SPDX-License-Identifier: BSL-1.0
//
// The body of forEach() gets asi, the index or key, then the element.
// expect: the body of forEach\(\) is called as f\(IAsyncSteps&, index or key, element&, results\.\.\.\)
#include <cstddef>
#include <string>
#include <vector>

#include "steps/steps.hpp"

int main() {
  async::event_loop loop;
  steps::AsyncSteps flow{loop};
  flow.forEach(std::vector<std::string>{"a"}, [](steps::IAsyncSteps&, std::size_t, std::string&) {});
#ifndef CONTROL
  flow.forEach(std::vector<std::string>{"a"}, [](steps::IAsyncSteps&, std::string&) {});
#endif
}
