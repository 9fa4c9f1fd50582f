// SPDX-License-Identifier: BSL-1.0
// floor: 0
#pragma once
#include <chrono>    // for duration, nanoseconds, ceil
#include <concepts>  // for integral
#include <cstdint>   // for int64_t
#include <ratio>     // for nano, ratio_divide
#include <utility>   // for cmp_less

namespace async::detail {

/// Any duration in nanoseconds, rounded up; what is out of range becomes the longest or the shortest one, and
/// not-a-number 0. No exceptions, any thread.
template <class Rep, class Period>
constexpr std::chrono::nanoseconds to_nanoseconds(std::chrono::duration<Rep, Period> time) {
  using std::chrono::nanoseconds;
  if constexpr (std::integral<Rep> && sizeof(Rep) <= 8 && std::ratio_divide<Period, std::nano>::den == 1) {
    constexpr std::int64_t factor = std::ratio_divide<Period, std::nano>::num;
    constexpr std::int64_t most = (nanoseconds::max)().count() / factor;
    if constexpr (std::signed_integral<Rep>) {
      if (time.count() < -most) return (nanoseconds::min)();
      if (time.count() > most) return (nanoseconds::max)();
    } else if (std::uint64_t{time.count()} > std::uint64_t{most}) {
      return (nanoseconds::max)();
    }
    return nanoseconds(static_cast<std::int64_t>(time.count()) * factor);
  } else {
    const double seconds = std::chrono::duration<double>(time).count();
    if (seconds >= 9.2e9) return (nanoseconds::max)();
    if (seconds <= -9.2e9) return (nanoseconds::min)();
    return seconds == seconds ? std::chrono::ceil<nanoseconds>(time) : nanoseconds::zero();
  }
}

}  // namespace async::detail
