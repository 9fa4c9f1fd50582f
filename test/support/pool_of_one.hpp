// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <memory>       // for make_unique, unique_ptr
#include <type_traits>  // for is_same_v

#include "async/blocking_pool.hpp"  // for blocking_pool
#include "async/threadpool.hpp"     // for threadpool

namespace testing {

/// A pool of either kind that makes one call at a time.
template <class Pool>
std::unique_ptr<Pool> pool_of_one() {
  if constexpr (std::is_same_v<Pool, async::threadpool>) {
    return std::make_unique<async::threadpool>(1);
  } else {
    return std::make_unique<async::blocking_pool>(async::blocking_pool_options{.max_threads = 1});
  }
}

}  // namespace testing
