// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uintptr_t

#include "async/detail/base/forks.hpp"      // for forks
#include "async/detail/pool/pool_core.hpp"  // for pool_core

namespace async::inline v0_1::detail {

/// The pool of a call, for threads that wait for the call and are in none of the pool's tasks. They must not look into
/// the pool, which may end as soon as the result is ready. So the pointer carries what they ask.
class pool_ref {
 public:
  pool_ref() noexcept = default;
  /// Null: no pool.
  explicit pool_ref(pool_core* pool) noexcept : word_(word_of(pool)) {}

  explicit operator bool() const noexcept { return word_ != 0; }
  pool_core* get() const noexcept { return reinterpret_cast<pool_core*>(word_ & ~marks); }
  pool_core& operator*() const noexcept { return *get(); }
  pool_core* operator->() const noexcept { return get(); }

  /// In a child of fork(), which has none of the pool's threads. (Of 16 generations of processes.)
  bool is_left_behind() const noexcept { return word_ != 0 && ((word_ ^ generation()) & generations) != 0; }
  /// Another module has made the pool than this reference.
  bool is_of_other_module() const noexcept { return (word_ & other_module) != 0; }

 private:
  static constexpr std::uintptr_t other_module = 1;
  static constexpr std::uintptr_t generations = 0x1e;
  static constexpr std::uintptr_t marks = generations | other_module;

  static std::uintptr_t generation() noexcept { return (std::uintptr_t{forks.value.generation()} << 1) & generations; }
  static std::uintptr_t word_of(const pool_core* pool) noexcept {
    static_assert(alignof(pool_core) > marks);
    if (pool == nullptr) return 0;
    return reinterpret_cast<std::uintptr_t>(pool) | generation() |
           (pool->registered().current == &current_pool ? 0 : other_module);
  }

  std::uintptr_t word_ = 0;
};

}  // namespace async::inline v0_1::detail
