// SPDX-License-Identifier: BSL-1.0
//
// Operator new calls a new_handler that itself uses the library, on the same thread: to make room it drops what the
// program can do without, or posts a task that does so.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "async/async.hpp"
#include "async/detail/base/block_cache.hpp"
#include "support/alloc_counter.hpp"

using async::detail::allocate_block;
using async::detail::free_block;

namespace {

constexpr std::size_t size = 100;
void* reserve = nullptr;  // what the program can do without
async::threadpool* pool = nullptr;
std::atomic<int> ran{0};
int posted = 0;

/// Sets a new_handler for a scope.
struct new_handler {
  explicit new_handler(std::new_handler handler) noexcept : before(std::set_new_handler(handler)) {}
  ~new_handler() { std::set_new_handler(before); }
  new_handler(const new_handler&) = delete;
  new_handler& operator=(const new_handler&) = delete;
  const std::new_handler before;
};

/// Allocates blocks, and frees all of them, while the k-th call of operator new finds no memory. Returns whether there
/// were so many calls.
bool free_many(std::size_t k) {
  std::vector<void*> blocks(400);
  bool has_failed = false;
  reserve = allocate_block(size);
  for (void*& block : blocks) block = allocate_block(size);
  {
    const new_handler here([] { free_block(std::exchange(reserve, nullptr), size); });
    const testing::fail_alloc failing(k);
    for (void* const block : blocks) free_block(block, size);
    has_failed = failing.has_failed();
  }
  if (reserve != nullptr) free_block(reserve, size);
  for (void*& block : blocks) block = allocate_block(size);
  std::vector<void*> sorted = blocks;
  std::sort(sorted.begin(), sorted.end());
  CHECK(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end());
  for (void* const block : blocks) free_block(block, size);
  return has_failed;
}

}  // namespace

TEST_CASE("a new_handler frees blocks while one is freed: none is given out twice") {
  std::size_t k = 0;
  for (bool again = true; again; k += again ? 1 : 0) {
    static_cast<void>(async::threadpool::trim());
    std::thread([&] { again = free_many(k); }).join();
  }
  CHECK(k >= 1);
}

TEST_CASE("a new_handler posts a task while a worker posts: all run") {
  std::size_t k = 0;
  for (bool again = true; again; k += again ? 1 : 0) {
    async::threadpool one(1);
    pool = &one;
    ran = posted = 0;
    one.post([&] {
         const new_handler here([] {
           ++posted;
           pool->execute([] { ++ran; });
         });
         const testing::fail_alloc failing(k);
         for (int i = 0; i < 3000; ++i) {
           ++posted;
           pool->execute([] { ++ran; });
         }
         again = failing.has_failed();
       })
        .get();
    one.wait_idle();
    CHECK(ran == posted);
  }
  CHECK(k >= 3);
}
