// SPDX-License-Identifier: BSL-1.0
#include "async/detail/base/block_cache.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <set>
#include <thread>
#include <vector>

using namespace async::detail;

TEST_CASE("blocks of every size are distinct, aligned and writable") {
  struct item {
    void* block;
    std::size_t size;
  };
  std::vector<item> items;
  std::set<void*> seen;
  for (std::size_t size = 0; size <= 2 * block_limit; size += 13) {
    for (int i = 0; i < 5; ++i) {
      void* const block = allocate_block(size);
      CHECK(reinterpret_cast<std::uintptr_t>(block) % alignof(std::max_align_t) == 0);
      if (size <= async::detail::aligned_limit) CHECK(reinterpret_cast<std::uintptr_t>(block) % cache_line == 0);
      std::memset(block, static_cast<int>(size % 251), size);
      CHECK(seen.insert(block).second);
      items.push_back({block, size});
    }
  }
  for (const item& i : items) {
    const auto* const bytes = static_cast<const unsigned char*>(i.block);
    for (std::size_t k = 0; k < i.size; ++k) REQUIRE(bytes[k] == static_cast<unsigned char>(i.size % 251));
    free_block(i.block, i.size);
  }
}

TEST_CASE("over-aligned requests are served outside the cache") {
  for (const std::size_t alignment : {std::size_t{64}, std::size_t{128}, std::size_t{4096}}) {
    for (const std::size_t size : {std::size_t{64}, block_limit}) {
      void* const block = allocate_block(size, alignment);
      CHECK(reinterpret_cast<std::uintptr_t>(block) % alignment == 0);
      free_block(block, size, alignment);
    }
  }
}

TEST_CASE("the same thread reuses a freed block") {
  void* const first = allocate_block(100);
  free_block(first, 100);
  void* const second = allocate_block(100);
  CHECK(first == second);
  free_block(second, 100);
}

namespace {
struct frees_late {
  void* block = nullptr;
  ~frees_late() {
    if (block != nullptr) free_block(block, 64);
    free_block(allocate_block(64), 64);
  }
};
thread_local frees_late late;
}  // namespace

#if !ASYNCSTEPS_EMULATED_THREAD_LOCALS  // which are freed before their destructors run
TEST_CASE("blocks may be allocated and freed by the destructors of other thread-local objects") {
  for (int i = 0; i < 50; ++i) {
    std::thread([] {
      static_cast<void>(late.block);  // constructed before the cache's own keeper, so destroyed after it
      late.block = allocate_block(64);
      void* const other = allocate_block(64);
      free_block(other, 64);
    }).join();
  }
}
#endif

TEST_CASE("block_allocator serves allocate_shared and refuses impossible sizes") {
  const auto p = std::allocate_shared<int>(block_allocator<int>{}, 42);
  CHECK(*p == 42);
  CHECK_THROWS_AS(block_allocator<int>{}.allocate(static_cast<std::size_t>(-1)), std::bad_array_new_length);
}

TEST_CASE("many threads exchange blocks without losing or sharing one") {
  constexpr int threads = 4;
  constexpr int rounds = 20000;
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([t] {
      std::vector<std::uint64_t*> mine;
      for (int i = 0; i < rounds; ++i) {
        auto* const p = static_cast<std::uint64_t*>(allocate_block(64));
        *p = static_cast<std::uint64_t>(t) << 32 | static_cast<std::uint64_t>(i);
        mine.push_back(p);
        if (mine.size() == 200) {
          for (std::uint64_t* const q : mine) {
            REQUIRE((*q >> 32) == static_cast<std::uint64_t>(t));
            free_block(q, 64);
          }
          mine.clear();
        }
      }
      for (std::uint64_t* const q : mine) free_block(q, 64);
    });
  }
  for (std::thread& t : all) t.join();
}
