// SPDX-License-Identifier: BSL-1.0
//
// A coroutine that is no step would not run, and the caller would get an empty answer.
// expect: a flow that serves returns void
#include <string>

#include "async/threadpool.hpp"
#include "steps/interop/coroutine.hpp"
#include "steps/interop/nats.hpp"

using steps::interop::task;

int main() {
  async::threadpool pool(1);
  steps::interop::nats::bus bus;
  const auto answer = [](steps::IAsyncSteps&, std::string text) -> task<std::string> { co_return text; };
#ifndef CONTROL
  auto service = bus.serve("echo", "", pool, answer);
#else
  auto service = bus.serve("echo", "", pool, steps::interop::co(answer));
#endif
}
