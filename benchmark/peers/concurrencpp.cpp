// SPDX-License-Identifier: BSL-1.0
//
// concurrencpp: submit() returns the library's own result type, not a std::future. There is no Debian package; measured
// when find_package() finds an installation.
#include <concurrencpp/concurrencpp.h>  // for thread_pool_executor

#include <chrono>  // for minutes
#include <memory>  // for make_shared

#include "../support/pool_workloads.hpp"  // for add_pool

namespace {

class adapter {
 public:
  static constexpr double nanoseconds_per_task = 130;
  static constexpr bool has_threads = true;
  explicit adapter(std::size_t workers)
      : pool_(std::make_shared<concurrencpp::thread_pool_executor>("benchmark", workers, std::chrono::minutes(1))) {}
  ~adapter() { pool_->shutdown(); }
  template <class F>
  auto post(F f) {
    return pool_->submit(std::move(f));
  }
  template <class F>
  void execute(F f) {
    pool_->post(std::move(f));
  }

 private:
  std::shared_ptr<concurrencpp::thread_pool_executor> pool_;
};

const bench::enroll contestants("concurrencpp", CONCURRENCPP_VERSION,
                                [](bench::plan& plan) { bench::add_pool<adapter>(plan, "concurrencpp", 41); });

}  // namespace
