// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <bit>      // for bit_width
#include <cstddef>  // for size_t
#include <mutex>    // for lock_guard
#include <new>      // for operator new
#include <utility>  // for exchange

#include "async/detail/base/config.hpp"    // for ASYNCSTEPS_ASAN, ASYNCSTEPS_SHARED
#include "async/detail/base/forks.hpp"     // for guarded_member
#include "async/detail/base/immortal.hpp"  // for immortal

namespace async::inline v0_1::detail {

/// Recycled memory for large objects, such as tasks that capture arrays. malloc() returns blocks of that size to the
/// system when they are freed, and mapping their pages again costs more than filling them.
///
/// Keeps at most `most_kept` bytes in the process, in classes of four sizes for each power of two.
///
/// Threads     any; each call takes a mutex.
/// Lifetime    usable from static and thread-local destructors.
class large_blocks : guarded_member {
 public:
  static constexpr std::size_t smallest = std::size_t{1} << 15;
  static constexpr std::size_t largest = std::size_t{1} << 22;
  static constexpr std::size_t most_kept = std::size_t{1} << 28;

  static constexpr bool is_kept(std::size_t bytes, std::size_t alignment) noexcept {
    return bytes > smallest && bytes <= largest && alignment <= __STDCPP_DEFAULT_NEW_ALIGNMENT__ &&
           ASYNCSTEPS_ASAN == 0;
  }

  // Class 0 ends at 5/4 of the smallest, class 3 at twice the smallest, and so on.
  static constexpr std::size_t classes = 4 * (std::bit_width(largest) - std::bit_width(smallest));
  static constexpr std::size_t class_of(std::size_t bytes) noexcept {
    const auto power = static_cast<std::size_t>(std::bit_width((bytes - 1) / smallest)) - 1;
    const std::size_t quarter = (smallest << power) / 4;
    return 4 * power + (bytes - 1 - (smallest << power)) / quarter;
  }
  static constexpr std::size_t size_of(std::size_t which) noexcept {
    return (smallest << which / 4) / 4 * (5 + which % 4);
  }

  static large_blocks& instance() noexcept;

  /// Requires is_kept(). Throws std::bad_alloc.
  void* allocate(std::size_t bytes) {
    const std::size_t which = class_of(bytes);
    {
      const std::lock_guard lock(mutex);
      if (free_block* const block = first_[which]) {
        first_[which] = block->next;
        kept_ -= size_of(which);
        return block;
      }
    }
    static_assert(class_of(smallest + 1) == 0 && size_of(0) == smallest / 4 * 5);
    static_assert(class_of(largest) == classes - 1 && size_of(classes - 1) == largest);
    return ::operator new(size_of(which));
  }
  void free(void* memory, std::size_t bytes) noexcept {
    const std::size_t which = class_of(bytes);
    {
      const std::lock_guard lock(mutex);
      if (kept_ + size_of(which) <= most_kept) {
        kept_ += size_of(which);
        first_[which] = ::new (memory) free_block{first_[which]};
        return;
      }
    }
    ::operator delete(memory);
  }
  /// Frees all kept blocks; returns the number of bytes.
  std::size_t trim() noexcept {
    std::size_t freed = 0;
    for (std::size_t which = 0; which != classes; ++which) {
      free_block* list = nullptr;
      {
        const std::lock_guard lock(mutex);
        list = std::exchange(first_[which], nullptr);
        for (const free_block* block = list; block != nullptr; block = block->next) kept_ -= size_of(which);
      }
      while (list != nullptr) {
        ::operator delete(std::exchange(list, list->next));
        freed += size_of(which);
      }
    }
    return freed;
  }

 private:
  struct free_block {
    free_block* next;
  };

  // Guarded by the mutex.
  std::size_t kept_ = 0;
  free_block* first_[classes] = {};
};
ASYNCSTEPS_SHARED inline constinit immortal<large_blocks> all_large_blocks;
inline large_blocks& large_blocks::instance() noexcept {
  forks.value.join(all_large_blocks.value);
  return all_large_blocks.value;
}

}  // namespace async::inline v0_1::detail
