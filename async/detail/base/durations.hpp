// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <concepts>     // for integral, signed_integral
#include <cstdint>      // for int64_t
#include <limits>       // for numeric_limits
#include <ratio>        // for nano, ratio_divide
#include <type_traits>  // for bool_constant, make_unsigned_t

#include "async/detail/base/chrono.hpp"   // for duration, nanoseconds, ceil, time_point
#include "async/detail/base/min_max.hpp"  // for min_of

namespace async::inline v0_1::detail {

/// From 31 years on a time limit counts as none.
inline constexpr std::chrono::seconds practically_never{1'000'000'000};

template <class T>
inline constexpr bool is_duration = false;
template <class Rep, class Period>
inline constexpr bool is_duration<std::chrono::duration<Rep, Period>> = true;

/// `count` times the ratio, rounded up, for to_nanoseconds().
template <class Ratio, std::integral Rep>
constexpr std::chrono::nanoseconds of_fractions(Rep count) noexcept {
  using std::chrono::nanoseconds;
  constexpr std::uint64_t most{(std::numeric_limits<std::int64_t>::max)()};
  constexpr std::uint64_t num = Ratio::num;
  constexpr std::uint64_t den = Ratio::den;
  const bool is_negative = std::signed_integral<Rep> && static_cast<std::int64_t>(count) < 0;
  const std::uint64_t size = is_negative ? 0 - static_cast<std::uint64_t>(count) : static_cast<std::uint64_t>(count);
  // size * num / den, where size * num may overflow
  std::uint64_t part = size % den;
  if constexpr (num <= most / den) {
    part = (part * num + (is_negative ? 0 : den - 1)) / den;
  } else {  // an unusual unit
    const auto fraction = static_cast<long double>(part) / static_cast<long double>(den);
    part = static_cast<std::uint64_t>(fraction * static_cast<long double>(num)) + (is_negative || part == 0 ? 0 : 1);
  }
  const std::uint64_t whole = size / den;
  if (whole > most / num || part > most - whole * num) return is_negative ? (nanoseconds::min)() : (nanoseconds::max)();
  const auto result = static_cast<std::int64_t>(whole * num + part);
  return nanoseconds(is_negative ? -result : result);
}

/// Converts any duration to nanoseconds, rounded up. Values out of range become the longest or the shortest duration,
/// not-a-number becomes 0. No exceptions; any thread.
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
  } else if constexpr (std::integral<Rep> && sizeof(Rep) <= 8) {
    return of_fractions<std::ratio_divide<Period, std::nano>>(time.count());
  } else {
    const double seconds = std::chrono::duration<double>(time).count();
    if (seconds >= 9.2e9) return (nanoseconds::max)();
    if (seconds <= -9.2e9) return (nanoseconds::min)();
    return seconds == seconds ? std::chrono::ceil<nanoseconds>(time) : nanoseconds::zero();
  }
}

/// `t` plus `distance`, which is not negative; at most the latest time point.
template <class TimePoint>
constexpr TimePoint later(TimePoint t, std::chrono::nanoseconds distance) noexcept {
  using duration = typename TimePoint::duration;
  using wrapping = std::make_unsigned_t<typename duration::rep>;
  const auto from = static_cast<wrapping>(t.time_since_epoch().count());
  const auto by = static_cast<wrapping>(std::chrono::ceil<duration>(distance).count());
  const TimePoint moved(duration(static_cast<typename duration::rep>(from + by)));
  return moved < t ? (TimePoint::max)() : moved;
}

/// The time from `now` to `t`, at most the longest in nanoseconds; 0 when `t` has passed.
template <class TimePoint>
constexpr std::chrono::nanoseconds time_between(TimePoint now, TimePoint t) noexcept {
  using std::chrono::nanoseconds;
  if (t <= now) return nanoseconds::zero();
  return now < TimePoint{} && t >= later(now, (nanoseconds::max)()) ? (nanoseconds::max)() : nanoseconds(t - now);
}

/// Whether a clock says that it is steady.
template <class Clock>
inline constexpr bool is_steady = [] {
  if constexpr (requires { std::bool_constant<static_cast<bool>(Clock::is_steady)>(); }) {
    return static_cast<bool>(Clock::is_steady);
  } else {
    return false;
  }
}();

/// The time until `moment` of any clock, at most a second if the clock is not steady, since it may be set meanwhile: a
/// wait looks at it again then. At most an hour if it is. 0: the moment has come.
template <class Clock, class Duration>
std::chrono::nanoseconds time_left(std::chrono::time_point<Clock, Duration> moment) {
  using std::chrono::nanoseconds;
  constexpr nanoseconds most = is_steady<Clock> ? nanoseconds(std::chrono::hours(1)) : std::chrono::seconds(1);
  const nanoseconds at = to_nanoseconds(moment.time_since_epoch());
  const nanoseconds now = to_nanoseconds(Clock::now().time_since_epoch());
  if (at <= now) return nanoseconds::zero();
  const nanoseconds latest = now < (nanoseconds::max)() - most ? now + most : (nanoseconds::max)();
  return min_of(at, latest) - now;
}

/// Repeats a timed call, `call(limit)`, until it returns true or a moment of any clock has come: false. If is_over()
/// was true before a call that has returned false, no other could return true.
template <class Clock, class Duration, class Call, class IsOver>
bool call_until(std::chrono::time_point<Clock, Duration> moment, Call call, IsOver is_over) {
  for (;;) {
    const std::chrono::nanoseconds left = time_left(moment);
    const bool was_over = is_over();
    if (call(left)) return true;
    if (was_over || left.count() == 0) return false;
  }
}
template <class Clock, class Duration, class Call>
bool call_until(std::chrono::time_point<Clock, Duration> moment, Call call) {
  return call_until(moment, call, [] { return false; });
}

}  // namespace async::inline v0_1::detail
