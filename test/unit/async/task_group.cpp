// SPDX-License-Identifier: BSL-1.0
#include "async/task_group.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "async/threadpool.hpp"
#include "support/alloc_counter.hpp"
#include "support/live_count.hpp"
#include "support/occupied.hpp"
#include "support/start_line.hpp"

using async::task_group;
using async::threadpool;
using testing::occupied;
using namespace std::chrono_literals;

namespace {

std::uint64_t fibonacci(threadpool& pool, unsigned n) {
  if (n < 2) return n;
  std::uint64_t a = 0;
  task_group group(pool);
  group.run([&, n] { a = fibonacci(pool, n - 1); });
  const std::uint64_t b = fibonacci(pool, n - 2);
  group.wait();
  return a + b;
}

/// Holds a task until open() is called.
class gate {
 public:
  void pass() { opened_.get_future().wait(); }
  void open() { opened_.set_value(); }

 private:
  std::promise<void> opened_;
};

}  // namespace

TEST_CASE("wait returns true when every task has run") {
  threadpool pool(2);
  task_group group(pool);
  CHECK(group.wait());  // there is no task
  std::atomic<int> ran{0};
  for (int i = 0; i < 1000; ++i) group.run([&ran] { ran.fetch_add(1, std::memory_order_relaxed); });
  CHECK(group.wait());
  CHECK(ran == 1000);
  CHECK(group.wait());
}

TEST_CASE("a group can be used again after wait") {
  threadpool pool(2);
  task_group group(pool);
  int sum = 0;
  for (int round = 1; round <= 100; ++round) {
    int a = 0;
    int b = 0;
    group.run([&] { a = round; });
    group.run([&] { b = round; });
    group.wait();
    sum += a + b;
  }
  CHECK(sum == 100 * 101);
}

TEST_CASE("tasks may add tasks to their group") {
  threadpool pool(3);
  task_group group(pool);
  std::atomic<int> ran{0};
  struct node {
    task_group& group;
    std::atomic<int>& ran;
    int depth;
    void operator()() const {
      ran.fetch_add(1, std::memory_order_relaxed);
      if (depth == 0) return;
      group.run(node{group, ran, depth - 1});
      group.run(node{group, ran, depth - 1});
    }
  };
  group.run(node{group, ran, 12});
  group.wait();
  CHECK(ran == (1 << 13) - 1);
}

TEST_CASE("groups nest to any depth, on one thread and on several, with waits inside and outside the pool") {
  for (const std::size_t threads : {1U, 2U, 4U}) {
    threadpool pool(threads);
    CHECK(fibonacci(pool, 18) == 2584);
    CHECK(pool.post([&pool] { return fibonacci(pool, 18); }).get() == 2584);
  }
}

TEST_CASE("several threads run tasks in one group") {
  threadpool pool(2);
  task_group group(pool);
  std::atomic<int> ran{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) group.run([&ran] { ran.fetch_add(1, std::memory_order_relaxed); });
    });
  }
  for (std::thread& t : threads) t.join();
  group.wait();
  CHECK(ran == 8000);
}

TEST_CASE("several threads wait for one group") {
  threadpool pool(2);
  for (int round = 0; round < 50; ++round) {
    task_group group(pool);
    std::atomic<int> ran{0};
    for (int i = 0; i < 20; ++i) group.run([&ran] { ran.fetch_add(1, std::memory_order_relaxed); });
    std::vector<std::thread> threads;
    std::atomic<int> early{0};
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        group.wait();
        if (ran != 20) ++early;
      });
    }
    for (std::thread& t : threads) t.join();
    CHECK(early == 0);
  }
}

TEST_CASE("one task of the pool makes a group, and another one, or a thread outside, waits for it") {
  threadpool pool(2);
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> ran{0};
    auto group = pool.post([&] {
                       auto made = std::make_unique<task_group>(pool);
                       for (int i = 0; i < 20; ++i) made->run([&ran] { ran.fetch_add(1, std::memory_order_relaxed); });
                       return made;
                     })
                     .get();
    if (round % 2 == 0) {
      pool.post([&] { group->wait(); }).get();
    } else {
      group->wait();
    }
    REQUIRE(ran == 20);
  }
}

TEST_CASE("wait throws what a task has thrown, once, and the group can be used again") {
  threadpool pool(2);
  task_group group(pool);
  group.run([] { throw std::runtime_error("thrown by a task"); });
  CHECK_THROWS_WITH_AS(group.wait(), "thrown by a task", std::runtime_error);
  CHECK(group.wait());
  bool ran = false;
  group.run([&ran] { ran = true; });
  CHECK(group.wait());
  CHECK(ran);
}

