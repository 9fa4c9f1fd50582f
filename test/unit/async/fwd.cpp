// SPDX-License-Identifier: BSL-1.0
//
// A header that needs only names of classes includes fwd.hpp; what it declares is what the other headers define.
#include "async/fwd.hpp"
#include "steps/fwd.hpp"

namespace {

struct visitor {
  int pools(async::threadpool&, async::blocking_pool&, async::task_group*, const async::threadpool_options&,
            const async::blocking_pool_options&);
  int loops(async::event_loop&, async::manual_clock&, async::event&, async::task&&);
  int queues(async::queue<int>&, async::bounded_queue<int>&);
  int results(async::future<int>&, async::shared_future<int>&, async::promise<int>&, async::future_group&);
  int flows(steps::IAsyncSteps&, steps::AsyncSteps*, steps::NitroSteps<>*, steps::AsyncTool*, steps::completion<int>*);
  int objects(steps::ISync&, steps::Mutex&, steps::Throttle*, steps::Limiter*, steps::Semaphore*, steps::State&);
};

}  // namespace

#include <doctest/doctest.h>

#include <any>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "async/async.hpp"
#include "steps/steps.hpp"

int visitor::pools(async::threadpool& pool, async::blocking_pool& calls, async::task_group* group,
                   const async::threadpool_options& of_pool, const async::blocking_pool_options& of_calls) {
  const std::size_t threads = pool.size() + of_pool.threads + of_calls.max_threads;
  return calls.post([] { return 2; }).get() + static_cast<int>(threads) + (group == nullptr ? 1 : 0);
}
int visitor::loops(async::event_loop& loop, async::manual_clock& clock, async::event& event, async::task&& task) {
  static_assert(std::is_class_v<async::manual_clock>);
  static_cast<void>(clock);
  event.set();
  loop.post(std::move(task));
  loop.iterate();
  return event.is_set() ? 1 : 0;
}
int visitor::queues(async::queue<int>& queue, async::bounded_queue<int>& bounded) {
  queue.enqueue(3);
  int element = 0;
  if (!queue.dequeue(element) || !bounded.enqueue(element)) return 0;
  return bounded.dequeue(element) ? element : 0;
}
int visitor::results(async::future<int>& future, async::shared_future<int>& shared, async::promise<int>& promise,
                     async::future_group& group) {
  promise.set_value(4);
  shared = future.share();
  group.add(async::make_ready_future());
  return shared.get();
}
int visitor::flows(steps::IAsyncSteps& asi, steps::AsyncSteps*, steps::NitroSteps<>*, steps::AsyncTool*,
                   steps::completion<int>*) {
  asi.success(5);
  return 5;
}
int visitor::objects(steps::ISync& object, steps::Mutex& mutex, steps::Throttle*, steps::Limiter*, steps::Semaphore*,
                     steps::State& state) {
  state["same"] = &object == &mutex;
  return std::any_cast<bool>(state["same"]) ? 1 : 0;
}

TEST_CASE("classes of fwd.hpp are those of the other headers") {
  visitor v;
  async::threadpool pool(1);
  async::blocking_pool calls;
  async::threadpool_options of_pool;
  of_pool.threads = 4;
  async::blocking_pool_options of_calls;
  of_calls.max_threads = 8;
  CHECK(v.pools(pool, calls, nullptr, of_pool, of_calls) == 2 + 1 + 4 + 8 + 1);

  async::event_loop loop;
  async::manual_clock clock;
  async::event event;
  int ran = 0;
  CHECK(v.loops(loop, clock, event, async::task([&ran] { ++ran; })) == 1);
  CHECK(ran == 1);

  async::queue<int> queue;
  async::bounded_queue<int> bounded(2);
  CHECK(v.queues(queue, bounded) == 3);

  async::promise<int> promise;
  async::future<int> future = promise.get_future();
  async::shared_future<int> shared;
  async::future_group group;
  CHECK(v.results(future, shared, promise, group) == 4);

  steps::Mutex mutex;
  int of_objects = 0;
  auto end = steps::post<int>(pool, [&](steps::IAsyncSteps& asi) {
    of_objects = v.objects(mutex, mutex, nullptr, nullptr, nullptr, asi.state());
    v.flows(asi, nullptr, nullptr, nullptr, nullptr);
  });
  CHECK(end.get() == 5);
  CHECK(of_objects == 1);
}
