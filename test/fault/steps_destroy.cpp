// SPDX-License-Identifier: BSL-1.0
//
// Flows that execute are destroyed on another thread than their loop's while there is no memory: a destructor needs
// none.
#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <new>
#include <optional>
#include <utility>

#include "async/detail/base/block_cache.hpp"
#include "async/event.hpp"
#include "steps/interop/coroutine.hpp"
#include "steps/steps.hpp"
#include "support/alloc_counter.hpp"

using steps::IAsyncSteps;
using testing::no_memory;

namespace {

/// While it lives, no recycled block is left that a cancel could take.
class taken_blocks {
 public:
  taken_blocks() {
    for (const std::size_t size : {32U, 64U, 128U}) {
      try {
        for (;;) newest_ = ::new (async::detail::allocate_block(size)) block{newest_, size};
      } catch (const std::bad_alloc&) {
      }
    }
  }
  taken_blocks(const taken_blocks&) = delete;
  taken_blocks& operator=(const taken_blocks&) = delete;
  ~taken_blocks() {
    while (newest_ != nullptr) {
      block* const b = std::exchange(newest_, newest_->older);
      async::detail::free_block(b, b->size);
    }
  }

 private:
  struct block {
    block* older;
    std::size_t size;
  };
  block* newest_ = nullptr;
};

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

TEST_CASE("a branch on another loop destroys the flow that it belongs to, without memory") {
  async::threadpool pool(2);
  async::event waits, gone;
  std::atomic<int> cancelled{0};
  std::optional<steps::AsyncSteps> flow(std::in_place, pool);
  IAsyncSteps& all = flow->parallel();
  all.add([&](IAsyncSteps& asi) {
    asi.setCancel([&cancelled] { ++cancelled; });
    waits.set();
  });
  all.add([&](IAsyncSteps& branch) {
    branch.await(waits);
    branch.add([&](IAsyncSteps& asi) {
      asi.onEnd([&gone] { gone.set(); });
      const no_memory here;
      const taken_blocks all_recycled;
      flow.reset();
    });
  });
  flow->execute();
  gone.wait();
  pool.wait_idle();
  pool.stop();
  CHECK(cancelled == 1);
}

TEST_CASE("a coroutine that waits for a flow of another thread is destroyed without memory: the flow is cancelled") {
  steps::AsyncTool tool;
  async::event_loop loop;
  async::event waits;
  std::atomic<int> cancelled{0};
  steps::AsyncSteps far{tool}, flow{loop};
  far.add([&](IAsyncSteps& asi) {
    asi.setCancel([&cancelled] { ++cancelled; });
    waits.set();
  });
  flow.add(
      steps::interop::co([&far](IAsyncSteps&) -> steps::interop::task<> { co_await steps::interop::execute(far); }));
  flow.execute();
  while (!waits.is_set()) loop.iterate();
  {
    const no_memory here;
    const taken_blocks all_recycled;
    flow.cancel();
  }
  CHECK(cancelled == 1);
}
