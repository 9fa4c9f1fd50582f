// SPDX-License-Identifier: BSL-1.0
//
// Branches that a worker runs one behind the other, in one turn of a loop.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "async/async.hpp"
#include "async/detail/pool/pool_loop.hpp"
#include "steps/steps.hpp"

using async::priority;
using async::threadpool;
using steps::IAsyncSteps;

namespace {

std::uint64_t tasks_of(const threadpool& pool) { return pool.stats().tasks; }

/// The priority of the loop that the calling thread is in, which is one of a pool.
priority level_here() { return async::detail::pool_loop::of(*async::detail::current_loop).slot.level; }

}  // namespace

TEST_CASE("branches that go on have a loop each, also those between others that end at once") {
  threadpool pool(1);
  std::string order;
  std::vector<steps::completion<>> waits;
  std::set<async::event_loop*> kept;
  steps::post(pool, [&](IAsyncSteps& asi) {
    auto& branches = asi.parallel();
    for (int i = 0; i < 10; ++i) {
      branches.add([&](IAsyncSteps& branch) {
        order += 'w';
        branch.add([&](IAsyncSteps& step) { waits.push_back(step.completion<>()); });
        branch.add([&](IAsyncSteps& step) {
          order += 'g';
          if (async::event_loop::current() == &step.tool()) kept.insert(&step.tool());
        });
      });
      for (int k = 0; k < 2; ++k) branches.add([&](IAsyncSteps&) { order += 'e'; });
    }
    branches.add([&](IAsyncSteps&) {
      for (const auto& each : waits) each.success();
    });
  }).get();
  std::string expected;
  for (int i = 0; i < 10; ++i) expected += "wee";
  CHECK(order == expected + std::string(10, 'g'));
  CHECK(kept.size() == 10);
}

TEST_CASE("a branch's hook for unhandled exceptions is not that of the next branch") {
  std::string caught;
  threadpool pool({.threads = 1, .on_unhandled = [&](std::exception_ptr) { caught += 'p'; }});
  steps::post(pool, [&](IAsyncSteps& asi) {
    auto& branches = asi.parallel();
    for (int i = 0; i < 3; ++i) {
      branches.add(
          [&](IAsyncSteps& branch) { branch.tool().on_unhandled([&](std::exception_ptr) { caught += 'b'; }); });
      branches.add([](IAsyncSteps& branch) {
        branch.tool().post([] { throw std::runtime_error("of a callback"); });
        branch.relinquish();
      });
    }
  }).get();
  CHECK(caught == "ppp");
}

TEST_CASE("each branch counts as one task") {
  threadpool pool(1);
  for (const std::size_t count : {2U, 15U, 16U, 17U, 100U}) {
    pool.wait_idle();
    const std::uint64_t before = tasks_of(pool);
    steps::post(pool, [count](IAsyncSteps& asi) {
      auto& branches = asi.parallel();
      for (std::size_t i = 0; i < count; ++i) branches.add([](IAsyncSteps&) {});
    }).get();
    pool.wait_idle();
    CHECK(tasks_of(pool) - before == count + 1);
  }
}

TEST_CASE("a branch that waits for tasks that it has posted runs no other branch meanwhile") {
  threadpool pool(1);
  int inside = 0;
  int nested = 0;
  int ran = 0;
  steps::post(pool, [&](IAsyncSteps& asi) {
    auto& branches = asi.parallel();
    for (int i = 0; i < 10; ++i) {
      branches.add([&](IAsyncSteps&) {
        nested += inside++;
        async::task_group group(pool);
        for (int k = 0; k < 3; ++k) group.run([&] { ++ran; });
        group.wait();
        --inside;
      });
    }
  }).get();
  CHECK(nested == 0);
  CHECK(ran == 30);
}

#if !defined(_LIBCPP_VERSION)  // its get() of a std::future blocks once a thread has taken the call
TEST_CASE("a branch that waits elsewhere runs the tasks that it has posted, the first branch and a later one") {
  for (const int which : {0, 5}) {
    CAPTURE(which);
    threadpool pool(1);
    std::thread::id ran_by;
    bool is_paused_at_end = false;
    steps::post(pool, [&](IAsyncSteps& asi) {
      auto& branches = asi.parallel();
      for (int i = 0; i < 8; ++i) {
        branches.add([&, i](IAsyncSteps&) {
          if (i != which) return;
          pool.configurepool(0);  // no other thread runs the task
          async::event ran;
          pool.execute([&] {
            ran_by = std::this_thread::get_id();
            ran.set();
          });
          async::async([&ran] { ran.wait(); }).get();
          is_paused_at_end = ran_by == std::this_thread::get_id() && pool.size() == 0;
          std::thread([&] { pool.configurepool(1); }).join();
        });
      }
    }).get();
    CHECK(is_paused_at_end);
  }
}
#endif

TEST_CASE("branches take turns with a task that each of them posts") {
  threadpool pool(1);
  std::string order;
  steps::post(pool, [&](IAsyncSteps& asi) {
    auto& branches = asi.parallel();
    for (int i = 0; i < 4; ++i) {
      branches.add([&](IAsyncSteps&) {
        order += 'b';
        pool.execute([&] { order += 't'; });
      });
    }
  }).get();
  pool.wait_idle();
  CHECK(order == "btbtbtbt");  // what is newest comes first
}

TEST_CASE("a loop that has work takes turns with branches") {
  threadpool pool(1);
  std::string order;
  steps::completion<> go_on;
  auto other = steps::post(pool, [&](IAsyncSteps& asi) {
    asi.add([&](IAsyncSteps& step) { go_on = step.completion<>(); });
    asi.repeat(3, [&](IAsyncSteps& turn) {
      order += 'f';
      turn.relinquish();
    });
  });
  pool.wait_idle();
  steps::post(pool, [&](IAsyncSteps& asi) {
    auto& branches = asi.parallel();
    for (int i = 0; i < 5; ++i) {
      branches.add([&](IAsyncSteps&) {
        if (order.empty()) go_on.success();
        order += 'b';
      });
    }
  }).get();
  other.get();
  CAPTURE(order);
  CHECK(order.size() == 8);
  // Not all of its turns after the branches. After a branch that took long it may have several turns in a row.
  CHECK(order.substr(0, order.rfind('f')).find("bbb") == std::string::npos);
}

TEST_CASE("branches of high priority that lie below others in the queue keep it") {
  threadpool pool(1);
  int high = 0;
  int normal = 0;
  bool are_right = true;
  const auto fork = [&](IAsyncSteps& asi, int& count, priority level) {
    auto& branches = asi.parallel();
    for (int i = 0; i < 5; ++i) {
      branches.add([&count, &are_right, level](IAsyncSteps&) {
        ++count;
        are_right = are_right && level_here() == level;
      });
    }
  };
  steps::completion<> go_on;
  auto above = steps::post(pool, [&](IAsyncSteps& asi) {
    asi.add([&](IAsyncSteps& step) { go_on = step.completion<>(); });
    asi.add([&](IAsyncSteps& step) { fork(step, normal, priority::normal); });
  });
  pool.wait_idle();
  steps::post(pool, priority::high, [&](IAsyncSteps& asi) {
    asi.add([&](IAsyncSteps&) { go_on.success(); });
    fork(asi, high, priority::high);
  }).get();
  above.get();
  CHECK(are_right);
  CHECK(high == 5);
  CHECK(normal == 5);
}
