// SPDX-License-Identifier: BSL-1.0
//
// Flows that execute are destroyed on another thread than their loop's while there is no memory: a destructor needs
// none.
#include <doctest/doctest.h>

#include <atomic>
#include <optional>
#include <utility>

#include "async/event.hpp"
#include "steps/steps.hpp"
#include "support/alloc_counter.hpp"

using steps::IAsyncSteps;
using testing::no_memory;

namespace {

/// A flow that waits, with branches that wait if it has some.
template <class Flow>
void let_wait(Flow& flow, int branches, async::event& waits, std::atomic<int>& cancelled) {
  const auto step = [&waits, &cancelled](IAsyncSteps& asi) {
    asi.setCancel([&cancelled] { ++cancelled; });
    waits.set();
  };
  if (branches == 0) {
    flow.add(step);
  } else {
    IAsyncSteps& all = flow.parallel();
    for (int i = 1; i < branches; ++i) {
      all.add([&cancelled](IAsyncSteps& asi) { asi.setCancel([&cancelled] { ++cancelled; }); });
    }
    all.add(step);
  }
  flow.execute();
  waits.wait();
}

template <class Flow, class Place>
void destroy_without_memory(Place& place, int branches) {
  async::event waits;
  std::atomic<int> cancelled{0};
  std::optional<Flow> flow(std::in_place, place);
  let_wait(*flow, branches, waits, cancelled);
  {
    const no_memory here;
    flow.reset();
  }
  CHECK(cancelled >= 1);
}

}  // namespace

TEST_CASE_TEMPLATE("a flow of a tool is destroyed without memory", Flow, steps::AsyncSteps, steps::NitroSteps<>) {
  steps::AsyncTool tool;
  destroy_without_memory<Flow>(tool, 0);
  destroy_without_memory<Flow>(tool, 3);
}

TEST_CASE_TEMPLATE("a flow of a pool is destroyed without memory", Flow, steps::AsyncSteps, steps::NitroSteps<>) {
  async::threadpool pool(2);
  destroy_without_memory<Flow>(pool, 0);
  destroy_without_memory<Flow>(pool, 3);
}

TEST_CASE("a flow is assigned over one that executes, without memory") {
  steps::AsyncTool tool;
  async::event waits;
  std::atomic<int> cancelled{0};
  steps::AsyncSteps flow{tool};
  let_wait(flow, 0, waits, cancelled);
  steps::AsyncSteps other{tool};
  {
    const no_memory here;
    flow = std::move(other);
  }
  CHECK(cancelled == 1);
}
