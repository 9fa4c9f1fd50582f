// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <atomic>   // for atomic
#include <cstddef>  // for size_t
#include <future>   // for promise, shared_future

#include "async/threadpool.hpp"  // for threadpool

namespace testing {

/// Occupies every thread of a pool until it is destroyed.
class occupied {
 public:
  occupied(async::threadpool& pool, std::size_t threads) {
    std::atomic<std::size_t> missing{threads};
    std::promise<void> all;
    for (std::size_t i = 0; i < threads; ++i) {
      pool.execute([&, until = until_] {
        if (missing.fetch_sub(1) == 1) all.set_value();
        until.wait();
      });
    }
    all.get_future().wait();
  }
  ~occupied() { end_.set_value(); }
  occupied(const occupied&) = delete;
  occupied& operator=(const occupied&) = delete;

 private:
  std::promise<void> end_;
  std::shared_future<void> until_ = end_.get_future().share();
};

}  // namespace testing
