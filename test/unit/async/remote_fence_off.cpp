// SPDX-License-Identifier: BSL-1.0
//
// A program that is compiled with ASYNCSTEPS_REMOTE_FENCE=0 never asks the system to order the accesses of other
// threads.
#define ASYNCSTEPS_REMOTE_FENCE 0
#include <doctest/doctest.h>

#include <cstdint>

#include "async/detail/pool/stealing_deque.hpp"
#include "async/threadpool.hpp"

TEST_CASE("without the system's barrier both fences are full ones, and pools work") {
  CHECK_FALSE(async::detail::platform::heavy_fence_registered());
  CHECK_FALSE(async::detail::platform::heavy_fence_is_remote);
  async::threadpool pool(2);
  for (int i = 0; i < 100; ++i) CHECK(pool.post([i] { return i; }).get() == i);
}

TEST_CASE("without it no element of a deque is private, however many went before") {
  if (async::detail::light_fence_is_free()) return;  // under ThreadSanitizer
  constexpr std::int64_t reach = 16;
  async::detail::stealing_deque<int, void, 256, 4, reach> deque;
  int item = 0;
  for (std::int64_t i = 0; i != 8 * reach; ++i) {
    CHECK(deque.top() == i);  // a pop that moves the top is seen by thieves
    deque.push(&item);
    CHECK(deque.pop());
  }
}