TEST_CASE("several exceptions: the first is thrown, and tasks that have not started are skipped") {
  threadpool pool(1);
  std::string thrown;
  std::vector<int> ran;
  pool.post([&] {
        task_group group(pool);
        for (int i = 0; i < 10; ++i) {
          group.run([&ran, i] {
            ran.push_back(i);
            throw std::runtime_error(std::to_string(i));
          });
        }
        try {
          group.wait();
        } catch (const std::runtime_error& error) {
          thrown = error.what();
        }
      })
      .get();
  REQUIRE(ran.size() == 1);
  CHECK(thrown == std::to_string(ran[0]));
}

TEST_CASE("exceptions of a group after the first are destroyed") {
  struct thrown : testing::live_count<thrown> {};
  threadpool pool(2);
  task_group group(pool);
  testing::countdown both(2);
  for (int i = 0; i < 2; ++i) {
    group.run([&both] {
      both.count_down();
      both.wait();  // so that neither of the two tasks is skipped
      throw thrown();
    });
  }
  CHECK_THROWS_AS(group.wait(), thrown);
  CHECK(thrown::live() == 0);
}

TEST_CASE("cancel skips and destroys tasks that have not started, wait returns false; then the group is as new") {
  threadpool pool(1);
  const auto token = std::make_shared<int>(0);
  task_group group(pool);
  gate go;
  std::promise<void> started;
  bool seen = false;
  int ran = 0;
  group.run([&] {
    started.set_value();
    go.pass();
    seen = group.is_cancelling();
  });
  started.get_future().wait();
  for (int i = 0; i < 10; ++i) group.run([&ran, token] { ++ran; });
  CHECK(token.use_count() == 11);
  CHECK_FALSE(group.is_cancelling());
  group.cancel();
  group.cancel();
  CHECK(group.is_cancelling());
  group.run([&ran, token] { ++ran; });
  go.open();
  CHECK_FALSE(group.wait());
  CHECK(seen);
  CHECK(ran == 0);
  CHECK(token.use_count() == 1);
  CHECK_FALSE(group.is_cancelling());
  group.run([&ran] { ++ran; });
  CHECK(group.wait());
  CHECK(ran == 1);
}

TEST_CASE("a task may cancel its group") {
  threadpool pool(2);
  task_group group(pool);
  std::atomic<int> ran{0};
  for (int i = 0; i < 10'000; ++i) {
    group.run([&] {
      const int before = ran.fetch_add(1);
      if (before == 5) group.cancel();
      while (before > 5 && !group.is_cancelling())
        std::this_thread::yield();  // those that have begun before the cancel
    });
  }
  CHECK_FALSE(group.wait());
  CHECK(ran > 5);
  CHECK(ran < 10);
}

TEST_CASE(
    "cancel goes down the tree: groups made in tasks of a cancelled group skip their tasks, and wait returns false") {
  threadpool pool(2);
  std::atomic<int> ran{0};
  std::atomic<bool> inner_is_cancelling{false};
  std::atomic<bool> current_is_cancelling{false};
  std::atomic<bool> inner_complete{true};
  task_group outer(pool);
  outer.run([&] {
    task_group inner(pool);
    CHECK_FALSE(inner.is_cancelling());
    CHECK_FALSE(async::current_group_is_cancelling());
    outer.cancel();
    inner_is_cancelling = inner.is_cancelling();
    current_is_cancelling = async::current_group_is_cancelling();
    for (int i = 0; i < 100; ++i) inner.run([&ran] { ++ran; });
    inner_complete = inner.wait();
  });
  CHECK_FALSE(outer.wait());
  CHECK(ran == 0);
  CHECK(inner_is_cancelling);
  CHECK(current_is_cancelling);
  CHECK_FALSE(inner_complete);
  CHECK_FALSE(async::current_group_is_cancelling());
  outer.run([&] {  // as new
    task_group inner(pool);
    inner.run([&ran] { ++ran; });
    CHECK(inner.wait());
  });
  CHECK(outer.wait());
  CHECK(ran == 1);
}

