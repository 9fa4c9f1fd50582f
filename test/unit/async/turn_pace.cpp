// SPDX-License-Identifier: BSL-1.0
#include "async/detail/loop/turn_pace.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <vector>

using namespace std::chrono_literals;

namespace {

/// A clock that moves with each step.
struct step_clock {
  using duration = std::chrono::nanoseconds;
  using time_point = std::chrono::time_point<step_clock>;
  static inline duration time{1h};
  static inline unsigned readings = 0;
  static time_point now() noexcept {
    ++readings;
    return time_point(time);
  }
};
using pace = async::detail::basic_turn_pace<step_clock>;

constexpr unsigned most = 100;

/// Runs a turn of steps that take `step` each. Returns how many it had.
unsigned run_turn(pace& p, std::chrono::nanoseconds step, unsigned steps = most) {
  pace::time_point since{};
  unsigned left = steps;
  unsigned look = p.begin(left, since);
  for (;;) {
    step_clock::time += step;
    --left;
    if (left == 0) return steps;
    if (left <= look && (look = p.look(steps - left, left, since)) == pace::is_up) return steps - left;
  }
}

/// The same. Returns how often it has read the clock.
unsigned readings_in_turn(pace& p, std::chrono::nanoseconds step, unsigned steps = most) {
  const unsigned before = step_clock::readings;
  CHECK(run_turn(p, step, steps) == steps);
  return step_clock::readings - before;
}

}  // namespace

TEST_CASE("a turn of quick steps is whole, and looks at the clock three times; a short one does not look") {
  pace p;
  CHECK(readings_in_turn(p, 1us) == 3);
  CHECK(readings_in_turn(p, 10us) == 3);
  for (const unsigned steps : {1U, 2U, 9U, 16U}) CHECK(readings_in_turn(p, 5ms, steps) == 0);
}

TEST_CASE("a turn whose steps take long ends after a few, and the next ones when they have taken a millisecond") {
  pace p;
  CHECK(run_turn(p, 5ms) == 17);
  CHECK(run_turn(p, 5ms) == 1);
  CHECK(run_turn(p, 1ms) == 1);
  CHECK(run_turn(p, 300us) == 4);
  CHECK(run_turn(p, 5ms, 2) == 1);
  CHECK(readings_in_turn(p, 5ms, 1) == 0);
}

TEST_CASE("turns look seldom again after sixteen that were quick, however short") {
  for (const unsigned steps : {2U, 4U, 7U, most}) {
    pace p;
    CHECK(run_turn(p, 5ms) == 17);
    for (int turn = 0; turn != 16; ++turn) CHECK(readings_in_turn(p, 1us, steps) >= 2);
    CHECK(readings_in_turn(p, 1us, 16) == 0);
    CHECK(readings_in_turn(p, 1us) == 3);
  }
}

TEST_CASE("turns of quick steps between those of slow ones do not make these longer") {
  pace p;
  CHECK(run_turn(p, 5ms) == 17);
  for (int turn = 0; turn != 100; ++turn) {
    for (int quick = 0; quick != 10; ++quick) CHECK(run_turn(p, 1us) == most);
    CHECK(run_turn(p, 5ms) == 1);
  }
}

TEST_CASE("a turn whose steps get slow ends within half of a turn") {
  for (unsigned quick = 1; quick != most; ++quick) {
    pace p;
    pace::time_point since{};
    unsigned left = most;
    unsigned look = p.begin(left, since);
    unsigned slow_ones = 0;
    for (;;) {
      const bool is_slow = left <= most - quick;
      step_clock::time += is_slow ? 5ms : 0ms;
      if (is_slow) ++slow_ones;
      if (--left == 0) break;
      if (left <= look && (look = p.look(most - left, left, since)) == pace::is_up) break;
    }
    CAPTURE(quick);
    CHECK(slow_ones <= 48);
  }
}

TEST_CASE("turns of a loop with a clock of its own do not look") {
  pace p;
  p.never_look();
  CHECK(readings_in_turn(p, 5ms) == 0);
  CHECK(readings_in_turn(p, 5ms, 65'535) == 0);
}
