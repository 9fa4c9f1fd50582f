// SPDX-License-Identifier: BSL-1.0
//
// event_loop::current() in tasks and hooks on a stand-in, and on a thread outside the pool that runs a task.
#include <doctest/doctest.h>

#include <atomic>   // for atomic
#include <cstddef>  // for size_t
#include <utility>  // for move

#include "async/event.hpp"
#include "async/event_loop.hpp"
#include "async/future.hpp"
#include "async/task_group.hpp"
#include "async/threadpool.hpp"

using async::event_loop;
using async::threadpool;
using async::threadpool_options;

TEST_CASE("event_loop::current() on a stand-in is the loop of its worker, in tasks and hooks") {
  std::atomic<int> starts{0};
  std::atomic<int> stops{0};
  threadpool_options options;
  options.threads = 1;
  const auto is_at_loop = [](std::size_t i) {
    return event_loop::current() == &threadpool::current()->loop(i) ? 1 : 100;
  };
  options.on_thread_start = [&](std::size_t i) { starts += is_at_loop(i); };
  options.on_thread_stop = [&](std::size_t i) { stops += is_at_loop(i); };
  {
    threadpool pool(std::move(options));
    async::event done;
    async::promise<void> end;
    async::future<void> waits = pool.post([&done, awaited = end.get_future()]() mutable {
      done.set();
      awaited.get();
    });
    done.wait();
    done.reset();
    CHECK(pool.post([&] {
                event_loop* const loop = event_loop::current();
                if (loop != nullptr) loop->post([&done] { done.set(); });
                return loop == &pool.loop(0);
              })
              .get());
    done.wait();  // the waiting worker turns its loop
    end.set_value();
    waits.get();
  }
  CHECK(starts == 2);
  CHECK(stops == 2);
}

TEST_CASE("a task that a thread outside the pool runs is in no loop") {
  threadpool pool(0);
  event_loop own;
  event_loop* in_group = &own;
  async::task_group group(pool);
  group.run([&in_group] { in_group = event_loop::current(); });
  CHECK(group.wait());
  CHECK(in_group == nullptr);
}
