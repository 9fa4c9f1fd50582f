// SPDX-License-Identifier: BSL-1.0
#include "async/async.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "support/alloc_counter.hpp"

using async::threadpool;
using namespace std::chrono_literals;

namespace {

bool in_pool() { return threadpool::current() == &threadpool::shared(); }

/// The example of std::async that everybody knows: divides, calls one half asynchronously, and waits for it.
template <class It>
long parallel_sum(It first, It last, std::launch policy) {
  if (last - first < 10) return std::accumulate(first, last, 0L);
  const It middle = first + (last - first) / 2;
  auto right = async::async(policy, parallel_sum<It>, middle, last, policy);
  const long left = parallel_sum(first, middle, policy);
  return left + right.get();
}

}  // namespace

TEST_CASE("a call runs on the shared pool, also with the policies that contain std::launch::async") {
  CHECK_FALSE(in_pool());
  CHECK(async::async(in_pool).get());
  CHECK(async::async(std::launch::async, in_pool).get());
  CHECK(async::async(std::launch::async | std::launch::deferred, in_pool).get());
}

TEST_CASE("a deferred call is made by the thread that waits, once, and not if nobody does") {
  int calls = 0;
  {
    const std::future<int> never = async::async(std::launch::deferred, [&calls] { return ++calls; });
    CHECK(never.wait_for(0s) == std::future_status::deferred);
  }
  CHECK(calls == 0);
  auto id = async::async(std::launch::deferred, [&calls] {
    ++calls;
    return std::this_thread::get_id();
  });
  id.wait();
  CHECK(calls == 1);
  CHECK(id.get() == std::this_thread::get_id());
  CHECK(calls == 1);
}

TEST_CASE("a policy that is none is an error") {
  CHECK_THROWS_AS(static_cast<void>(async::async(std::launch{}, in_pool)), std::system_error);
  try {
    static_cast<void>(async::async(std::launch{}, in_pool));
  } catch (const std::system_error& error) {
    CHECK(error.code() == std::errc::invalid_argument);
  }
}

TEST_CASE("arguments are copied when async is called, not when the call is made") {
  std::promise<void> go;
  std::vector<int> numbers{1, 2, 3};
  auto sum = async::async(
      [until = go.get_future().share()](const std::vector<int>& v) {
        until.wait();
        return std::accumulate(v.begin(), v.end(), 0);
      },
      numbers);
  numbers.assign(3, 100);
  go.set_value();
  CHECK(sum.get() == 6);
}

TEST_CASE("async passes on exceptions of copies of its arguments, and calls nothing") {
  struct throws_on_copy {
    throws_on_copy() = default;
    throws_on_copy(const throws_on_copy&) { throw std::runtime_error("copied"); }
  };
  const throws_on_copy argument;
  std::atomic<bool> called{false};
  CHECK_THROWS_WITH_AS(static_cast<void>(async::async([&](const throws_on_copy&) { called = true; }, argument)),
                       "copied", std::runtime_error);
  CHECK_FALSE(called);
}

TEST_CASE("the function and its arguments are gone when the result is there") {
  const auto token = std::make_shared<int>(1);
  for (int i = 0; i < 500; ++i) {
    CHECK(async::async([token](const std::shared_ptr<int>& other) { return *token + *other; }, token).get() == 2);
    REQUIRE(token.use_count() == 1);
    CHECK_THROWS_AS(async::async([token] { throw std::runtime_error("thrown"); }).get(), std::runtime_error);
    REQUIRE(token.use_count() == 1);
  }
}

TEST_CASE("calls wait for their calls with get(), deeper than there are threads [trap: nested get deadlocks]") {
  std::vector<int> numbers(10'000, 1);
  for (const std::launch policy : {std::launch::async, std::launch::async | std::launch::deferred}) {
    CHECK(parallel_sum(numbers.begin(), numbers.end(), policy) == 10'000);
    CHECK(async::async(parallel_sum<std::vector<int>::iterator>, numbers.begin(), numbers.end(), policy).get() ==
          10'000);
  }
  const std::function<int(int)> down = [&down](int n) { return n == 0 ? 0 : 1 + async::async(down, n - 1).get(); };
  CHECK(async::async(down, 200).get() == 200);
}

TEST_CASE("a call made inside the pool is run when nobody waits for it, and its future may go elsewhere") {
  std::promise<void> ran;
  async::async([&ran] { static_cast<void>(async::async([&ran] { ran.set_value(); })); }).get();
  CHECK(ran.get_future().wait_for(60s) == std::future_status::ready);

  auto inner = async::async([] { return async::async([] { return 5; }); }).get();
  CHECK(inner.wait_for(60s) != std::future_status::timeout);
  CHECK(inner.get() == 5);
  auto thrown = async::async([] { return async::async([]() -> int { throw std::runtime_error("inside"); }); }).get();
  CHECK_THROWS_WITH_AS(thrown.get(), "inside", std::runtime_error);
}

TEST_CASE("a call made inside another pool is an ordinary one") {
  threadpool other(1);
  CHECK(other.post([] { return async::async(in_pool).get(); }).get());
  CHECK(other.post([] { return async::async(in_pool).wait_for(60s) != std::future_status::timeout; }).get());
}

TEST_CASE("results that are references refer to what the call returned") {
  int value = 1;
  int& same = async::async([](int& x) -> int& { return x; }, std::ref(value)).get();
  CHECK(&same == &value);
  const std::pair<int, int> pair(3, 4);
  auto second = async::async(&std::pair<int, int>::second, &pair);
  CHECK(&second.get() == &pair.second);
}

TEST_CASE("a call takes at most one call of operator new once the pool is warm") {
  constexpr std::size_t calls = ASYNCSTEPS_CALL_STATE == 0 ? 2 : 1;  // std::async's deferred function takes one
  std::vector<std::future<int>> futures(100);
  const auto round = [&futures] {
    for (std::future<int>& f : futures) f = async::async([](int a, int b) { return a + b; }, 1, 2);
    for (std::future<int>& f : futures) f.get();
  };
  CHECK(testing::fewest_calls(round, futures.size()) <= calls * futures.size());
}

TEST_CASE("async can be asked whether it takes a call") {
  const auto takes = [](auto&&... call) { return requires { async::async(std::forward<decltype(call)>(call)...); }; };
  CHECK(takes([](int) {}, 1));
  CHECK(takes(std::launch::async, [](int) {}, 1));
  CHECK_FALSE(takes([](int) {}));
  CHECK_FALSE(takes([](int&) {}, 1));
  CHECK_FALSE(takes(5));
  CHECK_FALSE(takes(std::launch::async));
}
