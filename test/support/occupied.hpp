// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <atomic>   // for atomic
#include <cstddef>  // for size_t
#include <future>   // for promise, shared_future
#include <memory>   // for shared_ptr

#include "async/threadpool.hpp"  // for threadpool

namespace testing {

/// Occupies every thread of a pool until it is destroyed.
class occupied {
 public:
  occupied(async::threadpool& pool, std::size_t threads) {
    struct roll_call {
      std::atomic<std::size_t> missing;
      std::promise<void> complete{};
    };
    const std::shared_ptr<roll_call> call(new roll_call{{threads}});  // the last to arrive may be in it for longer
    for (std::size_t i = 0; i < threads; ++i) {
      pool.execute([call, until = until_] {
        if (call->missing.fetch_sub(1) == 1) call->complete.set_value();
        until.wait();
      });
    }
    call->complete.get_future().wait();
  }
  ~occupied() { end_.set_value(); }
  occupied(const occupied&) = delete;
  occupied& operator=(const occupied&) = delete;

 private:
  std::promise<void> end_;
  std::shared_future<void> until_ = end_.get_future().share();
};

}  // namespace testing
