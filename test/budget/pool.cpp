// SPDX-License-Identifier: BSL-1.0
// Tasks of a pool of one worker, all made and run by that worker, while the thread that made the pool sleeps; and what
// a thread outside a pool without workers does itself.
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <future>
#include <utility>
#include <vector>

#include "async/async.hpp"
#include "async/parallel_for.hpp"
#include "async/parallel_invoke.hpp"
#include "async/task_group.hpp"
#include "async/threadpool.hpp"
#include "budget.hpp"

namespace {

constexpr std::size_t batch = 100;

/// Calls work() on the only worker.
template <class Work>
void inside(Work work) {
  async::threadpool pool(1);
  pool.post([&] { work(pool); }).get();
}

/// Posts a batch of tasks, and itself for the next batch, which the worker comes to after most of them: newest first.
struct batches {
  async::threadpool& pool;
  std::size_t left;
  std::size_t& done;
  void operator()() const {
    if (left == 0) return;
    pool.execute(batches{pool, left - batch, done});
    for (std::size_t i = 0; i < batch; ++i) pool.execute([&done = done] { ++done; });
  }
};

void execute(std::size_t times) {
  async::threadpool pool(1);
  std::size_t done = 0;
  pool.execute(batches{pool, times, done});
  pool.wait_idle();
  if (done != times) std::abort();
}

/// The same while a timer is armed, as in a program whose flows have time limits.
void execute_beside_timer(std::size_t times) {
  async::threadpool pool(1);
  std::size_t done = 0;
  pool.post([&pool] { pool.loop(0).deferred(std::chrono::hours(1), [] {}); }).get();
  pool.execute(batches{pool, times, done});
  pool.wait_idle();
  if (done != times) std::abort();
}

void execute_from_outside(std::size_t times) {
  async::threadpool pool(1);
  pool.configurepool(0);
  std::size_t done = 0;
  for (std::size_t i = 0; i < times; ++i) pool.execute([&done] { ++done; });
  pool.configurepool(1);
  pool.wait_idle();
  if (done != times) std::abort();
}

void post(std::size_t times) {
  inside([times](async::threadpool& pool) {
    for (std::size_t i = 0; i < times; ++i) {
      async::future<std::size_t> result = pool.post([i] { return i; });
      static_cast<void>(pool.wait(result));
    }
  });
}

void post_for_std(std::size_t times) {
  inside([times](async::threadpool& pool) {
    for (std::size_t i = 0; i < times; ++i) {
      std::future<std::size_t> result = pool.post([i] { return i; });
      static_cast<void>(pool.wait(result));
    }
  });
}

void then(std::size_t times) {
  async::promise<std::size_t> first;
  async::future<std::size_t> last = first.get_future();
  for (std::size_t i = 0; i < times; ++i) {
    last = std::move(last).then([](async::future<std::size_t> f) { return f.get() + 1; });
  }
  first.set_value(0);
  if (last.get() != times) std::abort();
}

/// Posts a thousand calls at a time, and takes all results.
void post_many(std::size_t times, bool together) {
  inside([times, together](async::threadpool& pool) {
    std::size_t sum = 0;
    for (std::size_t done = 0; done < times; done += 1'000) {
      std::vector<async::future<std::size_t>> all;
      all.reserve(1'000);
      for (std::size_t i = 0; i < 1'000; ++i) all.push_back(pool.post([] { return std::size_t{1}; }));
      if (together) all = async::when_all(std::move(all)).get();
      for (auto& each : all) sum += each.get();
    }
    if (sum != times) std::abort();
  });
}
void wait_for_each(std::size_t times) { post_many(times, false); }
void wait_for_all(std::size_t times) { post_many(times, true); }

void group_of_many(std::size_t times) {
  inside([times](async::threadpool& pool) {
    std::size_t sum = 0;
    async::future_group group;
    for (std::size_t left = times; left != 0; left -= 1'000) {
      for (std::size_t i = 0; i < 1'000; ++i) group.add(pool.post([&sum] { ++sum; }));
      group.when_empty().get();
    }
    if (sum != times) std::abort();
  });
}

void fork_join(std::size_t times) {
  inside([times](async::threadpool& pool) {
    std::size_t done = 0;
    for (std::size_t i = 0; i < times; ++i) {
      async::task_group group(pool);
      group.run([&done] { ++done; });
      group.wait();
    }
  });
}

void fork_many(std::size_t times) {
  inside([times](async::threadpool& pool) {
    std::size_t done = 0;
    for (std::size_t i = 0; i < times; i += batch) {
      async::task_group group(pool);
      for (std::size_t j = 0; j < batch; ++j) group.run([&done] { ++done; });
      group.wait();
    }
  });
}

/// A binary tree of calls without a cut-off: as many forks as leaves but one.
std::size_t tree(async::threadpool& pool, std::size_t leaves) {
  if (leaves == 1) return 1;
  std::size_t a = 0;
  std::size_t b = 0;
  async::parallel_invoke(pool, [&] { a = tree(pool, leaves / 2); }, [&] { b = tree(pool, leaves - leaves / 2); });
  return a + b;
}

void invoke(std::size_t times) {
  inside([times](async::threadpool& pool) {
    if (tree(pool, times + 1) != times + 1) std::abort();
  });
}

void invoke_outside(std::size_t times) {
  async::threadpool pool(1);
  pool.configurepool(0);
  if (tree(pool, times + 1) != times + 1) std::abort();
}

void short_loops(std::size_t times) {
  inside([times](async::threadpool& pool) {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < times; ++i) {
      async::parallel_for(pool, std::size_t{0}, std::size_t{100}, [&sum](std::size_t j) { sum += j; });
    }
  });
}

void async_call(std::size_t times) {
  async::async([times] {
    for (std::size_t i = 0; i < times; ++i) static_cast<void>(async::async([i] { return i; }).get());
  }).get();
}

void loop(std::size_t times) {
  inside([times](async::threadpool& pool) {
    std::size_t sum = 0;
    async::parallel_for(pool, std::size_t{0}, times, [&sum](std::size_t i) { sum += i; });
  });
}

}  // namespace

int main() {
  return budget::measure({
      {"pool: execute from inside, and the task", 1000, execute},
      {"pool: the same while a timer is armed", 1000, execute_beside_timer},
      {"pool: execute from outside, and the task", 10000, execute_from_outside},
      {"pool: post from inside, and wait for it", 1000, post},
      {"pool: post from inside, and wait for its std::future", 1000, post_for_std},
      {"future: then(), and its call", 1000, then},
      {"future: one of a thousand, each waited for", 10000, wait_for_each},
      {"future: one of a thousand, with when_all()", 10000, wait_for_all},
      {"future_group: a call of a thousand", 10000, group_of_many},
      {"task_group: one task, and wait", 1000, fork_join},
      {"task_group: a task of a hundred", 1000, fork_many},
      {"parallel_invoke: a fork and a join", 1000, invoke},
      {"parallel_invoke: a fork and a join, from outside", 1000, invoke_outside},
      {"parallel_for: an index", 10000, loop},
      {"parallel_for: a loop of a hundred", 1000, short_loops},
      {"async: a call from inside, and get()", 10000, async_call},
  });
}
