// SPDX-License-Identifier: BSL-1.0
#include "async/detail/durations.hpp"

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

TEST_CASE("a duration is as many nanoseconds, rounded up") {
  CHECK(to_nanoseconds(nanoseconds(5)) == nanoseconds(5));
  CHECK(to_nanoseconds(milliseconds(-3)) == nanoseconds(-3'000'000));
  CHECK(to_nanoseconds(duration<double>(1.5)) == milliseconds(1500));
  CHECK(to_nanoseconds(duration<int, std::pico>(1001)) == nanoseconds(2));
  CHECK(to_nanoseconds(duration<unsigned char>(200)) == seconds(200));
  CHECK(to_nanoseconds(duration<char>(2)) == seconds(2));
}

TEST_CASE("what nanoseconds cannot hold is the longest or the shortest, and not-a-number nothing") {
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
