// SPDX-License-Identifier: BSL-1.0
//
// A call that a pool makes for a step gets the arguments, and nothing else.
// expect: await\(pool, f, arguments\.\.\.\) calls f\(arguments\.\.\.\), with copies of them: no asi
#include "steps/steps.hpp"

int main() {
  async::event_loop loop;
  async::threadpool pool(1);
  steps::AsyncSteps flow{loop};
  flow.await(pool, [](int x) { return x; }, 1);
#ifndef CONTROL
  flow.await(pool, [](steps::IAsyncSteps& asi) { asi.success(1); });
#endif
}
