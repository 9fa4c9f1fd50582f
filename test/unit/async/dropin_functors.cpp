// SPDX-License-Identifier: BSL-1.0
//
// async::async in the place of std::async: a list of calls (support/async_calls.hpp), each compiled and run both ways.
#include <doctest/doctest.h>

#include "support/dropin.hpp"

TEST_CASE("each call of functors has the type and the outcome that it has with std::async") {
  const dropin::call list[] = {ASYNCSTEPS_CALLS_OF_FUNCTORS(DROPIN_CALL)};
  for (const dropin::call& each : list) dropin::compare(each);
}
