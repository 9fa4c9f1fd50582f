// SPDX-License-Identifier: BSL-1.0
//
// Flows that select when memory runs out: the step raises the error, has left all lines, and took nothing.
#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <new>
#include <string>
#include <thread>

#include "async/async.hpp"
#include "async/select.hpp"
#include "steps/steps.hpp"
#include "support/alloc_counter.hpp"

using steps::ErrorCode;
using steps::IAsyncSteps;
using testing::fail_alloc;
using namespace std::chrono_literals;

namespace {

/// Lets each allocation fail once, until attempt(k) needs none, each on a new thread with an empty cache of blocks.
template <class Attempt>
std::size_t each_allocation(Attempt attempt) {
  std::size_t failures = 0;
  bool has_failed = false;
  do {
    static_cast<void>(async::threadpool::trim());
    std::thread([&] { has_failed = attempt(failures); }).join();
    if (has_failed) ++failures;
  } while (has_failed);
  return failures;
}

void drain(async::event_loop& loop) {
  for (;;) {
    const auto next = loop.iterate();
    if (!next.have_work || next.delay.count() != 0) return;
  }
}

}  // namespace

TEST_CASE("a flow that has no memory to wait by select() raises bad_alloc, and the queues and the future go on") {
  const std::size_t failures = each_allocation([](std::size_t k) {
    async::event_loop loop;
    async::queue<int> q;
    async::bounded_queue<std::unique_ptr<int>> full(1);
    async::promise<int> promise;
    async::future<int> result = promise.get_future();
    full.enqueue(std::make_unique<int>(1));
    int got = 0, by_other = 0;
    std::string error;
    steps::AsyncSteps flow{loop}, other{loop};
    flow.select(async::on_ready(result), async::on_push(full, std::make_unique<int>(2)),
                async::on_pop(q, [&](IAsyncSteps&, int n) { got = n; }), async::after(1h));
    flow.state().set_unhandled_error([&](ErrorCode code) { error = std::string(code.view()); });
    flow.execute();
    bool has_failed = false;
    {
      fail_alloc failing(k);
      drain(loop);
      failing.stop();
      has_failed = failing.has_failed();
    }
    other.await(q).add([&](IAsyncSteps&, int n) { by_other = n; });
    other.execute();
    drain(loop);
    q.enqueue(7);
    drain(loop);
    CHECK(got + by_other == 7);  // a flow that has failed is not in the line any more
    CHECK((got == 0) == (error == std::bad_alloc().what()));
    promise.set_value(1);
    CHECK(*full.dequeue().value() == 1);
    drain(loop);
    CHECK(full.empty());
    other.cancel();
    return has_failed;
  });
  CHECK(failures >= 3);  // a block for each of the three
}
