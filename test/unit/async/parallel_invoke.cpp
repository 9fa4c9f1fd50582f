// SPDX-License-Identifier: BSL-1.0
#include "async/parallel_invoke.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "async/task_group.hpp"
#include "async/threadpool.hpp"
#include "support/alloc_counter.hpp"
#include "support/everywhere.hpp"
#include "support/live_count.hpp"
#include "support/occupied.hpp"
#include "support/start_line.hpp"
#include "support/wait_while.hpp"

using async::parallel_invoke;
using async::task_group;
using async::threadpool;
using testing::everywhere;

namespace {

std::atomic<int> calls_of_function{0};
void plain_function() { ++calls_of_function; }

std::uint64_t fibonacci(threadpool& pool, unsigned n) {
  if (n < 2) return n;
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  parallel_invoke(pool, [&] { a = fibonacci(pool, n - 1); }, [&] { b = fibonacci(pool, n - 2); });
  return a + b;
}

}  // namespace

TEST_CASE("each of one to five functions is called once, and all are done when it returns") {
  everywhere([](threadpool& pool) {
    for (int round = 0; round < 50; ++round) {
      std::vector<std::atomic<int>> calls(5);
      const auto f = [&calls](std::size_t i) { return [&calls, i] { ++calls[i]; }; };
      REQUIRE(parallel_invoke(pool, f(0)));
      REQUIRE(parallel_invoke(pool, f(0), f(1)));
      REQUIRE(parallel_invoke(pool, f(0), f(1), f(2)));
      REQUIRE(parallel_invoke(pool, f(0), f(1), f(2), f(3)));
      REQUIRE(parallel_invoke(pool, f(0), f(1), f(2), f(3), f(4)));
      for (std::size_t i = 0; i < 5; ++i) REQUIRE(calls[i] == static_cast<int>(5 - i));
    }
  });
}

TEST_CASE("the first function is called by the calling thread") {
  everywhere([](threadpool& pool) {
    std::thread::id first;
    parallel_invoke(pool, [&first] { first = std::this_thread::get_id(); }, [] {}, [] {});
    CHECK(first == std::this_thread::get_id());
  });
}

TEST_CASE("the functions are called at the same time when threads are free") {
  threadpool pool(4);
  testing::start_line line(4);  // each waits for the others
  const auto meet = [&line] { line.wait(); };
  CHECK(parallel_invoke(pool, meet, meet, meet, meet));
  testing::start_line again(4);
  const auto meet_again = [&again] { again.wait(); };
  pool.post([&] { CHECK(parallel_invoke(pool, meet_again, meet_again, meet_again, meet_again)); }).get();
}

TEST_CASE("functions, function pointers, move-only and changing callables; they are not copied, results are dropped") {
  struct counted : testing::live_count<counted> {
    int calls = 0;
    int operator()() { return ++calls; }
  };
  threadpool pool(2);
  calls_of_function = 0;
  counted changes;
  std::atomic<int> sum{0};
  auto owner = [p = std::make_unique<int>(3), &sum] { sum += *p; };
  CHECK(parallel_invoke(pool, plain_function, &plain_function, changes, owner, [&sum] { sum += 4; }));
  CHECK(parallel_invoke(pool, [p = std::make_unique<int>(3), &sum] { sum += *p; }, changes));
  CHECK(calls_of_function == 2);
  CHECK(changes.calls == 2);
  CHECK(counted::live() == 1);
  CHECK(sum == 10);
}

TEST_CASE("without a pool: the shared one, from outside, from inside and from the task of another pool") {
  std::atomic<int> calls{0};
  const auto one = [&calls] { ++calls; };
  CHECK(parallel_invoke(one));
  CHECK(parallel_invoke(one, one, one));
  threadpool::shared().post([&] { CHECK(parallel_invoke(one, one, one, one)); }).get();
  threadpool pool(1);
  pool.post([&] { CHECK(parallel_invoke(one, one)); }).get();
  CHECK(calls == 10);
  threadpool* of_second = nullptr;
  testing::start_line line(2);
  parallel_invoke(
      pool, [&line] { line.wait(); },
      [&] {
        of_second = threadpool::current();
        line.wait();
      });
  CHECK(of_second == &pool);
}

TEST_CASE("on a paused pool the calling thread makes all the calls, in their order") {
  threadpool pool(0);
  std::string order;
  CHECK(parallel_invoke(
      pool, [&order] { order += 'a'; }, [&order] { order += 'b'; }, [&order] { order += 'c'; },
      [&order] { order += 'd'; }));
  CHECK(order == "abcd");
}

