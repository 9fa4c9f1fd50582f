// SPDX-License-Identifier: BSL-1.0
//
// A function that cannot be copied is moved into a step.
// expect: one that cannot be copied is moved in, as add\(std::move\(f\)\)
#include <memory>
#include <utility>

#include "steps/steps.hpp"

int main() {
  async::event_loop loop;
  steps::AsyncSteps flow{loop};
  auto body = [value = std::make_unique<int>(1)](steps::IAsyncSteps& asi) { asi.success(*value); };
  flow.add(std::move(body));
#ifndef CONTROL
  flow.add(body);
#endif
}
