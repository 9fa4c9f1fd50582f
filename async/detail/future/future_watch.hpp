// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <algorithm>  // for min
#include <chrono>     // for nanoseconds, microseconds
#include <cstddef>    // for size_t
#include <cstdint>    // for uint64_t, uintptr_t
#include <cstring>    // for memcpy
#include <future>     // for future_status
#include <memory>     // for addressof
#include <mutex>      // for lock_guard
#include <utility>    // for exchange

#include "async/detail/base/config.hpp"        // for ASYNC_CALL_STATE
#include "async/detail/future/watch_list.hpp"  // for watch_list

/// Being told that a std::future is ready, which std::future itself offers no way for: those who complete a promise of
/// this library say so, and those who wait for a future may listen. For all other futures there is nothing to hear:
/// whoever waits looks at them now and then.
namespace async::detail {

/// What a future and its promise have in common; null: no shared state.
///
/// It is the first word of each, which is the address of the shared state in all three standard libraries. It is only
/// ever compared. Were it something else, watchers would not be told, and would have to look.
template <class Handle>
const void* shared_state_of(const Handle& handle) noexcept {
  static_assert(sizeof(Handle) >= sizeof(void*));
  const void* state;
  std::memcpy(&state, static_cast<const void*>(std::addressof(handle)), sizeof state);
  return state;
}

/// The list for a shared state. While n futures are watched, telling of one takes about n / 4096 looks.
inline watch_list& watchers_of(const void* state) noexcept {
  static constexpr unsigned bits = 12;
  static constinit watch_list lists[std::size_t{1} << bits];
  const std::uint64_t spread = std::uint64_t{reinterpret_cast<std::uintptr_t>(state)} * 0x9e3779b97f4a7c15;
  return lists[spread >> (64 - bits)];
}

/// By who has made a promise's shared state ready.
inline void tell_watchers_of(const void* state) noexcept { watchers_of(state).tell(state); }

#if ASYNC_CALL_STATE == 2
/// A bit of libc++'s shared states that libc++ does not use: of those that are made here, see call_state_libcxx.hpp.
struct library_state_peek : std::__assoc_sub_state {
  static constexpr unsigned ours = 1U << 16;
  static void mark(std::__assoc_sub_state& state) noexcept { state.*(&library_state_peek::__state_) |= ours; }
  static bool is_marked(std::__assoc_sub_state& state) {
    const std::lock_guard lock(state.*(&library_state_peek::__mut_));
    return (state.*(&library_state_peek::__state_) & ours) != 0;
  }
};
#endif

/// True when get() does not wait for another thread: also when the future is deferred, and get() runs it.
template <class Future>
bool is_ready(const Future& future) {
  const std::future_status status = future.wait_for(std::chrono::seconds(0));
#if ASYNC_CALL_STATE == 2
  if (status == std::future_status::deferred) {
    auto* const state = static_cast<std::__assoc_sub_state*>(const_cast<void*>(shared_state_of(future)));
    return !library_state_peek::is_marked(*state);  // a call that is not made yet
  }
#endif
  return status != std::future_status::timeout;
}

/// How long to wait until the next look at a future: half as long again as the last time, between 50 us and 10 ms. That
/// is less than 1 % of a core, and at most 10 ms late.
class look_interval {
 public:
  std::chrono::nanoseconds next() noexcept {
    return std::exchange(now_, (std::min)(now_ + now_ / 2, std::chrono::nanoseconds(std::chrono::milliseconds(10))));
  }

 private:
  std::chrono::nanoseconds now_ = std::chrono::microseconds(50);
};

}  // namespace async::detail
