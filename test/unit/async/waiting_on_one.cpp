// SPDX-License-Identifier: BSL-1.0
//
// Calls of the library that wait, in a task of a pool of one worker: what they wait for is a task of this pool, a flow
// with a timer, or a callback, and that goes on meanwhile.
#include <doctest/doctest.h>

#include <chrono>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "async/async.hpp"
#include "steps/steps.hpp"
#include "support/ends_with_this_pool.hpp"
#include "support/timer_step.hpp"

using async::threadpool;
using namespace std::chrono_literals;

namespace {

/// What a task waits for. end() is called once, by the pool.
struct awaited {
  void end() {
    promise.set_value();
    queue.enqueue(1);
    event.set();  // last: the task may end then
  }
  async::promise<void> promise;
  async::queue<int> queue;
  async::event event;
};

using wait_function = std::function<void(threadpool&, awaited&)>;
using named_waits = std::vector<std::pair<std::string, wait_function>>;

/// Waits that are too short for a nap, again and again.
const named_waits short_waits{
    {"event::wait_for",
     [](threadpool&, awaited& what) {
       while (!what.event.wait_for(100us)) {
       }
     }},
    {"queue::dequeue_for",
     [](threadpool&, awaited& what) {
       int element = 0;
       while (!what.queue.dequeue_for(element, 100us)) {
       }
       what.event.wait();
     }},
    {"select",
     [](threadpool&, awaited& what) {
       while (async::select(async::on_set(what.event), async::after(100us)) != 0) {
       }
     }},
    {"future::wait_for",
     [](threadpool&, awaited& what) {
       const async::future<void> future = what.promise.get_future();
       while (future.wait_for(100us) != std::future_status::ready) {
       }
       what.event.wait();
     }},
};

/// Waits without a sleep.
const named_waits polls{
    {"event::wait_for(0)",
     [](threadpool&, awaited& what) {
       while (!what.event.wait_for(0s)) {
       }
     }},
    {"event::wait_for(2us), in a spin",
     [](threadpool&, awaited& what) {
       while (!what.event.wait_for(2us)) {
       }
     }},
    {"queue::dequeue_for(0)",
     [](threadpool&, awaited& what) {
       int element = 0;
       while (!what.queue.dequeue_for(element, 0s)) {
       }
       what.event.wait();
     }},
    {"select with after(0)",
     [](threadpool&, awaited& what) {
       while (async::select(async::on_set(what.event), async::after(0s)) != 0) {
       }
     }},
};

/// Waits for threads that need this pool.
const named_waits long_waits{
    {"blocking_pool::wait_idle",
     [](threadpool&, awaited& what) {
       async::blocking_pool other;
       other.execute([&what] { what.event.wait(); });
       other.wait_idle();
     }},
    {"blocking_pool::stop",
     [](threadpool&, awaited& what) {
       async::blocking_pool other;
       other.execute([&what] { what.event.wait(); });
       other.stop();
     }},
    {"threadpool::wait_idle",
     [](threadpool& pool, awaited& what) {
       threadpool other(1);
       other.execute([&] {
         pool.post([] {}).get();
         what.event.wait();
       });
       other.wait_idle();
     }},
    {"~threadpool",
     [](threadpool&, awaited& what) {
       threadpool other(1);
       other.execute([&what] { what.event.wait(); });
     }},
    {"~AsyncTool",
     [](threadpool&, awaited& what) {
       std::promise<void> begun;
       steps::AsyncTool tool;
       tool.post([&] {
         begun.set_value();
         std::thread([&what] { what.event.wait(); }).join();
       });
       begun.get_future().wait();
     }},
    {"~AsyncSteps",
     [](threadpool&, awaited& what) {
       threadpool other(1);
       std::promise<void> begun;
       steps::AsyncSteps flow{other};
       flow.add([&](steps::IAsyncSteps&) {
         begun.set_value();
         std::thread([&what] { what.event.wait(); }).join();
       });
       flow.execute();
       begun.get_future().wait();
     }},
};

#if ASYNCSTEPS_CALL_STATE == 1  // elsewhere timed waits of std::future do not tell the pool, see call_state.hpp
template <class Future>
void poll(Future& future) {
  while (future.wait_for(0s) != std::future_status::ready) {
  }
}
const named_waits standard_waits{
    {"polls of a promise's future",
     [](threadpool&, awaited& what) {
       std::future<void> future = what.promise.get_future();
       poll(future);
       what.event.wait();
     }},
    {"polls of a shared future of the pool",
     [](threadpool& pool, awaited& what) {
       std::shared_future<void> future = pool.post([&what] { what.event.wait(); }).share();
       poll(future);
     }},
    {"polls of a call of another pool",
     [](threadpool&, awaited& what) {
       threadpool other(1);
       std::future<void> future = other.post([&what] { what.event.wait(); });
       poll(future);
     }},
    {"polls of async::async",
     [](threadpool& pool, awaited& what) {
       auto future = async::async([&] {
         pool.post([] {}).get();
         what.event.wait();
       });
       poll(future);
     }},
    {"a long wait_for",
     [](threadpool& pool, awaited& what) {
       std::future<void> future = pool.post([&what] { what.event.wait(); });
       CHECK(future.wait_for(1h) == std::future_status::ready);
     }},
};
#else
const named_waits standard_waits;
#endif

/// Has the pool end the wait.
const std::vector<std::pair<std::string, wait_function>> ends{
    {"a task", [](threadpool& pool, awaited& what) { pool.execute([&what] { what.end(); }); }},
    {"a flow",
     [](threadpool& pool, awaited& what) {
       static_cast<void>(steps::post(pool, [&what](steps::IAsyncSteps& asi) {
         asi.relinquish();
         testing::add_timer(asi, 1ms);
         asi.add([&what](steps::IAsyncSteps&) { what.end(); });
       }));
     }},
    {"a callback", [](threadpool& pool, awaited& what) { pool.loop(0).post([&what] { what.end(); }); }},
};

/// Calls f() in a task of the pool, and waits for its end.
using context = void (*)(threadpool& pool, const std::function<void()>& f);

void in_task(threadpool& pool, const std::function<void()>& f) { pool.post(f).get(); }
/// In a task for which a callback of a loop waits, which discouraged programs do.
void in_turn(threadpool& pool, const std::function<void()>& f) {
  std::promise<void> over;
  pool.loop(0).post([&] {
    async::task_group group(pool);
    group.run(f);
    static_cast<void>(group.wait());
    over.set_value();
  });
  over.get_future().wait();
}

void check(const named_waits& waits, context run) {
  for (const auto& wait : waits) {
    for (const auto& end : ends) {
      if (run == in_turn && end.first == "a callback") continue;  // of the same loop
      CAPTURE(wait.first);
      CAPTURE(end.first);
      threadpool pool(1);
      awaited what;
      CHECK(testing::ends_with_this_pool(pool, [&] {
        run(pool, [&] {
          end.second(pool, what);
          wait.second(pool, what);
        });
      }));
      pool.wait_idle();
    }
  }
}

}  // namespace

TEST_CASE("a task that repeats short waits lets the pool's only worker be replaced") { check(short_waits, in_task); }

TEST_CASE("so does one whose waits are too short for a sleep") {
  check(polls, in_task);
  check(polls, in_turn);
}

TEST_CASE("a task that waits for the end of other threads lets the pool's only worker be replaced") {
  check(long_waits, in_task);
}

TEST_CASE("a task that polls std::futures, of whatever origin, lets the pool's only worker be replaced") {
  check(standard_waits, in_task);
}

TEST_CASE("so does a task for which a callback of a loop waits, and a wait for a flow there") {
  check(short_waits, in_turn);
  check(long_waits, in_turn);
  check(standard_waits, in_turn);
  const named_waits waits{{"event::wait", [](threadpool&, awaited& what) { what.event.wait(); }},
                          {"a flow's future", [](threadpool& pool, awaited& what) {
                             steps::post(pool, [&what](steps::IAsyncSteps& asi) { asi.await(what.event); }).get();
                           }}};
  check(waits, in_turn);
}
