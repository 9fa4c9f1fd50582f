// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "async/detail/base/forks.hpp"      // for forks
#include "async/detail/pool/pool_core.hpp"  // for pool_core
#include "async/detail/pool/seat.hpp"       // for pool_registry

namespace async::inline v0_1::detail {

template <class Done>
[[gnu::noinline]] bool is_call_of_parent(const pool_core& pool, Done is_done) noexcept {
  return !pool_registry::instance().knows(pool) && !is_done() && pool.is_left_behind();
}

/// Whether a call of this pool is left behind: the process is a child of fork(), and the parent makes the call. Null:
/// no pool. For threads that wait and are in none of the pool's tasks. They look into the pool in a child only, and
/// only if it is no pool of the child: such a pool may end as soon as the call is done.
template <class Done>
bool is_left_behind(const pool_core* pool, Done is_done) noexcept {
  return pool != nullptr && forks.value.is_child() && is_call_of_parent(*pool, is_done);
}

}  // namespace async::inline v0_1::detail
