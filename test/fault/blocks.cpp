// SPDX-License-Identifier: BSL-1.0
//
// Recycled blocks without memory: for a span of slabs, for a magazine, and while free memory goes back to the system.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <new>
#include <thread>
#include <vector>

#include "async/detail/base/block_cache.hpp"
#include "async/detail/base/block_trim.hpp"
#include "async/detail/base/slab.hpp"
#include "support/alloc_counter.hpp"

using async::detail::allocate_block;
using async::detail::free_block;
using async::detail::trim_blocks;
using testing::alloc_counter;
using testing::no_memory;

namespace {

[[maybe_unused]] const bool as_in_programs = testing::alloc::use_slabs(true);

/// Runs f() in a thread that has no free blocks, and then in no thread. Returns how many calls of operator new are
/// neither taken back after trim_blocks() nor those of one span, which may have other blocks.
template <class F>
std::ptrdiff_t left_by(F f) {
  static_cast<void>(trim_blocks());
  const alloc_counter counter;
  std::thread(f).join();
  static_cast<void>(trim_blocks());
  return (std::max)(counter.live() - 1, std::ptrdiff_t{0});
}

std::vector<void*> allocated(std::size_t count, std::size_t size) {
  std::vector<void*> made(count);
  for (void*& block : made) block = allocate_block(size);
  return made;
}

bool are_distinct(std::vector<void*> all) {
  std::sort(all.begin(), all.end());
  return std::adjacent_find(all.begin(), all.end()) == all.end();
}

}  // namespace

TEST_CASE("a block is refused without memory for it, and what was given is whole") {
  for (std::size_t size = 64; size <= 320; size += 64) {
    CHECK(left_by([size] {
            constexpr std::size_t most = 64 * async::detail::blocks::span::page / 64;  // free ones of a span before
            std::vector<void*> made;
            made.reserve(2 * most);
            bool is_refused = false;
            {
              const no_memory none;
              try {
                while (made.size() <= most) made.push_back(allocate_block(size));
              } catch (const std::bad_alloc&) {
                is_refused = true;
              }
            }
            CHECK(is_refused);
            for (int i = 0; i < 1000; ++i) made.push_back(allocate_block(size));
            CHECK(are_distinct(made));
            for (void* const block : made) free_block(block, size);
          }) == 0);
  }
}

TEST_CASE("blocks that are freed without memory for a magazine are used again, or go back to the system") {
  for (std::size_t size = 64; size <= 320; size += 64) {
    CHECK(left_by([size] {
            std::vector<void*> made = allocated(1000, size);
            {
              const no_memory none;
              for (void* const block : made) free_block(block, size);
            }
            const alloc_counter counter;
            made = allocated(1000, size);
            if (size <= async::detail::aligned_limit && !async::detail::blocks::slabs_are_off) {
              CHECK(counter.calls_of_this_thread() <= 1);  // of the vector
            }
            CHECK(are_distinct(made));
            for (void* const block : made) free_block(block, size);
          }) == 0);
  }
}

TEST_CASE("free memory goes back to the system without memory for that") {
  const std::vector<void*> made = allocated(5000, 128);
  std::thread([&made] {
    for (std::size_t i = 1; i < made.size(); ++i) free_block(made[i], 128);
  }).join();
  std::size_t freed = 0;
  {
    const no_memory none;
    freed = trim_blocks();
  }
  CHECK(freed >= 4900 * 128);
  free_block(made.front(), 128);
}
