// SPDX-License-Identifier: BSL-1.0
//
// boost::asio::thread_pool.
#include <boost/asio/post.hpp>         // for post
#include <boost/asio/thread_pool.hpp>  // for thread_pool
#include <boost/version.hpp>           // for BOOST_LIB_VERSION
#include <future>                      // for packaged_task

#include "../support/pool_workloads.hpp"  // for add_pool

namespace {

struct adapter {
  static constexpr double nanoseconds_per_task = 350;
  static constexpr bool has_threads = true;
  explicit adapter(std::size_t workers) : pool(workers) {}
  template <class F>
  auto post(F f) {
    std::packaged_task<decltype(f())()> task(std::move(f));
    auto future = task.get_future();
    boost::asio::post(pool, std::move(task));
    return future;
  }
  template <class F>
  void execute(F f) {
    boost::asio::post(pool, std::move(f));
  }
  boost::asio::thread_pool pool;
};

const bench::enroll contestants("Boost", BOOST_LIB_VERSION, [](bench::plan& plan) {
  bench::add_pool<adapter>(plan, "boost::asio::thread_pool", 11);
});

}  // namespace
