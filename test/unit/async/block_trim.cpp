// SPDX-License-Identifier: BSL-1.0
//
// What becomes of the memory of free blocks. Those of one, two, three and four cache lines share pages, "slabs".
#include "async/detail/base/block_trim.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "async/detail/base/block_cache.hpp"
#include "async/detail/base/slab.hpp"
#include "support/scale.hpp"

using namespace async::detail;
using blocks::slab;
using blocks::span;

namespace {

std::vector<void*> allocated(std::size_t count, std::size_t size) {
  std::vector<void*> made(count);
  for (void*& block : made) block = allocate_block(size);
  return made;
}
void free_all(const std::vector<void*>& made, std::size_t size) {
  for (void* const block : made) free_block(block, size);
}
/// In another thread, which keeps none.
[[maybe_unused]] void free_elsewhere(const std::vector<void*>& made, std::size_t size) {
  std::thread([&] { free_all(made, size); }).join();
}
[[maybe_unused]] std::set<std::uintptr_t> pages_of(const std::vector<void*>& made) {
  std::set<std::uintptr_t> pages;
  for (void* const block : made) pages.insert(reinterpret_cast<std::uintptr_t>(block) / span::page);
  return pages;
}

}  // namespace

TEST_CASE("memory that one thread allocates and another frees comes back: no growth over many rounds") {
  constexpr std::size_t count = 5000;
  const auto round = [] {
    std::vector<void*> made(count);
    std::thread([&made] {
      for (void*& block : made) block = allocate_block(64);
    }).join();
    std::thread([&made] {
      for (void* const block : made) free_block(block, 64);
    }).join();
  };
  trim_blocks();
  round();
  const std::size_t after_one = trim_blocks();
  for (int i = 0; i < 10; ++i) round();
  const std::size_t after_ten = trim_blocks();
  CHECK(after_one >= count * 64);
  CHECK(after_ten >= count * 64);
  CHECK(after_ten <= after_one + 4 * magazine_size * 64);
}

TEST_CASE("trim_blocks frees the depot's blocks and none in use") {
  void* const used = allocate_block(200);
  std::memset(used, 1, 200);
  std::thread([] {
    std::vector<void*> made;
    for (int i = 0; i < 1000; ++i) made.push_back(allocate_block(200));
    for (void* const block : made) free_block(block, 200);
  }).join();
  CHECK(trim_blocks() >= 1000 * 256);
  CHECK(trim_blocks() == 0);
  CHECK(*static_cast<unsigned char*>(used) == 1);
  free_block(used, 200);
}

TEST_CASE("a second thread that trims at the same time does no harm") {
  std::atomic<bool> is_over{false};
  std::vector<std::thread> trimming;
  for (int i = 0; i < 2; ++i) {
    trimming.emplace_back([&is_over] {
      while (!is_over) static_cast<void>(trim_blocks());
    });
  }
  std::vector<std::thread> using_blocks;
  for (std::uint64_t t = 1; t <= 3; ++t) {
    using_blocks.emplace_back([t] {
      constexpr std::size_t sizes[] = {64, 128, 256};
      for (std::size_t round = 0; round < testing::rounds(400); ++round) {
        const std::size_t size = sizes[round % 3];
        std::vector<void*> made = allocated(50 + round * 37 % 500, size);
        for (std::size_t i = 0; i < made.size(); ++i) {
          const std::uint64_t mark = t << 32 | i;
          std::memcpy(made[i], &mark, sizeof mark);
          std::memset(static_cast<char*>(made[i]) + sizeof mark, static_cast<int>(t), size - sizeof mark);
        }
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < made.size(); ++i) {
          std::uint64_t mark = 0;
          std::memcpy(&mark, made[i], sizeof mark);
          const auto* const last = static_cast<const unsigned char*>(made[i]) + size - 1;
          wrong += mark != (t << 32 | i) || *last != t ? 1 : 0;
        }
        REQUIRE(wrong == 0);
        free_all(made, size);
      }
    });
  }
  for (std::thread& each : using_blocks) each.join();
  is_over = true;
  for (std::thread& each : trimming) each.join();
  static_cast<void>(trim_blocks());
  CHECK(trim_blocks() == 0);
}

#if ASYNCSTEPS_ASAN == 0
TEST_CASE("small blocks take hardly more memory than their size") {
  for (std::size_t size = cache_line; size <= aligned_limit; size += cache_line) {
    const std::size_t count = 100 * slab::room_for(size);
    const std::vector<void*> made = allocated(count, size);
    CHECK(pages_of(made).size() <= 101 + magazine_size);  // some are reused
    CHECK(slab::room_for(size) * size >= span::page / 100 * 93);
    free_all(made, size);
  }
}

TEST_CASE("a slab stays while one of its blocks is used, and its free blocks are used before new slabs") {
  static_cast<void>(trim_blocks());
  constexpr std::size_t size = 128;
  constexpr std::size_t in_slab = slab::room_for(size);
  const std::vector<void*> made = allocated(1000 * in_slab, size);
  std::vector<void*> used, unused;
  std::set<std::uintptr_t> seen;
  for (void* const block : made) {  // one of each page is used
    (seen.insert(reinterpret_cast<std::uintptr_t>(block) / span::page).second ? used : unused).push_back(block);
  }
  for (void* const block : used) std::memset(block, 1, size);
  free_elsewhere(unused, size);
  CHECK(trim_blocks() <= 2 * span::page);
  const std::vector<void*> again = allocated(unused.size(), size);
  std::set<std::uintptr_t> pages = pages_of(again);
  pages.insert(seen.begin(), seen.end());
  CHECK(pages.size() <= seen.size() + 4);
  free_elsewhere(again, size);
  CHECK(std::all_of(used.begin(), used.end(), [](void* block) {
    const auto* const bytes = static_cast<const unsigned char*>(block);
    return std::count(bytes, bytes + size, 1) == size;
  }));
  free_elsewhere(used, size);
  CHECK(trim_blocks() >= (seen.size() - magazine_size) * span::page);
}

TEST_CASE("blocks that an ending thread frees go with their slab") {
  constexpr std::size_t count = 1000;
  static_cast<void>(trim_blocks());
  std::vector<void*> made;
  std::thread([&made] {
    struct frees {
      std::vector<void*>& blocks;
      ~frees() {  // when the thread caches nothing any more
        free_all(blocks, 64);
      }
    };
    thread_local frees late{made};
    static_cast<void>(late);
    made = allocated(count, 64);
    free_block(allocate_block(64), 64);  // now the cache has a keeper, which is destroyed first
  }).join();
  CHECK(trim_blocks() >= count / slab::room_for(64) * span::page);
}
#endif
