// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <future>
#include <memory>
#include <optional>
#include <thread>

#include "steps/steps.hpp"
#include "support/occupied.hpp"

// What other threads do with a flow of a pool, whatever it is doing at that moment.

using async::threadpool;
using steps::ErrorCode;
using steps::IAsyncSteps;

namespace {

/// Lets the thread that waits for a flow's step end the wait, each time that the flow has come to it.
class driver {
 public:
  void step(IAsyncSteps& asi) {
    asi.waitExternal();
    waiting_.store(&asi);
  }
  IAsyncSteps& next() {
    for (;;) {
      if (IAsyncSteps* const asi = waiting_.exchange(nullptr)) return *asi;
      std::this_thread::yield();
    }
  }

 private:
  std::atomic<IAsyncSteps*> waiting_{nullptr};
};

}  // namespace

TEST_CASE("a posted flow's waits are ended by asi.success() and asi.error() of another thread") {
  threadpool pool(2);
  driver d;
  auto result = steps::post<int>(pool, [&d](IAsyncSteps& asi) {
    asi.repeat(20, [&d](IAsyncSteps& step, std::size_t) { d.step(step); });
    asi.add([&d](IAsyncSteps& step) { d.step(step); },
            [](IAsyncSteps& step, ErrorCode code) {
              if (code == "Told") step.success();
            });
    asi.add([](IAsyncSteps& step) { step.success(7); });
  });
  for (int i = 0; i != 20; ++i) d.next().success();
  d.next().errorNoThrow("Told");
  CHECK(result.get() == 7);
}

TEST_CASE("a branch's waits are ended by asi.success() of another thread") {
  threadpool pool(2);
  driver d[2];
  auto result = steps::post<int>(pool, [&d](IAsyncSteps& asi) {
    auto& branches = asi.parallel();
    for (driver& each : d) branches.repeat(20, [&each](IAsyncSteps& step, std::size_t) { each.step(step); });
    asi.add([](IAsyncSteps& step) { step.success(7); });
  });
  for (int i = 0; i != 20; ++i) {
    for (driver& each : d) each.next().success();
  }
  CHECK(result.get() == 7);
}

TEST_CASE("a flow is cancelled by another thread at any time of its execute()") {
  threadpool pool(1);
  for (int i = 0; i < 200; ++i) {
    steps::AsyncSteps flow(pool);
    flow.add([](IAsyncSteps& asi) { asi.waitExternal(); });
    std::atomic<bool> here{false}, done{false};
    std::thread other([&] {
      here = true;
      while (!done) flow.cancel();
    });
    while (!here) std::this_thread::yield();
    flow.execute();
    done = true;
    other.join();
    flow.cancel();
  }
}

TEST_CASE("a flow that is cancelled before its start may be cancelled by destructors of its steps") {
  threadpool pool(1);
  std::optional<testing::occupied> busy(std::in_place, pool, 1);
  steps::AsyncSteps flow(pool);
  int calls = 0;
  std::shared_ptr<void> last(nullptr, [&](void*) {
    ++calls;
    flow.cancel();
  });
  flow.add([last = std::move(last)](IAsyncSteps& asi) { asi.success(); });
  flow.execute();
  flow.cancel();
  CHECK(calls == 1);
  flow.add([](IAsyncSteps& asi) { asi.success(3); });
  auto result = flow.promise<int>();
  busy.reset();
  CHECK(result.get() == 3);
}
