// SPDX-License-Identifier: BSL-1.0
//
// A coroutine that is no step would not run, and the job would be acknowledged.
// expect: the flow of a job returns void
#include "async/threadpool.hpp"
#include "steps/interop/coroutine.hpp"
#include "steps/interop/nats_jobs.hpp"

using steps::interop::task;

int main() {
  async::threadpool pool(1);
  steps::interop::nats::bus bus;
  steps::interop::nats::jobs jobs(bus, {.stream = "MAILS", .subject = "mails"});
  const auto send = [](steps::IAsyncSteps&, steps::interop::nats::job) -> task<> { co_return; };
#ifndef CONTROL
  auto worker = jobs.work(pool, {}, send);
#else
  auto worker = jobs.work(pool, {}, steps::interop::co(send));
#endif
}
