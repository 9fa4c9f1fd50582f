// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <future>  // for async, future

#include "async/threadpool.hpp"      // for threadpool
#include "support/held_workers.hpp"  // for is_ready_in_time

namespace testing {

/// Whether call() returns while the pool keeps its threads. If not, the pool gets more, so that the call returns.
template <class Call>
bool ends_with_this_pool(async::threadpool& pool, Call call) {
  std::future<void> end = std::async(std::launch::async, call);
  const bool has_ended = is_ready_in_time(end);
  if (!has_ended) pool.configurepool(4);
  end.get();
  return has_ended;
}

}  // namespace testing
