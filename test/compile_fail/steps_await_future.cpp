// SPDX-License-Identifier: BSL-1.0
//
// A step that waits for a future takes it away, which has to be seen.
// expect: write await\(std::move\(future\)\)
#include <utility>

#include "async/async.hpp"
#include "steps/steps.hpp"

int main() {
  async::event_loop loop;
  steps::AsyncSteps flow{loop};
  async::future<int> future = async::make_ready_future(1);
#ifndef CONTROL
  flow.await(future);
#else
  flow.await(std::move(future));
#endif
}
