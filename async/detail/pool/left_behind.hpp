// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "async/detail/base/forks.hpp"  // for forks
#include "async/detail/pool/seat.hpp"   // for all_pools

namespace async::inline v0_1::detail {

/// Whether a call of this pool is left behind: the process is a child of fork(), and the parent makes the call. Null:
/// no pool. For threads that are in none of the pool's tasks: it may have gone.
inline bool is_left_behind(const pool_core* pool) noexcept {
  return pool != nullptr && forks.value.is_child() && all_pools.value.has_left_behind(pool);
}

}  // namespace async::inline v0_1::detail
