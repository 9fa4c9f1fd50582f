// SPDX-License-Identifier: BSL-1.0
//
// Texts arrive as std::string, for a pointer would outlive what it points to.
// expect: a text passed to success\(\) arrives as std::string
#include <string>

#include "steps/steps.hpp"

int main() {
  async::event_loop loop;
  steps::AsyncSteps flow{loop};
  flow.add([](steps::IAsyncSteps&, std::string) {});
#ifndef CONTROL
  flow.add([](steps::IAsyncSteps&, const char*) {});
#endif
}
