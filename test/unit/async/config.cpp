// SPDX-License-Identifier: BSL-1.0
#include "async/detail/base/config.hpp"

#include <doctest/doctest.h>

#include "support/scale.hpp"

TEST_CASE("independently written words are at least one cache line apart") {
  CHECK(async::detail::no_sharing >= async::detail::cache_line);
  CHECK(async::detail::no_sharing % async::detail::cache_line == 0);
}

TEST_CASE("a test is repeated at least once at any scale") {
  CHECK(testing::scale() >= 1);
  CHECK(testing::rounds(0) == 1);
  CHECK(testing::rounds(100) >= 10);
}

TEST_CASE("the seed of a run does not change within it") { CHECK(testing::seed() == testing::seed()); }
