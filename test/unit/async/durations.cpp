// SPDX-License-Identifier: BSL-1.0
#include "async/detail/base/durations.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <ratio>

using async::detail::to_nanoseconds;
using namespace std::chrono;

namespace {

constexpr nanoseconds longest = (nanoseconds::max)();
constexpr nanoseconds shortest = (nanoseconds::min)();

}  // namespace

TEST_CASE("a duration converts to nanoseconds, rounded up") {
  CHECK(to_nanoseconds(nanoseconds(5)) == nanoseconds(5));
  CHECK(to_nanoseconds(milliseconds(-3)) == nanoseconds(-3'000'000));
  CHECK(to_nanoseconds(duration<double>(1.5)) == milliseconds(1500));
  CHECK(to_nanoseconds(duration<int, std::pico>(1001)) == nanoseconds(2));
  CHECK(to_nanoseconds(duration<unsigned char>(200)) == seconds(200));
  CHECK(to_nanoseconds(duration<char>(2)) == seconds(2));
}

TEST_CASE("fractions of nanoseconds are exact over the whole range") {
  using thirds = duration<std::int64_t, std::ratio<1, 3>>;
  using unsigned_thirds = duration<std::uint64_t, std::ratio<1, 3>>;
  using samples = duration<std::int64_t, std::ratio<1, 44100>>;
  using timer_ticks = duration<std::int64_t, std::ratio<1, 1193182>>;
  CHECK(to_nanoseconds(thirds(1)) == nanoseconds(333'333'334));
  CHECK(to_nanoseconds(thirds(-1)) == nanoseconds(-333'333'333));
  CHECK(to_nanoseconds(thirds(3 * 9'223'372'036)) == seconds(9'223'372'036));
  CHECK(to_nanoseconds(thirds(-3 * 9'223'372'036)) == seconds(-9'223'372'036));
  CHECK(to_nanoseconds(thirds(3 * 9'223'372'037)) == longest);
  CHECK(to_nanoseconds(thirds(-3 * 9'223'372'037)) == shortest);
  CHECK(to_nanoseconds(unsigned_thirds(3 * 9'000'000'001U + 1)) == seconds(9'000'000'001) + nanoseconds(333'333'334));
  CHECK(to_nanoseconds(samples(std::int64_t{44100} * 86400 * 365)) == hours(24 * 365));
  CHECK(to_nanoseconds(timer_ticks(1193182 * std::int64_t{3600 * 6})) == hours(6));
  CHECK(to_nanoseconds(timer_ticks((std::numeric_limits<std::int64_t>::max)())) == longest);
  CHECK(to_nanoseconds(timer_ticks((std::numeric_limits<std::int64_t>::min)())) == shortest);
  CHECK(to_nanoseconds(duration<int, std::ratio<1001, 30000>>(30)) == nanoseconds(1'001'000'000));
  CHECK(to_nanoseconds(duration<std::uint64_t, std::pico>((std::numeric_limits<std::uint64_t>::max)())) ==
        nanoseconds(18'446'744'073'709'552));
  CHECK(to_nanoseconds(duration<std::int64_t, std::atto>(-1'999'999'999)) == nanoseconds(-1));
  // a ratio whose parts cannot be multiplied with each other
  CHECK(to_nanoseconds(duration<int, std::ratio<7, 999'999'999'989>>(0)) == nanoseconds(0));
  const nanoseconds odd = to_nanoseconds(duration<std::int64_t, std::ratio<7, 999'999'999'989>>(1'000'000'000'000));
  CHECK(odd > seconds(7));
  CHECK(odd < seconds(7) + microseconds(1));
}

TEST_CASE("values out of range become the longest or the shortest duration, and not-a-number zero") {
  CHECK(to_nanoseconds((nanoseconds::max)()) == longest);
  CHECK(to_nanoseconds(seconds(9'223'372'036)) == seconds(9'223'372'036));
  CHECK(to_nanoseconds(seconds(9'223'372'037)) == longest);
  CHECK(to_nanoseconds(seconds(-9'223'372'037)) == shortest);
  CHECK(to_nanoseconds((hours::max)()) == longest);
  CHECK(to_nanoseconds((hours::min)()) == shortest);
  CHECK(to_nanoseconds(duration<std::uint64_t>((std::numeric_limits<std::uint64_t>::max)())) == longest);
  CHECK(to_nanoseconds(duration<double>(1e300)) == longest);
  CHECK(to_nanoseconds(duration<double>(-1e300)) == shortest);
  CHECK(to_nanoseconds(duration<double>(std::numeric_limits<double>::infinity())) == longest);
  CHECK(to_nanoseconds(duration<double>(std::numeric_limits<double>::quiet_NaN())) == nanoseconds(0));
}

namespace {

/// A clock that the test sets, in days: its range is beyond that of nanoseconds.
template <bool IsSteady>
struct calendar {
  using duration = std::chrono::days;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<calendar>;
  [[maybe_unused]] static constexpr bool is_steady = IsSteady;
  static inline time_point today{};
  static time_point now() { return today; }
};

template <class Calendar>
void check_time_left(std::chrono::nanoseconds most) {
  using async::detail::time_left;
  using other = time_point<Calendar, std::chrono::milliseconds>;
  using moment = typename Calendar::time_point;
  Calendar::today = moment(days(7));
  CHECK(time_left(Calendar::today) == 0ns);
  CHECK(time_left(Calendar::today - days(1)) == 0ns);
  CHECK(time_left((moment::min)()) == 0ns);
  CHECK(time_left(Calendar::today + days(1)) == most);
  CHECK(time_left((moment::max)()) == most);
  CHECK(time_left(other(Calendar::today) + 3ms) == 3ms);
  Calendar::today = (moment::min)();
  CHECK(time_left((moment::max)()) == most);
  CHECK(time_left(Calendar::today) == 0ns);
  Calendar::today = (moment::max)();
  CHECK(time_left(Calendar::today) == 0ns);
}

/// A clock that does not say whether it is steady.
struct wordless : std::chrono::system_clock {
  using time_point = std::chrono::time_point<wordless, duration>;
  static time_point now() { return time_point(days(7)); }

 private:
  static constexpr bool is_steady = true;
};

}  // namespace

TEST_CASE("the time that is left until a moment is at most an hour, or a second of a clock that may be set") {
  check_time_left<calendar<true>>(1h);
  check_time_left<calendar<false>>(1s);
  CHECK(async::detail::time_left(wordless::now() + 1h) == 1s);
}
