// SPDX-License-Identifier: BSL-1.0
//
// The time up to which a sleeper covers the first deadline. The model has the protocol.
#include "async/detail/pool/deadline_cover.hpp"

#include <doctest/doctest.h>

#include <cstdint>

using async::detail::deadline_cover;

TEST_CASE("a sleeper beside threads that fire timers leaves them some time, and one that is alone does not") {
  deadline_cover cover(10);
  CHECK(cover.cover(true) == deadline_cover::never);
  cover.publish(100);
  CHECK(cover.is_uncovered());
  CHECK(cover.cover(true) == 110);
  CHECK_FALSE(cover.is_uncovered());
  CHECK(cover.cover(true) == deadline_cover::never);  // another one covers
  CHECK(cover.cover(false) == 100);
  cover.uncover(110);
  CHECK_FALSE(cover.is_uncovered());
  cover.uncover(100);
  CHECK(cover.is_uncovered());
}

TEST_CASE("a deadline at the end of time can be covered, too") {
  for (std::int64_t before = 1; before <= 12; ++before) {
    CAPTURE(before);
    deadline_cover cover(10);
    cover.publish(deadline_cover::never - before);
    const std::int64_t until = cover.cover(true);
    CHECK(until >= deadline_cover::never - before);
    CHECK(until < deadline_cover::never);
    CHECK_FALSE(cover.is_uncovered());
    cover.uncover(until);
    CHECK(cover.is_uncovered());
  }
}
