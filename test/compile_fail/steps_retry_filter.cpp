// SPDX-License-Identifier: BSL-1.0
//
// on() takes codes, when() a predicate.
// expect: on\(\) takes error codes
#include "steps/steps.hpp"

int main() {
  async::event_loop loop;
  steps::AsyncSteps flow{loop};
  flow.retry(steps::Retry{}.when([](steps::ErrorCode code) { return code == "Busy"; }), [](steps::IAsyncSteps&) {});
#ifndef CONTROL
  flow.retry(steps::Retry{}.on([](steps::ErrorCode code) { return code == "Busy"; }), [](steps::IAsyncSteps&) {});
#endif
}
