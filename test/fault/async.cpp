// SPDX-License-Identifier: BSL-1.0
//
// async::async when the shared pool cannot start its threads: the call is refused, and the next one tries again.
#include <doctest/doctest.h>

#include <atomic>
#include <cstdio>
#include <future>
#include <system_error>

#include "async/async.hpp"
#include "support/thread_failure.hpp"

using testing::fail_thread;

TEST_CASE("a call throws system_error while no thread can start, whatever its policy, and is not made") {
  // First, before there is a shared pool.
  std::atomic<int> calls{0};
  const auto call = [&calls] { return ++calls; };
  {
    const fail_thread failing(0);
    const auto is_refused = [](auto attempt) {
      try {
        attempt();
        return false;
      } catch (const std::system_error& error) {
        return error.code() == std::errc::resource_unavailable_try_again;
      }
    };
    CHECK(is_refused([&] { return async::async(call); }));
    CHECK(is_refused([&] { return async::async(std::launch::async, call); }));
    CHECK(is_refused([&] { return async::async(std::launch::async | std::launch::deferred, call); }));
    CHECK(calls == 0);
    CHECK(async::async(std::launch::deferred, call).get() == 1);
  }
  CHECK(async::async(call).get() == 2);
  std::printf("count: 3 refused threads\n");
}

TEST_CASE("a std::future that becomes a future is as before when no thread can start to wait for it") {
  std::promise<int> promise;
  std::future<int> foreign = promise.get_future();
  {
    const fail_thread failing(0);
    CHECK_THROWS_AS(async::future<int>(std::move(foreign)), std::system_error);
  }
  REQUIRE(foreign.valid());
  async::future<int> future(std::move(foreign));
  promise.set_value(3);
  CHECK(future.get() == 3);
}
