// SPDX-License-Identifier: BSL-1.0
//
// oneTBB: a task_group inside an arena.
#include <oneapi/tbb/global_control.h>  // for global_control
#include <oneapi/tbb/task_arena.h>      // for task_arena
#include <oneapi/tbb/task_group.h>      // for task_group
#include <oneapi/tbb/version.h>         // for TBB_runtime_version

#include "../support/flows_workloads.hpp"  // for add_fan_out

namespace {

struct adapter {
  explicit adapter(std::size_t workers) : arena(static_cast<int>(workers), 0) {
    // By default oneTBB starts at most one thread per processor.
    static const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, 64);
  }
  template <class F>
  void execute(F f) {
    arena.enqueue(std::move(f));
  }
  tbb::task_arena arena;
};

bench::sample fan_out(std::size_t branches, std::size_t groups) {
  adapter pool(2);
  return bench::measure_fan_out(branches, groups, [&](std::size_t count) {
    bench::nanoseconds took{};
    bench::run_inside(pool, [&] {
      const auto begin = bench::wall_clock::now();
      for (std::size_t i = 0; i < count; ++i) {
        tbb::task_group group;
        for (std::size_t b = 0; b < branches; ++b) group.run(bench::empty_task{});
        group.wait();
      }
      took = bench::wall_clock::now() - begin;
    });
    return took;
  });
}

const bench::enroll contestants("oneTBB", TBB_runtime_version(),
                                [](bench::plan& plan) { bench::add_fan_out(plan, "oneTBB", 30, 100, fan_out); });

}  // namespace
