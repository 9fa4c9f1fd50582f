// SPDX-License-Identifier: BSL-1.0
//
// This project's pool, and async::async on its shared pool.
#include <async/async.hpp>            // for async
#include <async/parallel_for.hpp>     // for parallel_for
#include <async/parallel_invoke.hpp>  // for parallel_invoke
#include <async/task_group.hpp>       // for task_group
#include <async/threadpool.hpp>       // for threadpool

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
    async::parallel_invoke(pool, f, g);
  }
  template <class F>
  void loop(std::size_t count, F f) {
    async::parallel_for(pool, std::size_t{0}, count, std::move(f));
  }
  template <class F>
  void fork_many(std::size_t count, const F& f) {
    async::task_group parts(pool);
    for (std::size_t i = 0; i < count; ++i) parts.run(f);
    parts.wait();
  }
  async::threadpool pool;
};

struct own_group : own_pool {
  using own_pool::own_pool;
  struct group : async::task_group {
    explicit group(own_pool& on) : task_group(on.pool) {}
  };
  template <class F, class G>
  void fork_join(F f, G g) {
    async::task_group parts(pool);
    parts.run(std::move(f));
    g();
    parts.wait();
  }
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
  bench::add_fork_join<own_group>(plan, "async::task_group", 1);
  bench::add_search<own_group>(plan, "async::task_group", 1);
  bench::add_pool<shared_pool>(plan, "async::async", 2);
});

}  // namespace
