// SPDX-License-Identifier: BSL-1.0
//
// Whether a thread yields before it sleeps.
#include <doctest/doctest.h>

#include <chrono>

#include "async/detail/base/backoff.hpp"
#include "async/detail/queue/queue_wait.hpp"

using async::detail::fruitless_yields;
using async::detail::yield_habit;
using namespace std::chrono_literals;

namespace {

constexpr yield_habit::duration quick = yield_habit::too_long / 10;
constexpr yield_habit::duration slow = 30 * yield_habit::too_long;

/// The number of sleeps without yields before the next one with yields, which take so long.
int sleeps_without(yield_habit& habit, yield_habit::duration time, yield_habit::duration of_process) {
  int sleeps = 0;
  while (!habit.pays()) ++sleeps;
  habit.add(time, of_process);
  return sleeps;
}

}  // namespace

TEST_CASE("a thread yields before each sleep while that is quick") {
  yield_habit habit;
  for (int i = 0; i != 10; ++i) {
    CHECK(sleeps_without(habit, quick, 0ns) == 0);
    CHECK(!habit.is_suspect());
  }
}

TEST_CASE("yields that other processes make slow become rare, down to one in 256 sleeps") {
  yield_habit habit;
  CHECK(sleeps_without(habit, slow, 0ns) == 0);  // who has used the time is not known yet
  CHECK(habit.is_suspect());
  for (const int expected : {0, 1, 3, 7, 15, 31, 63, 127, 255, 255})
    CHECK(sleeps_without(habit, slow, 0ns) == expected);
}

TEST_CASE("yields that threads of this process make slow go on") {
  yield_habit habit;
  for (int i = 0; i != 10; ++i) CHECK(sleeps_without(habit, slow, slow / 2) == 0);
}

TEST_CASE("a thread yields again when that serves its own process") {
  yield_habit habit;
  for (int i = 0; i != 5; ++i) sleeps_without(habit, slow, 0ns);
  for (const int expected : {15, 7, 3, 1, 0, 0}) CHECK(sleeps_without(habit, slow, slow) == expected);
}

TEST_CASE("a thread yields again when that has become quick for a while") {
  yield_habit habit;
  for (int i = 0; i != 12; ++i) sleeps_without(habit, slow, 0ns);
  for (const int expected : {255, 127, 63, 31, 15, 7, 3, 1, 0}) {
    for (int i = 0; i != 4; ++i) CHECK(sleeps_without(habit, quick, 0ns) == expected);
  }
  CHECK(!habit.is_suspect());
}

TEST_CASE("where every other yield is quick, yields stay rare") {
  yield_habit habit;
  int sleeps = 0;
  for (int i = 0; i != 20; ++i) {
    sleeps_without(habit, slow, 0ns);
    sleeps = sleeps_without(habit, quick, 0ns);
  }
  CHECK(sleeps == 255);
}

TEST_CASE("yields at a queue that are in vain become rare, down to one in 16 sleeps, until one is not") {
  fruitless_yields habit;
  const auto sleeps_before = [&habit](bool have_found) {
    int sleeps = 0;
    while (!habit.pay()) ++sleeps;
    habit.add(have_found);
    return sleeps;
  };
  for (int i = 0; i != 8; ++i) CHECK(sleeps_before(false) == 0);
  for (const int expected : {1, 3, 7, 15, 15}) CHECK(sleeps_before(false) == expected);
  CHECK(sleeps_before(true) == 15);
  for (int i = 0; i != 7; ++i) CHECK(sleeps_before(false) == 0);
  CHECK(sleeps_before(true) == 0);  // so the count begins again
  for (int i = 0; i != 8; ++i) CHECK(sleeps_before(false) == 0);
  CHECK(sleeps_before(true) == 1);
}
