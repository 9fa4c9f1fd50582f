// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <version>

// The system's library is built for libstdc++.
#if __has_include(<pplx/pplxtasks.h>) && !defined(_LIBCPP_VERSION) && !defined(ASYNCSTEPS_TEST_NO_PPLX)
#include <pplx/pplxtasks.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <vector>

#include "async/interop/pplx.hpp"
#include "async/threadpool.hpp"

TEST_CASE("tasks and continuations of pplx run on the pool, with their values and exceptions") {
  async::threadpool pool(2);
  async::interop::use_as_pplx_scheduler(pool);
  std::atomic<int> here{0};
  const auto count = [&] { here += async::threadpool::current() == &pool ? 1 : 0; };
  pplx::task<int> task = pplx::create_task([&] {
                           count();
                           return 20;
                         }).then([&](int x) {
    count();
    return x + 1;
  });
  CHECK(task.get() == 21);
  CHECK(here == 2);
  pplx::task<void> failing = pplx::create_task([] { throw std::runtime_error("text"); });
  CHECK_THROWS_AS(failing.get(), std::runtime_error);

  std::atomic<int> ran{0};
  std::vector<pplx::task<void>> many;
  for (int i = 0; i < 1'000; ++i) many.push_back(pplx::create_task([&] { ++ran; }));
  pplx::when_all(many.begin(), many.end()).wait();
  CHECK(ran == 1'000);
  CHECK(pool.stats().tasks >= 1'000);
  pool.wait_idle();
}

TEST_CASE("a task for a named scheduler runs on its pool") {
  async::threadpool pool(1);
  const auto scheduler = std::make_shared<async::interop::pplx_scheduler>(pool);
  pplx::task<bool> task =
      pplx::create_task([&] { return async::threadpool::current() == &pool; }, pplx::task_options(scheduler));
  CHECK(task.get());
  pool.wait_idle();
}
#else
TEST_CASE("cpprestsdk not found: async/interop/pplx.hpp is not tested") { CHECK(true); }
#endif
