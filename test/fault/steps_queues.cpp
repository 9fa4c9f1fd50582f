// SPDX-License-Identifier: BSL-1.0
//
// Flows that await and fill queues when memory runs out: the step raises the error, and no element is lost.
#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include "async/async.hpp"
#include "steps/steps.hpp"
#include "support/alloc_counter.hpp"
#include "support/live_count.hpp"

using steps::ErrorCode;
using steps::IAsyncSteps;
using testing::fail_alloc;

namespace {

/// Too large for recycled blocks, so that it takes an allocation as a result.
struct large : testing::live_count<large> {
  explicit large(int n) : number(n) {}
  int number;
  std::array<unsigned char, 2000> bytes{};
};

/// Lets each allocation fail once, until attempt(k) needs none, each on a new thread with an empty cache of blocks.
template <class Attempt>
std::size_t each_allocation(Attempt attempt) {
  std::size_t failures = 0;
  bool has_failed = false;
  do {
    static_cast<void>(async::threadpool::trim());
    std::thread([&] { has_failed = attempt(failures); }).join();
    if (has_failed) ++failures;
    CHECK(large::live() == 0);
  } while (has_failed);
  return failures;
}

void drain(async::event_loop& loop) {
  while (loop.iterate().have_work) {
  }
}

}  // namespace

TEST_CASE("a step that has no memory to take an element raises bad_alloc, and the element stays") {
  const bool comes_later[] = {false, true};
  for (const bool later : comes_later) {
    const std::size_t failures = each_allocation([later](std::size_t k) {
      async::event_loop loop;
      async::bounded_queue<large> q(4);
      int got = 0;
      std::string error;
      if (!later) q.enqueue(1);
      steps::AsyncSteps flow{loop};
      flow.await(q).add([&](IAsyncSteps&, large&& v) { got = v.number; });
      flow.state().set_unhandled_error([&](ErrorCode code) { error = std::string(code.view()); });
      flow.execute();
      fail_alloc failing(k);
      drain(loop);
      if (later) q.enqueue(1);
      drain(loop);
      failing.stop();
      if (got == 1) {
        CHECK(q.empty());
        CHECK(error.empty());
      } else {
        CHECK(error == std::bad_alloc().what());
        CHECK(q.approx_size() == 1);
      }
      return failing.has_failed();
    });
    CHECK(failures >= (later ? 2U : 1U));
  }
}

TEST_CASE("a step that has no memory to wait for room raises bad_alloc, and enqueues nothing") {
  const std::size_t failures = each_allocation([](std::size_t k) {
    async::event_loop loop;
    async::bounded_queue<int> q(1);
    q.enqueue(1);
    std::string error;
    steps::AsyncSteps flow{loop};
    flow.enqueue(q, 2);
    flow.state().set_unhandled_error([&](ErrorCode code) { error = std::string(code.view()); });
    flow.execute();
    fail_alloc failing(k);
    drain(loop);
    failing.stop();
    CHECK(q.dequeue() == 1);
    drain(loop);
    CHECK((q.dequeue() == 2) == error.empty());
    return failing.has_failed();
  });
  CHECK(failures >= 1);
}
