// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <atomic>  // for atomic
#include <new>     // for nothrow

#include "async/detail/base/config.hpp"    // for ASYNCSTEPS_SHARED, ASYNCSTEPS_FUNCTION
#include "async/detail/base/immortal.hpp"  // for immortal

namespace async::inline v0_1::detail {

class pool_core;

/// The pools of modules that share nothing with this one, to which calls have been posted here. Only their own module
/// knows which threads run their tasks. A thread that waits for a result must not ask the pool, which may have gone.
///
/// Threads     any.
/// Progress    lock-free.
/// Memory      an entry for each address, which stays: another pool at this address takes it over. Without memory a
///             pool is not noted, and no thread counts as inside it.
class foreign_pools {
 public:
  /// The pool whose task the calling thread runs, as a module knows it.
  using current_function = const pool_core* (*)() noexcept;

  constexpr foreign_pools() noexcept = default;
  foreign_pools(const foreign_pools&) = delete;
  foreign_pools& operator=(const foreign_pools&) = delete;

  /// While the pool exists. `current` is the function of its module.
  void note(const pool_core* pool, current_function current) noexcept;
  /// Whether the calling thread runs a task of a pool that was noted.
  bool is_inside(const pool_core* pool) const noexcept;

 private:
  struct entry {
    const pool_core* pool;
    // relaxed, all: a future brings it, or what a later pool at this address has written, to threads that wait
    std::atomic<current_function> current;
    entry* older;
  };

  entry* find(const pool_core* pool, entry* from) const noexcept {
    while (from != nullptr && from->pool != pool) from = from->older;
    return from;
  }

  std::atomic<entry*> newest_{nullptr};
};
ASYNCSTEPS_SHARED inline constinit immortal<foreign_pools> pools_of_others;

#if ASYNCSTEPS_DEFINED
[[gnu::noinline, gnu::cold]] ASYNCSTEPS_FUNCTION void foreign_pools::note(const pool_core* pool,
                                                                          current_function current) noexcept {
  entry* newest = newest_.load(std::memory_order_acquire);  // [W29] acquire, pairs with [W30]; not modelled: a list
  entry* made = nullptr;
  for (;;) {
    if (entry* const known = find(pool, newest)) {
      known->current.store(current, std::memory_order_relaxed);
      delete made;
      return;
    }
    if (made == nullptr) made = new (std::nothrow) entry{pool, current, nullptr};
    if (made == nullptr) return;
    made->older = newest;
    // [W30] release, pairs with [W29]: the entry; not modelled: see there. Failure: acquire, as there
    if (newest_.compare_exchange_strong(newest, made, std::memory_order_release, std::memory_order_acquire)) return;
  }
}

[[gnu::noinline, gnu::cold]] ASYNCSTEPS_FUNCTION bool foreign_pools::is_inside(const pool_core* pool) const noexcept {
  const entry* const known = find(pool, newest_.load(std::memory_order_acquire));  // [W29]
  return known != nullptr && known->current.load(std::memory_order_relaxed)() == pool;
}
#endif

}  // namespace async::inline v0_1::detail
