// SPDX-License-Identifier: BSL-1.0
//
// A result that cannot be copied is moved.
// expect: what cannot be copied as success\(std::move\(value\)\)
#include <memory>
#include <utility>

#include "steps/steps.hpp"

int main() {
  async::event_loop loop;
  steps::AsyncSteps flow{loop};
  flow.add([](steps::IAsyncSteps& asi) {
    auto p = std::make_unique<int>(1);
    asi.success(std::move(p));
  });
#ifndef CONTROL
  flow.add([](steps::IAsyncSteps& asi) {
    auto p = std::make_unique<int>(1);
    asi.success(p);
  });
#endif
}
