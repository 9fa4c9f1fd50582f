// SPDX-License-Identifier: BSL-1.0
//
// A Retry keeps the codes of its filter.
// expect: on\(\) keeps the codes
#include <string>

#include "steps/steps.hpp"

int main() {
#ifndef CONTROL
  static_cast<void>(steps::Retry{}.on("Http" + std::to_string(503)));
#else
  static_cast<void>(steps::Retry{}.on("Http503"));
#endif
}