TEST_CASE("on a stopped pool and on one whose threads are busy the calling thread makes all the calls") {
  threadpool stopped(2);
  stopped.stop();
  threadpool busy(1);
  const testing::occupied until(busy, 1);
  for (threadpool* const pool : {&stopped, &busy}) {
    std::string order;
    const std::thread::id here = std::this_thread::get_id();
    bool is_here = true;
    const auto letter = [&](char c) {
      return [&, c] {
        order += c;
        is_here = is_here && std::this_thread::get_id() == here;
      };
    };
    CHECK(parallel_invoke(*pool, letter('a'), letter('b'), letter('c')));
    CHECK(order == "abc");
    CHECK(is_here);
  }
}

TEST_CASE("calls nest, inside the pool and outside") {
  everywhere([](threadpool& pool) { CHECK(fibonacci(pool, 16) == 987); });
}

TEST_CASE("an exception is thrown whichever function throws it, and what has not begun is skipped") {
  threadpool pool(0);  // so that this thread makes all the calls
  for (int thrower = 0; thrower < 5; ++thrower) {
    CAPTURE(thrower);
    std::string called;
    const auto f = [&called, thrower](int i) {
      return [&called, thrower, i] {
        called += std::to_string(i);
        if (i == thrower) throw std::runtime_error(std::to_string(i));
      };
    };
    CHECK_THROWS_WITH_AS(parallel_invoke(pool, f(0), f(1), f(2), f(3), f(4)), std::to_string(thrower).c_str(),
                         std::runtime_error);
    CHECK(called == std::string("01234").substr(0, static_cast<std::size_t>(thrower) + 1));
  }
  CHECK_THROWS_AS(parallel_invoke(pool, [] { throw 1; }), int);
}

TEST_CASE("several exceptions: that of the first function in the list is thrown") {
  threadpool pool(4);
  for (int round = 0; round < 200; ++round) {
    testing::start_line all_begun(4);
    const auto f = [&all_begun](int number, bool throws) {
      return [&all_begun, number, throws] {
        all_begun.wait();
        if (throws) throw number;
      };
    };
    const int first = round % 3;
    int caught = -1;
    const auto call = [&] {
      try {
        parallel_invoke(pool, f(0, first <= 0), f(1, first <= 1), f(2, first <= 2), f(3, true));
      } catch (int number) {
        caught = number;
      }
    };
    if (round % 2 == 0) {
      call();
    } else {
      pool.post(call).get();
    }
    REQUIRE(caught == first);
  }
}

TEST_CASE("when the first function throws, what has begun is done before the exception comes out") {
  threadpool pool(2);
  for (int round = 0; round < 200; ++round) {
    testing::start_line both_begun(2);
    bool is_done = false;
    const auto call = [&] {
      parallel_invoke(
          pool,
          [&] {
            both_begun.wait();
            throw std::runtime_error("of the first");
          },
          [&] {
            both_begun.wait();
            std::this_thread::yield();
            is_done = true;
            throw std::logic_error("dropped");
          });
    };
    REQUIRE_THROWS_WITH_AS(call(), "of the first", std::runtime_error);
    REQUIRE(is_done);
  }
}

TEST_CASE("when the first function throws, what others are at can ask, and skips what it forks and groups") {
  threadpool pool(2);
  testing::start_line both_begun(2);
  int skipped = 0;
  bool was_all = true;
  const auto call = [&] {
    parallel_invoke(
        pool,
        [&] {
          both_begun.wait();
          throw std::runtime_error("of the first");
        },
        [&] {
          both_begun.wait();
          while (!async::current_group_is_cancelling()) std::this_thread::yield();
          task_group group(pool);
          for (int i = 0; i < 10; ++i) group.run([&skipped] { ++skipped; });
          was_all = group.wait();
        });
  };
  CHECK_THROWS_AS(call(), std::runtime_error);
  CHECK(skipped == 0);
  CHECK_FALSE(was_all);
  CHECK_FALSE(async::current_group_is_cancelling());
}

TEST_CASE("an exception leaves the pool as it was, from outside and inside") {
  everywhere([](threadpool& pool) {
    for (int round = 0; round < 50; ++round) {
      std::atomic<int> calls{0};
      const auto throws = [] { throw std::runtime_error("thrown"); };
      const auto one = [&calls] { ++calls; };
      REQUIRE_THROWS_AS(parallel_invoke(pool, one, throws), std::runtime_error);
      REQUIRE_THROWS_AS(parallel_invoke(pool, throws, one), std::runtime_error);
      REQUIRE_THROWS_AS(parallel_invoke(pool, one, [&] { parallel_invoke(pool, one, throws, one); }),
                        std::runtime_error);
      calls = 0;
      REQUIRE(parallel_invoke(pool, one, one, one));
      REQUIRE(calls == 3);
    }
  });
}

