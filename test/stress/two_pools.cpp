// SPDX-License-Identifier: BSL-1.0
//
// Tasks of two small pools that wait for each other in every way: by groups, futures, events, polls and flows. Each
// wait needs the pool whose worker waits, so one that keeps its pool from going on never ends.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <random>

#include "async/async.hpp"
#include "steps/spawn.hpp"
#include "support/scale.hpp"
#include "support/timer_step.hpp"

using async::threadpool;
using namespace std::chrono_literals;

namespace {

/// A tree of tasks, which are made on both pools in turn.
class waiting_tree {
 public:
  waiting_tree(threadpool& a, threadpool& b) : pools_{&a, &b} {}

  /// Runs a tree in a task of the first pool. Returns its number of tasks.
  std::size_t run(std::uint32_t seed, int depth) {
    planned_ = done_ = 0;
    home(0).post([&, seed, depth] { visit(0, seed, depth); }).get();
    return done_;
  }
  std::size_t planned() const { return planned_; }

 private:
  threadpool& home(std::size_t where) const { return *pools_[where % 2]; }

  /// In a task of pool `where`.
  void visit(std::size_t where, std::uint32_t seed, int depth) {
    ++planned_;
    std::minstd_rand random(seed + 1);
    const std::uint32_t children = depth == 0 ? 0 : 1 + random() % 2;
    for (std::uint32_t i = 0; i < children; ++i) {
      const auto next = static_cast<std::uint32_t>(random());
      descend(where, random() % 8, [this, next, depth](std::size_t at) { visit(at, next, depth - 1); });
    }
    ++done_;
  }

  /// Calls child(pool) in one or two tasks, and waits for them.
  void descend(std::size_t where, std::uint32_t way, const std::function<void(std::size_t)>& child) {
    threadpool& here = home(where);
    threadpool& there = home(where + 1);
    switch (way) {
      case 0: {
        async::task_group group(there);
        for (int i = 0; i < 2; ++i) group.run([&] { child(where + 1); });
        static_cast<void>(group.wait());
        break;
      }
      case 1:
        there.post([&] { child(where + 1); }).get();
        break;
      case 2:  // in a group of the other pool: an event that a task of this one sets
        inside(there, [&] {
          async::event event;
          here.execute([&] {
            child(where);
            event.set();
          });
          event.wait();
        });
        break;
      case 3:  // in such a group: a task of this pool, by polls
        inside(there, [&] {
          auto task = here.post([&] { child(where); });
          while (task.wait_for(20us) != std::future_status::ready) {
          }
          task.get();
        });
        break;
      case 4: {  // a poll, then a wait that runs a task of its own
        auto task = there.post([&] { child(where + 1); });
        static_cast<void>(task.wait_for(0ms));
        auto own = here.post([] {});
        task.get();
        own.get();
        break;
      }
      case 5:  // in a group of the other pool: a flow of this one
        inside(there, [&] { flow_of(here, [&] { child(where); }); });
        break;
      case 6:
        flow_of(there, [&] { child(where + 1); });
        break;
      default:  // a flow of this pool, for which a task of the other waits
        there.post([&] { flow_of(here, [&] { child(where); }); }).get();
        break;
    }
  }
  template <class F>
  static void inside(threadpool& pool, F f) {
    async::task_group group(pool);
    static_cast<void>(group.run_and_wait(f));
  }
  /// A flow of several turns, with a timer, that has a task of its pool make the call.
  template <class F>
  static void flow_of(threadpool& pool, F f) {
    steps::post(pool, [&](steps::IAsyncSteps& asi) {
      asi.relinquish();
      testing::add_timer(asi, 50us);
      asi.await(pool, [&f] { f(); });
    }).get();
  }

  threadpool* const pools_[2];
  std::atomic<std::size_t> planned_{0};
  std::atomic<std::size_t> done_{0};
};

}  // namespace

TEST_CASE("trees of tasks that wait for tasks and flows of another pool, and of their own, end") {
  std::minstd_rand random(static_cast<std::minstd_rand::result_type>(testing::seed()));
  std::size_t tasks = 0;
  for (std::size_t round = 0; round < testing::rounds(100); ++round) {
    threadpool a(1 + random() % 2);
    threadpool b(1 + random() % 2);
    waiting_tree tree(a, b);
    for (int i = 0; i < 5; ++i) {
      const std::size_t done = tree.run(static_cast<std::uint32_t>(random()), 5);
      REQUIRE(done == tree.planned());
      tasks += done;
    }
    a.wait_idle();
    b.wait_idle();
  }
  std::printf("count: %zu tasks that waited\n", tasks);
}
