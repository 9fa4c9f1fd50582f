// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for size_t
#include <cstdint>  // for uint64_t, uintptr_t
#include <cstring>  // for memcpy
#include <memory>   // for addressof
#include <utility>  // for exchange

#include "async/detail/base/block_cache.hpp"   // for blocks::cache
#include "async/detail/base/chrono.hpp"        // for nanoseconds, microseconds
#include "async/detail/base/config.hpp"        // for ASYNCSTEPS_SHARED
#include "async/detail/base/forks.hpp"         // for fork_member, forks
#include "async/detail/base/min_max.hpp"       // for min_of
#include "async/detail/future/watch_list.hpp"  // for watch_list

/// Notification that a std::future is ready, which std::future itself does not offer. Code that completes a promise of
/// this library notifies; code that waits for a future may watch it. All other futures have to be polled.
namespace async::inline v0_1::detail {

/// The shared state of a future and its promise; null: none.
///
/// Reads the first word of either, which is the state's address in all three standard libraries. It is only ever
/// compared. If it were something else, watchers would not be notified and would have to poll.
template <class Handle>
const void* shared_state_of(const Handle& handle) noexcept {
  static_assert(sizeof(Handle) >= sizeof(void*));
  const void* state;
  std::memcpy(&state, static_cast<const void*>(std::addressof(handle)), sizeof state);
  return state;
}

/// The watchers of all futures.
class watched_futures : fork_member {
 public:
  constexpr watched_futures() noexcept : fork_member(&forked) {}

  /// The list for a shared state. While n futures are watched, a notification visits about n / 4096 watchers.
  watch_list& of(const void* state) noexcept {
    const std::uint64_t spread = std::uint64_t{reinterpret_cast<std::uintptr_t>(state)} * 0x9e3779b97f4a7c15;
    return lists_[spread >> (64 - bits)];
  }
  void join_forks() noexcept { forks.value.join(*this); }
  /// Stands for the calling thread.
  static const void* this_thread() noexcept { return &blocks::cache; }

 private:
  static constexpr unsigned bits = 12;
  static constexpr std::size_t count = std::size_t{1} << bits;

  static bool forked(fork_member& member, fork_stage at) noexcept {
    auto& self = static_cast<watched_futures&>(member);
    for (std::size_t i = 0; i != count; ++i) {
      if (at == fork_stage::before) {
        self.is_held_[i] = self.lists_[i].hold();
      } else if (at == fork_stage::in_child) {
        self.lists_[i].begin_child(self.is_held_[i], this_thread());
      } else if (self.is_held_[i]) {
        self.lists_[i].release();
      }
    }
    return true;
  }

  watch_list lists_[count];
  bool is_held_[count] = {};  // by the thread that forks
};
ASYNCSTEPS_SHARED inline constinit watched_futures all_watched_futures;

inline watch_list& watchers_of(const void* state) noexcept { return all_watched_futures.of(state); }

/// Adds a watcher; see watch_list::add().
inline void watch(future_watcher& w, const void* state) noexcept {
  all_watched_futures.join_forks();
  watchers_of(state).add(w, state);
}

/// Notifies the watchers of a shared state. By the thread that has made it ready.
inline void tell_watchers_of(const void* state) noexcept { watchers_of(state).tell(state); }

/// The interval until the next look at a polled future. It grows by a half each time, from 50 us to 10 ms. Polling
/// takes less than 1 % of a core, and notices at most 10 ms late.
class look_interval {
 public:
  std::chrono::nanoseconds next() noexcept {
    return std::exchange(now_, min_of(now_ + now_ / 2, std::chrono::nanoseconds(std::chrono::milliseconds(10))));
  }

 private:
  std::chrono::nanoseconds now_ = std::chrono::microseconds(50);
};

}  // namespace async::inline v0_1::detail
