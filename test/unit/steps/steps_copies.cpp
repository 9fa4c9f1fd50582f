// SPDX-License-Identifier: BSL-1.0
//
// Copies and moves that flows, and coroutines in them, make of functions and results.
#include <doctest/doctest.h>

#include <chrono>
#include <exception>
#include <future>
#include <utility>

#include "async/async.hpp"
#include "steps/interop/coroutine.hpp"
#include "steps/steps.hpp"
#include "support/copies.hpp"
#include "support/live_count.hpp"

using namespace std::chrono_literals;
using steps::IAsyncSteps;
using testing::check_copies;
using testing::counting_handler;
using testing::counting_loop;
using testing::counting_step;

namespace {

/// Runs a flow whose steps add(flow) adds.
template <class Add>
void run(Add add) {
  async::event_loop loop;
  steps::AsyncSteps flow{loop};
  add(flow);
  async::future<void> done = flow.promise();
  while (!done.is_ready()) loop.run_for(0s);
  done.get();
}

void fail(IAsyncSteps& asi) { asi.error("Failed"); }
void recover(IAsyncSteps& asi, steps::ErrorCode) { asi.success(); }
constexpr auto call = [](auto&& argument) { argument(); };

/// Its operator & gives something else, as that of a pointer to a COM object does.
struct handle : testing::live_count<handle> {
  void* object = nullptr;
  void** operator&() { return &object; }
  void operator()() const {}
  void operator()(IAsyncSteps&) const {}
};
struct coroutine : handle {
  steps::interop::task<> operator()(IAsyncSteps&) const { co_return; }
};

}  // namespace

TEST_CASE("objects with an operator & of their own are destroyed once, as all others") {
  run([](IAsyncSteps& flow) {
    flow.add([](IAsyncSteps& asi) {
      asi.stack<handle>();
      asi.onEnd(handle());
      asi.setCancel(handle());
      asi.add(handle());
    });
    flow.add(steps::interop::co(coroutine()));
  });
  async::threadpool pool(1);
  steps::post(pool, handle()).get();
  {
    async::future_group group;
    group.add(pool.post([made = handle()] { return made; }));
  }
  pool.wait_idle();
  CHECK(handle::live() == 0);
}

TEST_CASE("a step moves its function once, whatever kind of step it is") {
  steps::Mutex mutex;
  check_copies<counting_step>("add", 1, [&](auto&& f) { run([&](IAsyncSteps& flow) { flow.add(FORWARD(f)); }); });
  check_copies<counting_step>("add in a step", 1, [&](auto&& f) {
    run([&](IAsyncSteps& flow) { flow.add([&](IAsyncSteps& asi) { asi.add(FORWARD(f)); }); });
  });
  check_copies<counting_step>("branch", 1,
                              [&](auto&& f) { run([&](IAsyncSteps& flow) { flow.parallel().add(FORWARD(f)); }); });
  check_copies<counting_step>("sync", 1,
                              [&](auto&& f) { run([&](IAsyncSteps& flow) { flow.sync(mutex, FORWARD(f)); }); });
  check_copies<counting_step>("repeat", 1,
                              [&](auto&& f) { run([&](IAsyncSteps& flow) { flow.repeat(2, FORWARD(f)); }); });
  check_copies<counting_step>("retry", 1,
                              [&](auto&& f) { run([&](IAsyncSteps& flow) { flow.retry({}, FORWARD(f)); }); });
  check_copies<counting_loop>("loop", 1, [&](auto&& f) { run([&](IAsyncSteps& flow) { flow.loop(FORWARD(f)); }); });
  check_copies<counting_loop>("loop with a label", 1,
                              [&](auto&& f) { run([&](IAsyncSteps& flow) { flow.loop(FORWARD(f), "label"); }); });
  check_copies<counting_loop>("every", 1,
                              [&](auto&& f) { run([&](IAsyncSteps& flow) { flow.every(1s, FORWARD(f)); }); });
  check_copies("onEnd", 1, [&](auto&& f) {
    run([&](IAsyncSteps& flow) { flow.add([&](IAsyncSteps& asi) { asi.onEnd(FORWARD(f)); }); });
  });
  check_copies("setCancel", 1, [&](auto&& f) {
    run([&](IAsyncSteps& flow) {
      flow.add(
          [&](IAsyncSteps& asi) {
            asi.setCancel(FORWARD(f));
            asi.add(fail);
          },
          recover);
    });
  });
}