TEST_CASE("an exception in a task of the outer group skips tasks of inner groups that have not begun") {
  threadpool pool(2);
  std::atomic<int> ran{0};
  std::promise<void> thrown;
  task_group outer(pool);
  outer.run([&] {
    task_group inner(pool);
    thrown.get_future().wait();
    while (!outer.is_cancelling()) std::this_thread::yield();
    for (int i = 0; i < 100; ++i) inner.run([&ran] { ++ran; });
    CHECK_FALSE(inner.wait());
  });
  outer.run([&] {
    thrown.set_value();
    throw std::runtime_error("of the outer group");
  });
  CHECK_THROWS_WITH_AS(outer.wait(), "of the outer group", std::runtime_error);
  CHECK(ran == 0);
}

TEST_CASE("cancel reaches neither outer groups, nor neighbours, nor independent groups") {
  threadpool pool(1);
  int ran = 0;
  task_group outer(pool);
  CHECK(outer.run_and_wait([&] {
    task_group cancelled(pool);
    task_group other(pool);
    cancelled.cancel();
    cancelled.run([&ran] { ran += 100; });
    other.run([&ran] { ran += 1; });
    CHECK_FALSE(cancelled.wait());
    CHECK(other.wait());
    CHECK_FALSE(outer.is_cancelling());
  }));
  CHECK_FALSE(outer.run_and_wait([&] {
    task_group alone(pool, async::independent);
    outer.cancel();
    alone.run([&ran] { ran += 10; });
    CHECK(alone.wait());
    CHECK(async::current_group_is_cancelling());
  }));
  CHECK(ran == 11);
}

TEST_CASE("a group that outlives its outer group is not cancelled by the next user of that memory") {
  threadpool pool(1);
  std::unique_ptr<task_group> survivor;
  {
    task_group around(pool);
    around.run_and_wait([&] { survivor = std::make_unique<task_group>(pool); });
  }
  for (int i = 0; i < 200; ++i) {
    task_group next(pool);
    next.cancel();
    CHECK_FALSE(survivor->is_cancelling());
    static_cast<void>(next.run_and_wait([] {}));
  }
}

TEST_CASE("run_and_wait calls on this thread, as a task of the group, and waits for the other tasks") {
  threadpool pool(2);
  task_group group(pool);
  std::atomic<int> ran{0};
  std::thread::id here;
  CHECK(group.run_and_wait([&] {
    here = std::this_thread::get_id();
    for (int i = 0; i < 10; ++i) group.run([&ran] { ++ran; });
  }));
  CHECK(here == std::this_thread::get_id());
  CHECK(ran == 10);
  CHECK_THROWS_WITH_AS(group.run_and_wait([] { throw std::runtime_error("here"); }), "here", std::runtime_error);
  CHECK(group.wait());
  group.cancel();
  CHECK_FALSE(group.run_and_wait([&ran] { ++ran; }));
  CHECK(ran == 10);
}

TEST_CASE("run_and_wait in a task of a cancelled group: false, and nothing is called") {
  threadpool pool(1);
  task_group outer(pool);
  bool was_called = false;
  bool is_complete = true;
  CHECK_FALSE(outer.run_and_wait([&] {
    outer.cancel();
    task_group inner(pool);
    is_complete = inner.run_and_wait([&was_called] { was_called = true; });
  }));
  CHECK_FALSE(was_called);
  CHECK_FALSE(is_complete);
}

TEST_CASE("the destructor waits") {
  threadpool pool(2);
  for (int round = 0; round < 100; ++round) {
    std::atomic<int> ran{0};
    {
      task_group group(pool);
      for (int i = 0; i < 10; ++i) group.run([&ran] { ran.fetch_add(1, std::memory_order_relaxed); });
    }
    REQUIRE(ran == 10);
  }
}

TEST_CASE("an exception that leaves the scope of a group cancels the group; no task's exception replaces it") {
  threadpool pool(1);
  const occupied busy(pool, 1);
  int ran = 0;
  const auto scope = [&] {
    task_group group(pool);
    group.run([&ran] { ++ran; });
    group.run([] { throw std::logic_error("dropped"); });
    throw std::runtime_error("of the scope");
  };
  CHECK_THROWS_WITH_AS(scope(), "of the scope", std::runtime_error);
  CHECK(ran == 0);
}

TEST_CASE("a group that a destructor makes and waits for while an exception is on its way runs its tasks") {
  threadpool pool(1);
  const occupied busy(pool, 1);
  int ran = 0;
  struct uses_group {
    threadpool& pool;
    int& ran;
    ~uses_group() {
      task_group group(pool);
      group.run([this] { ++ran; });
    }
  };
  const auto scope = [&] {
    const uses_group at_end{pool, ran};
    throw std::runtime_error("of the scope");
  };
  CHECK_THROWS_WITH_AS(scope(), "of the scope", std::runtime_error);
  CHECK(ran == 1);
}

