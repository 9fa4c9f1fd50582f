// SPDX-License-Identifier: BSL-1.0
//
// A thread that waits for tasks runs only those that it waits for.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "async/async.hpp"
#include "support/occupied.hpp"
#include "support/scale.hpp"
#include "support/wait_while.hpp"

using async::parallel_for;
using async::parallel_invoke;
using async::task_group;
using async::threadpool;
using namespace std::chrono_literals;

namespace {

/// A mutex that reports a thread which locks it twice, instead of a deadlock.
class strict_mutex {
 public:
  void lock() {
    if (owner_ == std::this_thread::get_id()) {
      was_locked_twice_ = true;
      throw std::logic_error("locked twice by one thread");
    }
    mutex_.lock();
    owner_ = std::this_thread::get_id();
  }
  void unlock() {
    owner_ = std::thread::id{};
    mutex_.unlock();
  }
  bool was_locked_twice() const { return was_locked_twice_; }

 private:
  std::mutex mutex_;
  std::atomic<std::thread::id> owner_{};
  std::atomic<bool> was_locked_twice_{false};
};

/// A loop whose bodies all hold the same mutex over `inner(pool, i)`, which adds 10 to its argument.
template <class Inner>
void with_lock_held(Inner inner) {
  const std::size_t repeats = testing::rounds(200);
  for (const std::size_t threads : {1U, 2U, 4U}) {
    CAPTURE(threads);
    threadpool pool(threads);
    strict_mutex mutex;
    std::size_t inside = 0;  // guarded by the mutex
    std::atomic<std::size_t> calls{0};
    const auto loop = [&] {
      parallel_for(
          pool, 0, 20,
          [&](int) {
            const std::lock_guard lock(mutex);
            ++inside;
            inner(pool, calls);
            if (inside != 1) throw std::logic_error("another body is inside");
            --inside;
          },
          1);
    };
    for (std::size_t i = 0; i < repeats; ++i) {
      if (i % 2 == 0) {
        REQUIRE_NOTHROW(loop());
      } else {
        REQUIRE_NOTHROW(pool.post(loop).get());
      }
    }
    CHECK_FALSE(mutex.was_locked_twice());
    CHECK(calls == repeats * 20 * 10);
  }
}

/// Work that gives every thread something to steal, and takes some time.
void some_work() {
  for (int i = 0; i < 4; ++i) std::this_thread::yield();
}

/// The numbers of the tasks that this thread has run while it was in `wait`.
thread_local std::vector<int>* seen_here = nullptr;

void ran(int task) {
  if (seen_here != nullptr) seen_here->push_back(task);
}

template <class Wait>
std::vector<int> run_meanwhile(Wait wait) {
  std::vector<int> seen;
  std::vector<int>* const before = std::exchange(seen_here, &seen);
  wait();
  seen_here = before;
  std::sort(seen.begin(), seen.end());
  return seen;
}

/// first, first + 1, … last - 1.
std::vector<int> numbers(int first, int last) {
  std::vector<int> all(static_cast<std::size_t>(last - first));
  std::iota(all.begin(), all.end(), first);
  return all;
}

bool are_within(const std::vector<int>& seen, int first, int last) {
  return std::all_of(seen.begin(), seen.end(), [&](int task) { return task >= first && task < last; });
}

}  // namespace

TEST_CASE("a lock held over an inner loop is not requested by tasks that the same thread runs [trap: deadlock]") {
  with_lock_held([](threadpool& pool, std::atomic<std::size_t>& calls) {
    parallel_for(
        pool, 0, 10,
        [&](int) {
          some_work();
          ++calls;
        },
        1);
  });
}

TEST_CASE(
    "a lock held over the wait for a group is not requested by tasks that the same thread runs [trap: deadlock]") {
  with_lock_held([](threadpool& pool, std::atomic<std::size_t>& calls) {
    task_group group(pool);
    for (int i = 0; i < 10; ++i) {
      group.run([&] {
        some_work();
        ++calls;
      });
    }
    group.wait();
  });
}

