// SPDX-License-Identifier: BSL-1.0
//
// boost::async: a thread for each task.
#define BOOST_THREAD_VERSION 4
#include <boost/thread/future.hpp>  // for async, future
#include <boost/version.hpp>        // for BOOST_LIB_VERSION

#include "../support/pool_workloads.hpp"  // for add_pool

namespace {

struct adapter {
  static constexpr double nanoseconds_per_task = 18'000;
  static constexpr bool has_threads = false;
  explicit adapter(std::size_t) {}
  template <class F>
  auto post(F f) {
    return boost::async(boost::launch::async, std::move(f));
  }
};

const bench::enroll contestants("Boost", BOOST_LIB_VERSION,
                                [](bench::plan& plan) { bench::add_pool<adapter>(plan, "boost::async", 10); });

}  // namespace
