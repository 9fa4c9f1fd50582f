// SPDX-License-Identifier: BSL-1.0
//
// A program that is compiled with ASYNCSTEPS_REMOTE_FENCE=0 never asks the system to order the accesses of other
// threads.
#define ASYNCSTEPS_REMOTE_FENCE 0
#include <doctest/doctest.h>

#include "async/threadpool.hpp"

TEST_CASE("without the system's barrier both fences are full ones, and pools work") {
  CHECK_FALSE(async::detail::platform::heavy_fence_registered());
  CHECK_FALSE(async::detail::platform::heavy_fence_is_remote);
  async::threadpool pool(2);
  for (int i = 0; i < 100; ++i) CHECK(pool.post([i] { return i; }).get() == i);
}
