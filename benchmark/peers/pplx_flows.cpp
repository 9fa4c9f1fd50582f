// SPDX-License-Identifier: BSL-1.0
//
// PPL of the C++ REST SDK (pplx), on a pool with the requested number of threads: create_task and when_all.
#include <cpprest/version.h>  // for CPPREST_VERSION_MAJOR
#include <pplx/pplxtasks.h>   // for create_task, when_all
#include <pplx/threadpool.h>  // for threadpool

#include <memory>  // for unique_ptr
#include <vector>  // for vector

#include "../support/flows_workloads.hpp"  // for add_futures, add_fan_out

namespace {

class adapter {
 public:
  static constexpr double nanoseconds_per_task = 1'200;
  explicit adapter(std::size_t workers) : scheduler_(workers) {}
  template <class F>
  auto post(F f) {
    return pplx::create_task(std::move(f), pplx::task_options(pplx::scheduler_ptr(&scheduler_)));
  }
  template <class F>
  void execute(F f) {
    post(std::move(f));
  }

 private:
  struct scheduler : pplx::scheduler_interface {
    explicit scheduler(std::size_t workers) : pool(crossplat::threadpool::construct(workers)) {}
    void schedule(pplx::TaskProc_t run, void* argument) override {
      boost::asio::post(pool->service(), [run, argument] { run(argument); });
    }
    std::unique_ptr<crossplat::threadpool> pool;
  };
  scheduler scheduler_;
};

bench::sample fan_out(std::size_t branches, std::size_t groups) {
  adapter pool(2);
  return bench::measure_fan_out(branches, groups, [&](std::size_t count) {
    bench::nanoseconds took{};
    bench::run_inside(pool, [&] {
      const auto begin = bench::wall_clock::now();
      std::vector<pplx::task<void>> all(branches);
      for (std::size_t i = 0; i < count; ++i) {
        for (pplx::task<void>& each : all) each = pool.post(bench::empty_task{});
        pplx::when_all(all.begin(), all.end()).wait();
      }
      took = bench::wall_clock::now() - begin;
    });
    return took;
  });
}

const bench::enroll contestants("cpprestsdk",
                                std::to_string(CPPREST_VERSION_MAJOR) + "." + std::to_string(CPPREST_VERSION_MINOR) +
                                    "." + std::to_string(CPPREST_VERSION_REVISION),
                                [](bench::plan& plan) {
                                  bench::add_futures<adapter>(plan, "PPL", 21);
                                  bench::add_fan_out(plan, "PPL", 21, 2'000, fan_out);
                                });

}  // namespace
