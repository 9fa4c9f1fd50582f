// SPDX-License-Identifier: BSL-1.0
//
// PPL of the C++ REST SDK (pplx): tasks on its shared pool of 40 threads, on a pool with the requested number of
// threads, and on this project's pool through async/interop/pplx.hpp.
#include <cpprest/version.h>  // for CPPREST_VERSION_MAJOR
#include <pplx/pplxtasks.h>   // for create_task
#include <pplx/threadpool.h>  // for threadpool

#include <async/interop/pplx.hpp>  // for pplx_scheduler
#include <memory>                  // for make_shared

#include "../support/pool_workloads.hpp"  // for add_pool

namespace {

struct shared_pool {
  static constexpr double nanoseconds_per_task = 7'300;
  static constexpr bool has_threads = false;
  explicit shared_pool(std::size_t) {}
  template <class F>
  auto post(F f) {
    return pplx::create_task(std::move(f));
  }
  template <class F>
  void execute(F f) {
    pplx::create_task(std::move(f));
  }
  std::size_t workers() const { return 40; }
};

class own_pool {
 public:
  static constexpr double nanoseconds_per_task = 900;
  static constexpr bool has_threads = true;
  explicit own_pool(std::size_t workers) : scheduler_(workers) {}
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

class our_pool {
 public:
  static constexpr double nanoseconds_per_task = 700;
  static constexpr bool has_threads = true;
  explicit our_pool(std::size_t workers)
      : pool_(workers), options_(std::make_shared<async::interop::pplx_scheduler>(pool_)) {}
  template <class F>
  auto post(F f) {
    return pplx::create_task(std::move(f), options_);
  }
  template <class F>
  void execute(F f) {
    post(std::move(f));
  }

 private:
  async::threadpool pool_;
  const pplx::task_options options_;
};

const bench::enroll contestants("cpprestsdk",
                                std::to_string(CPPREST_VERSION_MAJOR) + "." + std::to_string(CPPREST_VERSION_MINOR) +
                                    "." + std::to_string(CPPREST_VERSION_REVISION),
                                [](bench::plan& plan) {
                                  bench::add_pool<shared_pool>(plan, "PPL, its 40 threads", 20);
                                  bench::add_pool<own_pool>(plan, "PPL", 21);
                                  bench::add_pool<our_pool>(plan, "PPL on async::threadpool", 22);
                                });

}  // namespace