TEST_CASE("a step moves its error handler once") {
  steps::Mutex mutex;
  async::queue<int> closed;
  closed.close();
  const auto broken = [] { return async::make_exceptional_future<int>(std::make_exception_ptr(1)); };
  const auto check = [](const char* name, auto add) {
    check_copies<counting_handler>(name, 1, [&](auto&& e) { run([&](IAsyncSteps& flow) { add(flow, FORWARD(e)); }); });
  };
  check("add", [](IAsyncSteps& flow, auto&& e) { flow.add(fail, FORWARD(e)); });
  check("parallel", [](IAsyncSteps& flow, auto&& e) { flow.parallel(FORWARD(e)).add(fail); });
  check("race", [](IAsyncSteps& flow, auto&& e) { flow.race(FORWARD(e)).add(fail); });
  check("sync", [&](IAsyncSteps& flow, auto&& e) { flow.sync(mutex, fail, FORWARD(e)); });
  check("retry", [](IAsyncSteps& flow, auto&& e) { flow.retry({.attempts = 1}, fail, FORWARD(e)); });
  check("await, a future", [&](IAsyncSteps& flow, auto&& e) { flow.await(broken(), FORWARD(e)); });
  check("await, a std::future",
        [&](IAsyncSteps& flow, auto&& e) { flow.await(std::future<int>(broken()), FORWARD(e)); });
  check("await, a queue", [&](IAsyncSteps& flow, auto&& e) { flow.await(closed, FORWARD(e)); });
  check("select",
        [&](IAsyncSteps& flow, auto&& e) { flow.select(async::on_pop(closed, [](IAsyncSteps&, int) {}), FORWARD(e)); });
}

TEST_CASE("a case of select() is moved once more, into its step") {
  async::event event(true);
  check_copies<counting_step>(
      "on_set", 2, [&](auto&& f) { run([&](IAsyncSteps& flow) { flow.select(async::on_set(event, FORWARD(f))); }); });
}

TEST_CASE("a call that a pool makes for a flow is moved into its step, and on to where the pool finds it") {
  async::threadpool pool(1);
  async::blocking_pool disk;
  const auto check = [](const char* name, int moves_of_small, auto add) {
    const auto entry = [&](auto&& f) { run([&](IAsyncSteps& flow) { add(flow, FORWARD(f)); }); };
    check_copies<testing::small>(name, moves_of_small, entry);
    check_copies<testing::large>(name, 2, entry);
  };
  check("await", 2, [&](IAsyncSteps& flow, auto&& f) { flow.await(pool, FORWARD(f)); });
  check("await, an argument", 2, [&](IAsyncSteps& flow, auto&& f) { flow.await(pool, call, FORWARD(f)); });
  check("await, a blocking pool", 2, [&](IAsyncSteps& flow, auto&& f) { flow.await(disk, FORWARD(f)); });
  // A small one is also moved into a slot of the pool's queue and out of it.
  check("co_await post()", 4, [&](IAsyncSteps& flow, auto&& f) {
    flow.add(steps::interop::co([&](IAsyncSteps&) -> steps::interop::task<void> {
      auto posted = steps::interop::post(pool, FORWARD(f));
      co_await std::move(posted);
    }));
  });
  check_copies<counting_step>("steps::post", 2, [&](auto&& f) { steps::post(pool, FORWARD(f)).get(); });
}

TEST_CASE("a result is moved into the flow, out of it, and into a parameter that takes it by value") {
  async::queue<testing::small> queue;
  const auto take = [](IAsyncSteps&, testing::small&& result) { result(); };
  check_copies("success", 3, [&](auto&& f) {
    run([&](IAsyncSteps& flow) {
      flow.add([&](IAsyncSteps& asi) { asi.success(FORWARD(f)); });
      flow.add([](IAsyncSteps&, testing::small result) { result(); });
    });
  });
  check_copies("success, taken by reference", 2, [&](auto&& f) {
    run([&](IAsyncSteps& flow) {
      flow.add([&](IAsyncSteps& asi) { asi.success(FORWARD(f)); });
      flow.add(take);
    });
  });
  check_copies("enqueue", 3, [&](auto&& f) {
    run([&](IAsyncSteps& flow) { flow.enqueue(queue, FORWARD(f)); });
    (*queue.dequeue())();
  });
}
