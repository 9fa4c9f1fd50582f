// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <bits/atomic_wait.h>

#include <chrono>   // for ceil, milliseconds, time_point
#include <cstdint>  // for uint64_t

// In front of libstdc++'s header of this name: what the one beside this does, for waits with a limit.
#if defined(_GLIBCXX_HAVE_PLATFORM_WAIT)
#define _GLIBCXX_HAVE_PLATFORM_TIMED_WAIT 1

namespace std::__detail {

/// False: the time is up.
template <class Clock, class Duration>
bool __platform_wait_until(const std::uint64_t* word, std::uint64_t expected,
                           const std::chrono::time_point<Clock, Duration>& until) {
  for (auto now = Clock::now(); now < until; now = Clock::now()) {
    constexpr std::chrono::milliseconds longest(60'000);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now);
    const auto limit = static_cast<unsigned long>((left < longest ? left : longest).count());
    if (::WaitOnAddress(const_cast<std::uint64_t*>(word), &expected, sizeof(expected), limit) != 0) return true;
  }
  return false;
}

}  // namespace std::__detail
#endif

#include_next <bits/atomic_timed_wait.h>
