// SPDX-License-Identifier: BSL-1.0
//
// When a worker spins before it sleeps, and how long.
#include <doctest/doctest.h>

#include <chrono>

#include "async/detail/base/backoff.hpp"

using async::detail::adaptive_spin;
using length = adaptive_spin::length;

namespace {

constexpr adaptive_spin::duration soon = adaptive_spin::long_spin / 2;
constexpr adaptive_spin::duration late = 2 * adaptive_spin::long_spin;

/// The number of sleeps without a spin before the next one with a spin, which finds nothing.
int sleeps_without(adaptive_spin& spin, adaptive_spin::duration idle) {
  int sleeps = 0;
  while (spin.next() == length::none) {
    CHECK(!spin.is_tried());
    ++sleeps;
  }
  CHECK(spin.is_tried());
  spin.idle(idle);
  return sleeps;
}

}  // namespace

TEST_CASE("no spin comes before the first sleep; spins that find nothing become rare, down to one in 256") {
  adaptive_spin spin;
  for (const int expected : {1, 3, 7, 15, 31, 63, 127, 255, 255}) CHECK(sleeps_without(spin, late) == expected);
}

TEST_CASE("a spin that finds something makes the next sleep one with a spin") {
  adaptive_spin spin;
  for (int i = 0; i != 5; ++i) sleeps_without(spin, late);
  while (spin.next() == length::none) {
  }
  spin.succeeded();
  CHECK(spin.next() == length::some_steps);
}

TEST_CASE("after a spin that has just missed the work, the next one is at once, and long") {
  adaptive_spin spin;
  for (int i = 0; i != 5; ++i) sleeps_without(spin, late);
  sleeps_without(spin, soon);
  for (int i = 0; i != 3; ++i) {
    CHECK(spin.next() == length::long_spin);
    spin.succeeded();
  }
}

TEST_CASE("a long spin that has found nothing is followed by short ones") {
  adaptive_spin spin;
  sleeps_without(spin, soon);
  CHECK(spin.next() == length::long_spin);
  spin.idle(late);
  while (spin.next() == length::none) {
  }
  spin.succeeded();
  CHECK(spin.next() == length::some_steps);
}
