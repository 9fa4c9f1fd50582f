// SPDX-License-Identifier: BSL-1.0
//
// async::async in the place of std::async: a list of calls (support/async_calls.hpp), each compiled and run both ways.
#include <doctest/doctest.h>

#include <future>
#include <string>

#include "support/dropin.hpp"

TEST_CASE("each call of functions has the type and the outcome that it has with std::async") {
  const dropin::call list[] = {ASYNCSTEPS_CALLS_OF_FUNCTIONS(DROPIN_CALL)};
  for (const dropin::call& each : list) dropin::compare(each);
}

TEST_CASE("the template arguments can be given as to std::async") {
  CHECK(std::async<int (*)(int), int>(&calls::twice, 21).get() == 42);
  CHECK(async::async<int (*)(int), int>(&calls::twice, 21).get() == 42);
}

namespace unqualified {

using async::async;  // hides nothing; std::async is found as well, through the arguments from namespace std

TEST_CASE("an unqualified call with arguments of namespace std means async::async, once it is named") {
  CHECK(async([](const std::string&) { return async::threadpool::current() != nullptr; }, std::string("x")).get());
  CHECK(async(std::launch::async, [] { return async::threadpool::current() != nullptr; }).get());
}

}  // namespace unqualified
