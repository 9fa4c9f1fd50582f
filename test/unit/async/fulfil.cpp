// SPDX-License-Identifier: BSL-1.0
//
// Futures that are made ready by the sole setter of their promises.
#include "async/detail/future/fulfil.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "async/async.hpp"
#include "async/detail/base/block_cache.hpp"
#include "async/threadpool.hpp"

namespace {

using namespace std::chrono_literals;
using async::detail::fail;
using async::detail::fulfil;
using async::detail::fulfil_or_fail;

template <class R>
std::promise<R> pooled() {
  return std::promise<R>(std::allocator_arg, async::detail::block_allocator<char>{});
}

template <class Future>
bool ready(const Future& future) {
  return future.wait_for(0s) == std::future_status::ready;
}

std::exception_ptr error(const char* text) { return std::make_exception_ptr(std::runtime_error(text)); }

/// Counts its objects; the move constructor throws on request.
struct counted {
  explicit counted(bool throws) : throws_(throws) { ++alive; }
  counted(counted&& other) : throws_(other.throws_) {
    if (throws_) throw std::runtime_error("not moved");
    ++alive;
  }
  ~counted() { --alive; }
  bool throws_;
  static inline int alive = 0;
};

struct alignas(128) wide {
  std::uint64_t value;
};

}  // namespace

TEST_CASE_TEMPLATE("the future gets the value, once", R, int, std::string, std::vector<int>) {
  for (auto promise : {0, 1}) {
    auto p = promise == 0 ? std::promise<R>() : pooled<R>();
    auto future = p.get_future();
    CHECK_FALSE(ready(future));
    const R value = [] {
      if constexpr (std::is_same_v<R, int>)
        return 7;
      else
        return R(1000, 7);
    }();
    fulfil(p, R(value));
    REQUIRE(ready(future));
    CHECK(future.get() == value);
    CHECK_FALSE(future.valid());
  }
}

TEST_CASE("a future of void, of a reference, of a move-only type, of a type aligned to two lines") {
  auto nothing = pooled<void>();
  auto end = nothing.get_future();
  fulfil(nothing);
  REQUIRE(ready(end));
  end.get();

  int object = 1;
  auto refers = pooled<int&>();
  auto reference = refers.get_future();
  fulfil(refers, object);
  REQUIRE(ready(reference));
  CHECK(&reference.get() == &object);

  auto moves = pooled<std::unique_ptr<int>>();
  auto pointer = moves.get_future();
  fulfil(moves, std::make_unique<int>(5));
  REQUIRE(ready(pointer));
  CHECK(*pointer.get() == 5);

  auto aligned = pooled<wide>();
  auto lines = aligned.get_future();
  fulfil(aligned, wide{9});
  REQUIRE(ready(lines));
  const wide got = lines.get();
  CHECK(got.value == 9);
}

TEST_CASE("the future throws the error, a shared one each time that it is asked") {
  auto promise = pooled<int>();
  const std::shared_future<int> future = promise.get_future().share();
  fail(promise, error("no"));
  for (int i = 0; i < 2; ++i) CHECK_THROWS_WITH_AS(static_cast<void>(future.get()), "no", std::runtime_error);

  auto nothing = pooled<void>();
  auto end = nothing.get_future();
  fail(nothing, error("neither"));
  CHECK_THROWS_WITH_AS(end.get(), "neither", std::runtime_error);
}

#if !defined(_WIN32) || !defined(FULFIL_STANDARD)  // there std::call_once never returns after it has thrown
TEST_CASE("a value whose constructor throws becomes the error, and nothing of it is left") {
  auto promise = pooled<counted>();
  auto future = promise.get_future();
  fulfil_or_fail(promise, counted(true));
  if constexpr (async::detail::fulfil_may_throw) {
    REQUIRE(ready(future));
    CHECK_THROWS_WITH_AS(static_cast<void>(future.get()), "not moved", std::runtime_error);
  } else {
    promise = pooled<counted>();
    CHECK_THROWS_AS(static_cast<void>(future.get()), std::future_error);
  }
  CHECK(counted::alive == 0);

  auto good = pooled<counted>();
  auto later = good.get_future();
  fulfil_or_fail(good, counted(false));
  CHECK(counted::alive == 1);
  CHECK_FALSE(later.get().throws_);
  good = pooled<counted>();
  CHECK(counted::alive == 0);
}
#endif

TEST_CASE("a promise that has been set can be destroyed before and after its future") {
  for (const bool promise_first : {true, false}) {
    auto promise = std::make_unique<std::promise<counted>>(pooled<counted>());
    auto future = std::make_unique<std::future<counted>>(promise->get_future());
    fulfil(*promise, counted(false));
    if (promise_first) promise.reset();
    if (promise_first) CHECK_FALSE(future->get().throws_);
    future.reset();
    promise.reset();
    CHECK(counted::alive == 0);
  }
  auto unseen = pooled<counted>();  // nobody has its future
  fulfil(unseen, counted(false));
  CHECK(counted::alive == 1);
  unseen = pooled<counted>();
  CHECK(counted::alive == 0);
}

TEST_CASE("threads in all waits of a future are woken, and see everything written before") {
  for (int round = 0; round < 200; ++round) {
    auto promise = pooled<std::size_t>();
    const std::shared_future<std::size_t> future = promise.get_future().share();
    std::vector<int> written;
    std::size_t seen[3] = {};
    std::thread waits([&, mine = future] {
      mine.wait();
      seen[0] = written.size();
    });
    std::thread waits_for([&, mine = future] {
      while (mine.wait_for(1h) != std::future_status::ready) {
      }
      seen[1] = written.size();
    });
    std::thread gets([&, mine = future] { seen[2] = mine.get() == 3 ? written.size() : 0; });
    if (round % 2 == 0) std::this_thread::yield();
    written.assign(3, round);
    fulfil(promise, std::size_t{3});
    waits.join();
    waits_for.join();
    gets.join();
    for (const std::size_t count : seen) REQUIRE(count == 3);
  }
}

TEST_CASE("post() and async() give values, references and errors of calls, and of values that cannot be moved") {
  async::threadpool pool(2);
  int object = 1;
  CHECK(pool.post([] { return std::string(100, 'x'); }).get() == std::string(100, 'x'));
  CHECK(&pool.post([&object]() -> int& { return object; }).get() == &object);
  pool.post([] {}).get();
  CHECK_THROWS_WITH_AS(pool.post([] { throw std::runtime_error("void"); }).get(), "void", std::runtime_error);
  CHECK_THROWS_WITH_AS(async::async([]() -> int { throw std::runtime_error("int"); }).get(), "int", std::runtime_error);
  auto future = pool.post([] { return counted(true); });
  if constexpr (ASYNCSTEPS_CALL_STATE != 0 || async::detail::fulfil_may_throw) {  // else std::promise is made ready
    CHECK_THROWS_WITH_AS(static_cast<void>(future.get()), "not moved", std::runtime_error);
  } else {
    CHECK_THROWS_AS(static_cast<void>(future.get()), std::future_error);
  }
  pool.wait_idle();
  CHECK(counted::alive == 0);
}

#if defined(_GLIBCXX_RELEASE) && _GLIBCXX_RELEASE >= 11 && _GLIBCXX_RELEASE <= 15 && !defined(FULFIL_STANDARD)
TEST_CASE("libstdc++'s std::call_once is bypassed in the known releases") { CHECK(ASYNCSTEPS_DIRECT_PROMISES == 1); }
#endif
