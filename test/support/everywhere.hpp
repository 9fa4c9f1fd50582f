// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <doctest/doctest.h>

#include <cstddef>  // for size_t

#include "async/threadpool.hpp"  // for threadpool

namespace testing {

/// Calls body(pool) from this thread and inside a task, on pools of several sizes.
template <class Body>
void everywhere(Body body) {
  for (const std::size_t threads : {0U, 1U, 2U, 4U}) {
    CAPTURE(threads);
    async::threadpool pool(threads);
    body(pool);
    if (threads != 0) pool.post([&] { body(pool); }).get();
  }
}

}  // namespace testing
