// SPDX-License-Identifier: BSL-1.0
// Tasks of a pool of one worker, all made and run by that worker, while the thread that made the pool sleeps.
#include <cstddef>
#include <cstdlib>
#include <future>

#include "async/parallel_for.hpp"
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

void execute(std::size_t times) {
  inside([times](async::threadpool& pool) {
    std::size_t done = 0;
    for (std::size_t i = 0; i < times; i += batch) {
      std::future<void> oldest = pool.post([] {});  // the worker takes the newest first
      for (std::size_t j = 0; j < batch; ++j) pool.execute([&done] { ++done; });
      pool.wait(oldest);
    }
    if (done != times) std::abort();
  });
}

void post(std::size_t times) {
  inside([times](async::threadpool& pool) {
    for (std::size_t i = 0; i < times; ++i) {
      std::future<std::size_t> result = pool.post([i] { return i; });
      static_cast<void>(pool.wait(result));
    }
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
      {"pool: post from inside, and wait for it", 1000, post},
      {"task_group: one task, and wait", 1000, fork_join},
      {"task_group: a task of a hundred", 1000, fork_many},
      {"parallel_for: an index", 10000, loop},
  });
}