TEST_CASE("an exception without a wait goes to the pool's on_unhandled") {
  std::promise<std::string> unhandled;
  async::threadpool_options options;
  options.threads = 1;
  options.on_unhandled = [&](std::exception_ptr error) {
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& e) {
      unhandled.set_value(e.what());
    }
  };
  threadpool pool(std::move(options));
  {
    task_group group(pool);
    group.run([] { throw std::runtime_error("nobody waits"); });
  }
  CHECK(unhandled.get_future().get() == "nobody waits");
}

TEST_CASE("an exception of a task does not go there when another one leaves the scope of the group") {
  std::atomic<int> unhandled{0};
  async::threadpool_options options;
  options.threads = 1;
  options.on_unhandled = [&unhandled](std::exception_ptr) { ++unhandled; };
  threadpool pool(std::move(options));
  const auto scope = [&pool] {
    task_group group(pool);
    std::promise<void> begun;
    group.run([&begun] {
      begun.set_value();
      throw std::runtime_error("of a task");
    });
    begun.get_future().wait();
    throw std::logic_error("of the scope");
  };
  CHECK_THROWS_AS(scope(), std::logic_error);
  pool.wait_idle();
  CHECK(unhandled == 0);
}

TEST_CASE("a task and its captures are destroyed before wait returns [trap: kept alive]") {
  threadpool pool(2);
  const auto token = std::make_shared<int>(0);
  for (int round = 0; round < 200; ++round) {
    task_group group(pool);
    for (int i = 0; i < 4; ++i) group.run([token] { static_cast<void>(*token); });
    group.wait();
    REQUIRE(token.use_count() == 1);
  }
  task_group group(pool);
  group.run([token] { throw std::runtime_error("thrown"); });
  CHECK_THROWS_AS(group.wait(), std::runtime_error);
  CHECK(token.use_count() == 1);
}

TEST_CASE("callables of every kind: functions, move-only, called as rvalues only, large, over-aligned") {
  threadpool pool(2);
  task_group group(pool);
  static std::atomic<int> calls;
  calls = 0;
  group.run(+[] { ++calls; });
  const auto constant = [] { ++calls; };
  group.run(constant);
  group.run([p = std::make_unique<int>(1)] { calls += *p; });
  struct once {
    std::unique_ptr<int> value = std::make_unique<int>(1);
    void operator()() && { calls += *std::exchange(value, nullptr); }
  };
  group.run(once{});
  group.run([bytes = std::array<unsigned char, 5000>{1}] { calls += bytes[0]; });
  struct alignas(256) wide {
    void operator()() const { calls += reinterpret_cast<std::uintptr_t>(this) % 256 == 0 ? 1 : 0; }
  };
  group.run(wide{});
  group.run([]() noexcept { return ++calls; });  // the result is discarded
  group.wait();
  CHECK(calls == 7);
}

TEST_CASE("when the copy of a callable throws, nothing has happened") {
  threadpool pool(1);
  task_group group(pool);
  struct throws_on_copy {
    throws_on_copy() = default;
    throws_on_copy(const throws_on_copy&) { throw std::runtime_error("copied"); }
    void operator()() const {}
  };
  const throws_on_copy original;
  CHECK_THROWS_AS(group.run(original), std::runtime_error);
  CHECK(group.wait());
}

TEST_CASE("fork and join does not call operator new once it is warm") {
  threadpool pool(2);
  CHECK(testing::fewest_calls([&pool] { pool.post([&pool] { return fibonacci(pool, 16); }).get(); }) == 0);
}

TEST_CASE("a group cannot be copied or moved") {
  static_assert(!std::is_copy_constructible_v<task_group>);
  static_assert(!std::is_copy_assignable_v<task_group>);
  static_assert(!std::is_move_constructible_v<task_group>);
  static_assert(!std::is_convertible_v<threadpool&, task_group>);
}

TEST_CASE("a group takes an async::task that is given away") {
  threadpool pool(2);
  task_group group(pool);
  std::atomic<int> ran{0};
  group.run(async::task([&ran] { ++ran; }));
  async::task other([&ran] { ++ran; });
  CHECK(group.run_and_wait(std::move(other)));
  CHECK(ran == 2);
  group.run(async::task());
  CHECK_THROWS_AS(group.wait(), std::bad_function_call);
}
