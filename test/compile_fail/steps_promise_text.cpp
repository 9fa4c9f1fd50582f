// SPDX-License-Identifier: BSL-1.0
//
// A text is a std::string among results.
// expect: promise<std::string>\(\)
#include <string>

#include "steps/steps.hpp"

int main() {
  async::event_loop loop;
  steps::AsyncSteps flow{loop};
#ifndef CONTROL
  flow.promise<const char*>();
#else
  flow.promise<std::string>();
#endif
}