TEST_CASE("a lock held over parallel_invoke is not requested by tasks that the same thread runs [trap: deadlock]") {
  with_lock_held([](threadpool& pool, std::atomic<std::size_t>& calls) {
    const auto one = [&] {
      some_work();
      ++calls;
    };
    const auto two = [&] { parallel_invoke(pool, one, one); };
    parallel_invoke(pool, two, two, one, two, two, one);
  });
}

TEST_CASE("a lock held over parallel_reduce is not requested by tasks that the same thread runs [trap: deadlock]") {
  with_lock_held([](threadpool& pool, std::atomic<std::size_t>& calls) {
    calls += async::parallel_reduce(
        pool, 0, 10, std::size_t{0},
        [](std::size_t sum, int) {
          some_work();
          return sum + 1;
        },
        std::plus<>(), 1);
  });
}

TEST_CASE("a thread_local set before an inner loop, a group or a call keeps its value over it") {
  static thread_local int mine = 0;
  const std::size_t repeats = testing::rounds(300);
  for (const std::size_t threads : {1U, 2U, 4U}) {
    threadpool pool(threads);
    std::atomic<int> wrong{0};
    for (std::size_t r = 0; r < repeats; ++r) {
      parallel_for(
          pool, 1, 20,
          [&](int i) {
            mine = i;
            parallel_for(pool, 0, 8, [](int) { some_work(); }, 1);
            if (mine != i) ++wrong;
            task_group group(pool);
            for (int k = 0; k < 4; ++k) group.run(some_work);
            group.wait();
            if (mine != i) ++wrong;
            parallel_invoke(pool, some_work, some_work, some_work);
            if (mine != i) ++wrong;
            mine = 0;
          },
          1);
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("two groups have alternating tasks in one deque: each wait runs its own, in either order") {
  threadpool pool(1);
  for (const int each : {1, 2, 10, 30}) {
    CAPTURE(each);
    for (const bool first_is_first : {true, false}) {
      pool.post([&] {
            task_group a(pool);
            task_group b(pool);
            for (int i = 0; i < each; ++i) {
              a.run([i] { ran(i); });
              b.run([i, each] { ran(each + i); });
            }
            const std::vector<int> during_first = run_meanwhile([&] { (first_is_first ? a : b).wait(); });
            const std::vector<int> during_second = run_meanwhile([&] { (first_is_first ? b : a).wait(); });
            CHECK(during_first == (first_is_first ? numbers(0, each) : numbers(each, 2 * each)));
            CHECK(during_second == (first_is_first ? numbers(each, 2 * each) : numbers(0, each)));
          })
          .get();
    }
  }
}

TEST_CASE("a group has tasks below thousands of others in one deque: its wait runs them, and no others") {
  constexpr int others = 5'000;
  for (const std::size_t threads : {1U, 2U}) {
    threadpool pool(threads);
    std::atomic<int> done{0};
    pool.post([&] {
          task_group below(pool);
          task_group above(pool);
          for (int i = 0; i < 10; ++i) {
            below.run([i, &done] {
              ran(i);
              ++done;
            });
          }
          for (int i = 0; i < others; ++i) {
            above.run([&done] {
              ran(1'000'000);
              ++done;
            });
          }
          CHECK(are_within(run_meanwhile([&] { below.wait(); }), 0, 10));
          above.wait();
        })
        .get();
    CHECK(done == 10 + others);
  }
}

TEST_CASE("a group has tasks between thousands of others: its wait ends, and runs none of the others") {
  constexpr int others = 5'000;
  for (const std::size_t threads : {1U, 2U}) {
    threadpool pool(threads);
    std::atomic<int> done{0};
    pool.post([&] {
          task_group older(pool);
          task_group between(pool);
          task_group newer(pool);
          const auto add = [&](task_group& group, int first, int count) {
            for (int i = 0; i < count; ++i) {
              group.run([i, first, &done] {
                ran(first + i);
                ++done;
              });
            }
          };
          add(older, 10'000, others);
          add(between, 0, 10);
          add(newer, 20'000, others);
          CHECK(are_within(run_meanwhile([&] { between.wait(); }), 0, 10));
          CHECK(are_within(run_meanwhile([&] { older.wait(); }), 10'000, 10'000 + others));
          newer.wait();
        })
        .get();
    CHECK(done == 10 + 2 * others);
  }
}

TEST_CASE("a thread outside adds tasks to two groups alternately: each wait runs only its own") {
  for (const std::size_t threads : {0U, 1U, 2U}) {
    threadpool pool(threads);
    for (std::size_t round = 0; round < testing::rounds(200); ++round) {
      std::atomic<int> done{0};
      task_group a(pool);
      task_group b(pool);
      for (int i = 0; i < 40; ++i) {
        a.run([i, &done] {
          ran(i);
          ++done;
        });
        b.run([i, &done] {
          ran(1'000 + i);
          ++done;
        });
      }
      const bool a_first = round % 2 == 0;
      const std::vector<int> first = run_meanwhile([&] { (a_first ? a : b).wait(); });
      const std::vector<int> second = run_meanwhile([&] { (a_first ? b : a).wait(); });
      REQUIRE(are_within(first, a_first ? 0 : 1'000, a_first ? 40 : 1'040));
      REQUIRE(are_within(second, a_first ? 1'000 : 0, a_first ? 1'040 : 40));
      REQUIRE(done == 80);
      if (threads == 0) REQUIRE(first.size() == 40);
    }
  }
}

TEST_CASE("a wait runs the tasks of groups, loops and calls that its group's tasks make") {
  threadpool pool(1);
  const testing::occupied busy(pool, 1);
  task_group outer(pool);
  task_group other(pool);
  std::vector<int> seen;
  for (int i = 0; i < 3; ++i) {
    other.run([] { ran(-1); });
    outer.run([&pool, i] {
      ran(100 * i);
      task_group inner(pool);
      for (int k = 1; k < 10; ++k) inner.run([i, k] { ran(100 * i + k); });
      parallel_for(pool, 10, 20, [i](int k) { ran(100 * i + k); }, 1);
      parallel_invoke(pool, [i] { ran(100 * i + 20); }, [i] { ran(100 * i + 21); });
      inner.wait();
    });
  }
  seen = run_meanwhile([&] { outer.wait(); });
  std::vector<int> expected;
  for (int i = 0; i < 3; ++i) {
    for (int k = 0; k < 22; ++k) expected.push_back(100 * i + k);
  }
  CHECK(seen == expected);
  CHECK(run_meanwhile([&] { other.wait(); }) == std::vector<int>(3, -1));
}

TEST_CASE("a wait for an inner group runs none of the tasks of the group around it") {
  for (const std::size_t threads : {1U, 2U, 4U}) {
    threadpool pool(threads);
    for (std::size_t round = 0; round < testing::rounds(50); ++round) {
      std::atomic<bool> is_wrong{false};
      std::atomic<int> done{0};
      task_group outer(pool);
      for (int i = 0; i < 30; ++i) {
        outer.run([&, i] {
          ran(i);
          task_group inner(pool);
          for (int k = 0; k < 4; ++k) {
            inner.run([&, i, k] {
              some_work();
              ran(1'000 * (i + 1) + k);
              ++done;
            });
          }
          const std::vector<int> seen = run_meanwhile([&] { inner.wait(); });
          if (!are_within(seen, 1'000 * (i + 1), 1'000 * (i + 2))) is_wrong = true;
        });
      }
      outer.wait();
      REQUIRE_FALSE(is_wrong);
      REQUIRE(done == 30 * 4);
    }
  }
}

TEST_CASE("parallel_invoke and loops that wait for stolen parts run none of their neighbours") {
  for (const std::size_t threads : {2U, 4U}) {
    threadpool pool(threads);
    for (std::size_t round = 0; round < testing::rounds(50); ++round) {
      std::atomic<bool> is_wrong{false};
      std::atomic<int> done{0};
      const auto leaf = [&](int number) {
        some_work();
        ran(number);
        ++done;
      };
      parallel_for(
          pool, 0, 30,
          [&](int i) {
            const int first = 1'000 * (i + 1);
            ran(i);
            const std::vector<int> in_call = run_meanwhile([&] {
              parallel_invoke(pool, [&] { leaf(first); }, [&] { leaf(first + 1); }, [&] { leaf(first + 2); });
            });
            const std::vector<int> in_loop = run_meanwhile([&] { parallel_for(pool, first + 3, first + 9, leaf, 1); });
            if (!are_within(in_call, first, first + 3) || !are_within(in_loop, first + 3, first + 9)) is_wrong = true;
          },
          1);
      REQUIRE_FALSE(is_wrong);
      REQUIRE(done == 30 * 9);
    }
  }
}

TEST_CASE("a group has tasks behind older ones in another thread's deque: its wait ends, and runs none of the older") {
  threadpool pool(2);
  for (std::size_t round = 0; round < testing::rounds(300); ++round) {
    task_group group(pool);
    std::atomic<int> older{0};
    std::atomic<int> of_group{0};
    std::atomic<bool> is_given{false};
    std::promise<void> all_done;
    pool.execute([&] {
      for (int i = 0; i < 10; ++i) {
        pool.execute([&] {
          ran(-1);
          ++older;
        });
      }
      for (int i = 0; i < 10; ++i) {
        group.run([&, i] {
          ran(i);
          if (++of_group == 10) all_done.set_value();
        });
      }
      is_given = true;
      all_done.get_future().wait();  // this worker runs none of them
    });
    testing::wait_while(is_given, false);
    const std::vector<int> seen = run_meanwhile([&] { group.wait(); });
    REQUIRE(are_within(seen, 0, 10));
    REQUIRE(of_group == 10);
    pool.wait_idle();
    REQUIRE(older == 10);
  }
}

TEST_CASE("tasks of execute do not run in the wait for a group, but when their thread is free") {
  threadpool pool(1);
  std::atomic<int> executed{0};
  int executed_in_wait = -1;
  pool.post([&] {
        for (int i = 0; i < 10; ++i) {
          pool.execute([&] {
            ran(-1);
            ++executed;
          });
        }
        task_group group(pool);
        for (int i = 0; i < 10; ++i) {
          group.run([&pool, &executed, i] {
            ran(i);
            pool.execute([&executed] {
              ran(-2);
              ++executed;
            });
          });
        }
        CHECK(run_meanwhile([&] { group.wait(); }) == numbers(0, 10));
        executed_in_wait = executed;
      })
      .get();
  pool.wait_idle();
  CHECK(executed_in_wait == 0);
  CHECK(executed == 20);
}

TEST_CASE("a task that waits for a promise which its own tasks fulfil runs them itself, on a pool of one") {
  threadpool pool(1);
  std::vector<int> seen;
  pool.execute([] { ran(-1); });
  std::future<void> waits = pool.post([&] {
    std::promise<void> kept;
    std::future<void> awaited = kept.get_future();
    pool.execute([&kept] {
      ran(0);
      kept.set_value();
    });
    for (int i = 1; i < 5; ++i) pool.execute([i] { ran(i); });
    seen = run_meanwhile([&] { pool.wait(awaited); });
  });
  pool.execute([] { ran(-2); });
  waits.get();
  CHECK(seen == numbers(0, 5));
}

TEST_CASE("a worker that sleeps in a wait does not run tasks of another group that arrive meanwhile") {
  threadpool pool(1);
  std::promise<void> set;
  std::future<void> awaited = set.get_future();
  std::vector<int> seen;
  std::future<void> waits = pool.post([&] { seen = run_meanwhile([&] { pool.wait(awaited); }); });
  std::atomic<int> done{0};
  bool is_run = true;
  const auto until = std::chrono::steady_clock::now() + 20ms;  // meanwhile the worker falls asleep
  do {
    task_group group(pool);
    group.run([&done] {
      ran(1);
      ++done;
    });
    group.wait();
    is_run = is_run && done.exchange(0) == 1;
  } while (std::chrono::steady_clock::now() < until);
  set.set_value();
  waits.get();
  CHECK(seen.empty());
  CHECK(is_run);
}

// With standard libraries that this library does not know, a std::future does not tell which call it belongs to.
using known_future = std::conditional_t<ASYNCSTEPS_CALL_STATE != 0, std::future<int>, async::future<int>>;

TEST_CASE_TEMPLATE("a task that waits for a call of another task runs this call, and nothing else", Future,
                   async::future<int>, known_future) {
  threadpool pool(1);
  std::vector<Future> calls(100);
  std::atomic<bool> is_wrong{false};
  std::promise<void> posted;
  std::future<int> sum = pool.post([&] {
    posted.get_future().wait();
    int all = 0;
    for (int i = 99; i >= 0; --i) {  // the newest first
      const std::vector<int> seen = run_meanwhile([&] { all += pool.wait(calls[static_cast<std::size_t>(i)]); });
      if (seen != std::vector<int>{i}) is_wrong = true;
    }
    return all;
  });
  for (int i = 0; i < 100; ++i) {
    calls[static_cast<std::size_t>(i)] = pool.post([i] {
      ran(i);
      return i;
    });
  }
  posted.set_value();
  CHECK(sum.get() == 4950);
  CHECK_FALSE(is_wrong);
}

TEST_CASE("a thread outside that waits for a group runs no task that was posted from outside") {
  threadpool pool(0);
  int posted = 0;
  for (int i = 0; i < 100; ++i) {
    pool.execute([&posted] {
      ran(-1);
      ++posted;
    });
  }
  task_group group(pool);
  for (int i = 0; i < 10; ++i) group.run([i] { ran(i); });
  CHECK(run_meanwhile([&] { group.wait(); }) == numbers(0, 10));
  CHECK(posted == 0);
  pool.configurepool(1);
  pool.wait_idle();
  CHECK(posted == 100);
}

TEST_CASE("an independent group does not run in the wait for the group whose task has made it") {
  threadpool pool(1);
  const testing::occupied busy(pool, 1);
  std::unique_ptr<task_group> alone;
  task_group outer(pool);
  outer.run([&] {
    alone = std::make_unique<task_group>(pool, async::independent);
    alone->run([] { ran(-1); });
  });
  outer.run([] { ran(1); });
  CHECK(run_meanwhile([&] { outer.wait(); }) == numbers(1, 2));
  CHECK(run_meanwhile([&] { alone->wait(); }) == std::vector<int>{-1});
}

TEST_CASE("threads that wait for different groups of one pool each run their own") {
  for (const std::size_t threads : {0U, 1U, 2U}) {
    threadpool pool(threads);
    std::atomic<bool> is_wrong{false};
    std::atomic<int> done{0};
    std::vector<std::thread> outside;
    const auto rounds = static_cast<int>(testing::rounds(300));
    for (int t = 0; t < 3; ++t) {
      outside.emplace_back([&, t] {
        for (int round = 0; round < rounds; ++round) {
          task_group group(pool);
          for (int i = 0; i < 8; ++i) {
            group.run([&, t, i] {
              ran(100 * t + i);
              task_group inner(pool);
              for (int k = 0; k < 3; ++k) {
                inner.run([&, t] {
                  ran(100 * t + 50);
                  ++done;
                });
              }
              inner.wait();
            });
          }
          if (!are_within(run_meanwhile([&] { group.wait(); }), 100 * t, 100 * t + 100)) is_wrong = true;
        }
      });
    }
    for (std::thread& thread : outside) thread.join();
    CHECK_FALSE(is_wrong);
    CHECK(done == 3 * 8 * 3 * rounds);
  }
}