TEST_CASE("a group around that is cancelled: false, and what has not begun is skipped") {
  threadpool pool(1);
  const testing::occupied busy(pool, 1);  // so that this thread makes all the calls
  task_group group(pool);
  int calls = 0;
  bool all = true;
  CHECK_FALSE(group.run_and_wait([&] {
    all = parallel_invoke(
        pool, [&] { ++calls; },
        [&] {
          ++calls;
          group.cancel();
        },
        [&] { ++calls; }, [&] { ++calls; });
  }));
  CHECK_FALSE(all);
  CHECK(calls == 2);
  CHECK(group.run_and_wait([&] { all = parallel_invoke(pool, [&] { ++calls; }, [&] { ++calls; }); }));
  CHECK(all);
  CHECK(calls == 4);
}

TEST_CASE("a group around that is cancelled while the first function is at work: another thread skips the second one") {
  threadpool pool(1);
  std::optional<testing::occupied> busy(std::in_place, pool, 1U);
  task_group group(pool);
  bool was_called = false;
  bool all = true;
  CHECK_FALSE(group.run_and_wait([&] {
    all = parallel_invoke(
        pool,
        [&] {
          group.cancel();
          busy.reset();
          while (pool.idlesize() == 0) std::this_thread::yield();  // the worker has taken the second one
        },
        [&was_called] { was_called = true; });
  }));
  CHECK_FALSE(was_called);
  CHECK_FALSE(all);
}

TEST_CASE("a group around that is cancelled while all functions are at work: they can ask, and all were called") {
  threadpool pool(3);
  for (int round = 0; round < 50; ++round) {
    task_group group(pool);
    testing::start_line all_begun(3);
    std::atomic<int> told{0};
    bool all = false;
    const auto asks = [&] {
      all_begun.wait();
      while (!async::current_group_is_cancelling()) std::this_thread::yield();
      ++told;
    };
    group.run([&] {
      all = parallel_invoke(
          pool, asks,
          [&] {
            all_begun.wait();
            group.cancel();
          },
          asks);
    });
    REQUIRE_FALSE(group.wait());
    REQUIRE(told == 2);
    REQUIRE(all);
  }
}

TEST_CASE("calls in the tasks of a group, and groups in calls") {
  everywhere([](threadpool& pool) {
    std::atomic<int> calls{0};
    task_group group(pool);
    for (int i = 0; i < 20; ++i) {
      group.run([&] {
        parallel_invoke(
            pool, [&] { ++calls; },
            [&] {
              task_group inner(pool);
              inner.run([&] { ++calls; });
              inner.run([&] { parallel_invoke(pool, [&] { ++calls; }, [&] { ++calls; }); });
              inner.wait();
            });
      });
    }
    CHECK(group.wait());
    CHECK(calls == 20 * 4);
  });
}

TEST_CASE("several threads outside, which come and go, call in one pool") {
  threadpool pool(2);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::uint64_t> results(4);
    testing::run_threads(4, [&](std::size_t t) { results[t] = fibonacci(pool, 12); });
    REQUIRE(results == std::vector<std::uint64_t>(4, 144));
  }
}

TEST_CASE("a thread outside calls in several pools, one inside the other, and outlives some") {
  threadpool outer(1);
  std::atomic<int> calls{0};
  const auto one = [&calls] { ++calls; };
  for (int round = 0; round < 50; ++round) {
    std::optional<threadpool> inner(std::in_place, 1U);
    CHECK(parallel_invoke(
        outer, [&] { parallel_invoke(*inner, one, [&] { parallel_invoke(outer, one, one); }, one); }, one));
    inner.reset();
    CHECK(parallel_invoke(outer, one, one));
  }
  CHECK(calls == 50 * 7);
}

TEST_CASE("it does not call operator new once it is warm, inside the pool and outside") {
  for (const std::size_t threads : {0U, 1U, 2U}) {
    threadpool pool(threads);
    const auto work = [&pool] { CHECK(fibonacci(pool, 14) == 377); };
    CHECK(testing::fewest_calls(work) == 0);
    if (threads == 0) continue;
    CHECK(pool.post([&work] { return testing::fewest_calls(work); }).get() == 0);
  }
}

TEST_CASE("threads that end after a theft of their call leave no memory behind") {
  threadpool pool(1);
  const auto call = [&pool] {
    std::atomic<bool> is_stolen{false};
    std::thread([&] {
      parallel_invoke(pool, [&] { testing::wait_while(is_stolen, false); }, [&] { is_stolen = true; });
    }).join();
  };
  for (int i = 0; i < 10; ++i) call();
  const testing::alloc_counter counter;
  for (int i = 0; i < 500; ++i) call();
  CHECK(counter.live() <= 2);
}
