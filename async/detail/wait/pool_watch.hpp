// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "async/detail/base/atomics.hpp"         // for atomic
#include "async/detail/base/backoff.hpp"         // for backoff
#include "async/detail/future/future_watch.hpp"  // for watch, watchers_of
#include "async/detail/future/watch_list.hpp"    // for future_watcher
#include "async/detail/pool/pool_core.hpp"       // for pool_core

namespace async::inline v0_1::detail {

/// While it lives, the thread that has made it is woken in its wait in a pool when a shared state becomes ready.
class pool_watch : future_watcher {
 public:
  pool_watch(pool_core& pool, participant& part, const void* of) noexcept
      : future_watcher(&tell, watched_futures::this_thread()), pool_(pool), part_(part), state_(of) {
    watch(*this, of);
  }
  ~pool_watch() {
    if (watchers_of(state_).remove(*this)) return;
    // [V3] acquire, pairs with [V4]; not modelled: a flag
    for (backoff pause; !is_told_.load(std::memory_order_acquire);) pause.wait();
  }
  pool_watch(const pool_watch&) = delete;
  pool_watch& operator=(const pool_watch&) = delete;

 private:
  static void tell(future_watcher& w) noexcept {
    auto& self = static_cast<pool_watch&>(w);
    self.pool_.wake(self.part_);
    self.is_told_.store(true, std::memory_order_release);  // [V4] release, pairs with [V3]; not modelled: see there
  }

  pool_core& pool_;
  participant& part_;
  const void* const state_;  // a shared state of the standard library
  atomic<bool> is_told_{false};
};

}  // namespace async::inline v0_1::detail
