// SPDX-License-Identifier: BSL-1.0
//
// oneTBB: tasks from outside are enqueued in an arena, with a std::promise if a future is required. Tasks from inside
// belong to a task_group.
#include <oneapi/tbb/global_control.h>   // for global_control
#include <oneapi/tbb/parallel_for.h>     // for parallel_for
#include <oneapi/tbb/parallel_invoke.h>  // for parallel_invoke
#include <oneapi/tbb/task_arena.h>       // for task_arena
#include <oneapi/tbb/task_group.h>       // for task_group
#include <oneapi/tbb/version.h>          // for TBB_runtime_version

#include <future>  // for packaged_task

#include "../support/pool_workloads.hpp"  // for add_pool

namespace {

class adapter {
 public:
  static constexpr double nanoseconds_per_task = 300;
  static constexpr bool has_threads = false;  // started with the first task and kept until the process ends
  // One slot is for the thread that makes the arena: loops and groups from outside use it.
  explicit adapter(std::size_t workers) : arena_(static_cast<int>(workers) + 1, 1) {
    // By default oneTBB starts at most one thread per processor.
    static const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, 64);
  }
  ~adapter() {
    arena_.execute([this] { group_.wait(); });
  }
  template <class F>
  auto post(F f) {
    auto task = std::make_shared<std::packaged_task<decltype(f())()>>(std::move(f));
    auto future = task->get_future();
    arena_.enqueue([task] { (*task)(); });
    return future;
  }
  template <class F>
  void execute(F f) {
    const auto inside = [f] {
      is_inside = true;
      f();
    };
    if (is_inside) {
      group_.run(inside);
    } else {
      arena_.enqueue(inside);
    }
  }
  template <class F, class G>
  void fork_join(F f, G g) {
    tbb::task_group parts;
    parts.run(std::move(f));
    g();
    parts.wait();
  }
  template <class F>
  void enter(const F& f) {
    arena_.execute(f);
  }
  struct group : tbb::task_group {
    explicit group(adapter&) {}
  };
  template <class F>
  void loop(std::size_t count, F f) {
    const auto run = [&] { tbb::parallel_for(std::size_t{0}, count, f); };
    is_inside ? run() : arena_.execute(run);
  }
  template <class F>
  void fork_many(std::size_t count, const F& f) {
    arena_.execute([&] {
      tbb::task_group parts;
      for (std::size_t i = 0; i < count; ++i) parts.run(f);
      parts.wait();
    });
  }

 private:
  static inline thread_local bool is_inside = false;  // true in oneTBB's threads, whose tasks go to their own deques
  tbb::task_arena arena_;
  tbb::task_group group_;
};

struct invoking : adapter {
  using adapter::adapter;
  template <class F, class G>
  void fork_join(const F& f, const G& g) {
    tbb::parallel_invoke(f, g);
  }
};

const bench::enroll contestants("oneTBB", TBB_runtime_version(), [](bench::plan& plan) {
  bench::add_pool<adapter>(plan, "oneTBB", 30);
  bench::add_fork_join<invoking>(plan, "oneTBB parallel_invoke", 31);
  bench::add_search<adapter>(plan, "oneTBB", 30);
});

}  // namespace
