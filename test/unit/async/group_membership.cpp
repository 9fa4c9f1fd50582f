// SPDX-License-Identifier: BSL-1.0
//
// What runs inside a task of a group without belonging to the group: continuations, coroutines, tasks of full pools.
#include <doctest/doctest.h>

#include <atomic>
#include <utility>

#include "async/async.hpp"
#include "support/detached.hpp"

using async::parallel_for;
using async::task_group;
using async::threadpool;

namespace {

/// Whether a loop, a group and a call's waiting work as outside of groups.
bool works_as_outside(threadpool& pool) {
  std::atomic<int> done{0};
  const bool is_whole = parallel_for(pool, 0, 100, [&done](int) { ++done; });
  task_group own(pool);
  own.run([&done] { ++done; });
  return own.wait() && is_whole && done == 101 && !async::current_group_is_cancelling();
}

testing::detached resume_at(async::queue<int>& queue, threadpool& pool, bool& result) {
  co_await queue.pop();
  result = works_as_outside(pool);
}
testing::detached resume_at(async::event& event, threadpool& pool, bool& result) {
  co_await event.on_set();
  result = works_as_outside(pool);
}
testing::detached resume_at(async::future<int> future, threadpool& pool, bool& result) {
  co_await std::move(future);
  result = works_as_outside(pool);
}

}  // namespace

TEST_CASE("what a task of a cancelled group sets off does not belong to the group") {
  threadpool pool(2);
  const auto in_cancelled_group = [&pool](auto f) {
    task_group group(pool);
    group.run([&] {
      group.cancel();
      f();
    });
    CHECK_FALSE(group.wait());
  };
  bool result = false;
  SUBCASE("a continuation") {
    async::promise<int> promise;
    auto done = promise.get_future().then([&](async::future<int>) { return works_as_outside(pool); });
    in_cancelled_group([&promise] { promise.set_value(1); });
    result = done.get();
  }
  SUBCASE("a coroutine at a future") {
    async::promise<int> promise;
    resume_at(promise.get_future(), pool, result);
    in_cancelled_group([&promise] { promise.set_value(1); });
  }
  SUBCASE("a coroutine at a queue") {
    async::queue<int> queue;
    resume_at(queue, pool, result);
    in_cancelled_group([&queue] { queue.enqueue(1); });
  }
  SUBCASE("a coroutine at an event") {
    async::event event;
    resume_at(event, pool, result);
    in_cancelled_group([&event] { event.set(); });
  }
  SUBCASE("a task that a full pool runs on its caller") {
    using options = async::threadpool_options;
    threadpool full(options{.threads = 0, .max_queue = 1, .when_full = options::overflow::caller_runs});
    full.execute([] {});
    in_cancelled_group([&] { full.execute([&] { result = works_as_outside(full); }); });
    full.configurepool(1);
  }
  CHECK(result);
}
