// SPDX-License-Identifier: BSL-1.0
//
// This project's own pool; and async::async, which runs on its shared pool.
#include <async/async.hpp>       // for async
#include <async/task_group.hpp>  // for task_group
#include <async/threadpool.hpp>  // for threadpool

#include "../support/pool_workloads.hpp"  // for add_pool

namespace {

struct own_pool {
  static constexpr double nanoseconds_per_task = 130;
  static constexpr bool has_threads = true;
  explicit own_pool(std::size_t workers) : pool(workers) {}
  template <class F>
  auto post(F f) {
    return pool.post(std::move(f));
  }
  template <class F>
  void execute(F f) {
    pool.execute(std::move(f));
  }
  template <class F, class G>
  void fork_join(F f, G g) {
    async::task_group parts(pool);
    parts.run(std::move(f));
    g();
    parts.wait();
  }
  async::threadpool pool;
};

struct shared_pool {
  static constexpr double nanoseconds_per_task = 130;
  static constexpr bool has_threads = false;
  explicit shared_pool(std::size_t workers) { async::threadpool::shared().configurepool(workers); }
  template <class F>
  auto post(F f) {
    return async::async(std::move(f));
  }
};

const bench::enroll contestants([](bench::plan& plan) {
  bench::add_pool<own_pool>(plan, "async::threadpool", 0);
  bench::add_pool<shared_pool>(plan, "async::async", 1);
});

}  // namespace
