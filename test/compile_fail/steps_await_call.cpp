// SPDX-License-Identifier: BSL-1.0
//
// A call is awaited with the pool that makes it.
// expect: write await\(pool, f, arguments\.\.\.\)
#include "steps/steps.hpp"

int main() {
  async::threadpool pool(1);
  async::event_loop loop;
  steps::AsyncSteps flow{loop};
#ifndef CONTROL
  flow.await([] { return 1; });
#else
  flow.await(pool, [] { return 1; });
#endif
}
