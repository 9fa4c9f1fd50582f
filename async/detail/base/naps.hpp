// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for size_t
#include <cstdint>  // for int64_t
#include <thread>   // for sleep_for

#include "async/detail/base/atomics.hpp"  // for wait_clock, under_model
#include "async/detail/base/chrono.hpp"   // for microseconds, milliseconds
#include "async/detail/base/config.hpp"   // for ASYNCSTEPS_FUNCTION, ASYNCSTEPS_SHARED
#include "async/detail/base/min_max.hpp"  // for min_of

namespace async::inline v0_1::detail {

/// What a task tells its pool, whose other tasks and loops have to go on, since one of them may be what the task waits
/// for.
enum class look_reason : unsigned char {
  sleeps,  // it naps. Yes: it has turned a loop meanwhile
  polls,   // it has not found what it waits for. No
  blocks,  // it will not nap. Yes: another worker has its place, and goes_on has to follow
  goes_on  // it blocks no more. No
};
struct look_answer {
  bool is_yes = false;
  std::size_t waiting = 0;  // for longest_nap()
};
/// A look after the pool by one of its threads. Null on all other threads.
using pool_look = look_answer (*)(look_reason why) noexcept;
ASYNCSTEPS_SHARED inline constinit thread_local pool_look look_after_pool = nullptr;

/// The longest nap of a thread of a pool. Where many stand-ins wait each one naps longer, so that together they wake no
/// more often than 16 do. For a worker `waiting` is 0: it looks every 8 ms.
constexpr std::chrono::microseconds longest_nap(std::size_t waiting) noexcept {
  return std::chrono::microseconds(8000) * static_cast<std::int64_t>(1 + waiting / 16);
}

/// After a timed wait that has ended in vain and without a nap: it may be one of many.
inline void tell_of_poll() noexcept {
  if constexpr (!under_model) {
    if (look_after_pool != nullptr) static_cast<void>(look_after_pool(look_reason::polls));
  }
}

/// Calls sleep(deadline), which returns true when it was woken, and false at the deadline (null: no limit). On a thread
/// of a pool it is called for naps from 250 us to longest_nap(), with a look at the pool in between. A sleep that is
/// too short for a nap may be one of many, so there is a look behind it. Returns what sleep() does.
template <class Sleep>
bool sleep_in_naps(const wait_clock::time_point* deadline, Sleep sleep) {
  if constexpr (!under_model) {
    constexpr std::chrono::microseconds first(250);
    if (look_after_pool != nullptr) {
      bool has_turned = false;
      bool has_looked = false;
      for (std::chrono::microseconds nap = first;;) {
        const wait_clock::time_point now = wait_clock::now();
        if (deadline != nullptr && *deadline <= (has_turned ? now : now + nap)) break;
        const wait_clock::time_point next = has_turned ? wait_clock::time_point() : now + nap;  // none: no system call
        if (sleep(&next)) return true;
        const look_answer found = look_after_pool(look_reason::sleeps);
        has_turned = found.is_yes;
        nap = has_turned ? first : min_of(2 * nap, longest_nap(found.waiting));
        has_looked = true;
      }
      const bool is_woken = sleep(deadline);
      if (!is_woken && !has_looked) tell_of_poll();
      return is_woken;
    }
  }
  return sleep(deadline);
}

/// Sleeps for a millisecond.
void sleep_a_millisecond() noexcept;

/// Waits by a look at ready() every millisecond, where there is no memory for a proper wait.
template <class Ready>
[[gnu::noinline, gnu::cold]] void wait_without_memory(Ready ready) {
  const auto look = [&ready](const wait_clock::time_point*) {
    if (ready()) return true;
    sleep_a_millisecond();
    return ready();
  };
  while (!sleep_in_naps(nullptr, look)) {
  }
}

#if ASYNCSTEPS_DEFINED
ASYNCSTEPS_FUNCTION void sleep_a_millisecond() noexcept { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }
#endif

}  // namespace async::inline v0_1::detail
