// SPDX-License-Identifier: BSL-1.0
//
// async::future and async::promise: everything that is asked of their namesakes in the standard.
#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "async/future.hpp"

namespace {

using namespace std::chrono_literals;

template <class F>
std::future_errc code_of(F&& f) {
  try {
    f();
  } catch (const std::future_error& e) {
    return static_cast<std::future_errc>(e.code().value());
  }
  return {};
}

std::exception_ptr error(const char* text) { return std::make_exception_ptr(std::runtime_error(text)); }

/// The move constructor throws on request.
struct fragile {
  explicit fragile(int throwing) : moves(throwing) {}
  fragile(fragile&& other) : moves(other.moves - 1) {
    if (moves == 0) throw std::runtime_error("not moved");
  }
  int moves;
};

struct alignas(128) wide {
  std::uint64_t value;
};

}  // namespace

static_assert(!std::is_copy_constructible_v<async::future<int>>);
static_assert(std::is_nothrow_move_constructible_v<async::future<int>>);
static_assert(std::is_nothrow_move_assignable_v<async::future<int>>);
static_assert(std::is_nothrow_default_constructible_v<async::future<int>>);
static_assert(std::is_copy_constructible_v<async::shared_future<int>>);
static_assert(!std::is_copy_constructible_v<async::promise<int>>);
static_assert(std::is_nothrow_move_constructible_v<async::promise<int>>);

TEST_CASE("has_exception() is true while the future is ready and get() would throw") {
  CHECK_FALSE(async::future<int>().has_exception());
  CHECK_FALSE(async::shared_future<int>().has_exception());
  CHECK_FALSE(async::make_ready_future(1).has_exception());
  static_assert(noexcept(std::declval<const async::future<void>&>().has_exception()));

  async::promise<int> promise;
  async::future<int> future = promise.get_future();
  CHECK_FALSE(future.has_exception());
  promise.set_exception(error("lost"));
  CHECK(future.has_exception());
  CHECK_THROWS_WITH(future.get(), "lost");
  CHECK_FALSE(future.has_exception());

  async::shared_future<int&> shared = async::make_exceptional_future<int&>(error("kept"));
  for (int i = 0; i < 2; ++i) {
    CHECK(shared.has_exception());
    CHECK_THROWS_WITH(shared.get(), "kept");
  }
  async::future<void> broken = async::promise<void>().get_future();
  CHECK(broken.has_exception());
  CHECK(std::move(broken).then([](async::future<void> f) { return f.has_exception(); }).get());
  CHECK(
      async::make_ready_future().then([](async::future<void>) { throw std::runtime_error("later"); }).has_exception());

  std::promise<int> of_standard;
  async::future<int> converted(of_standard.get_future());
  of_standard.set_exception(error("elsewhere"));
  converted.wait();
  CHECK(converted.has_exception());
}

TEST_CASE("async::future: get() returns what set_value() was given, once") {
  async::promise<std::string> promise;
  async::future<std::string> future = promise.get_future();
  CHECK(future.valid());
  CHECK_FALSE(future.is_ready());
  CHECK(future.wait_for(0s) == std::future_status::timeout);
  promise.set_value("text");
  CHECK(future.is_ready());
  CHECK(future.wait_for(0s) == std::future_status::ready);
  CHECK(future.get() == "text");
  CHECK_FALSE(future.valid());
  CHECK_FALSE(future.is_ready());
}

TEST_CASE("async::future: void, references, move-only and over-aligned types") {
  async::promise<void> nothing;
  async::future<void> done = nothing.get_future();
  nothing.set_value();
  done.get();

  int number = 3;
  async::promise<int&> reference;
  async::future<int&> referred = reference.get_future();
  reference.set_value(number);
  CHECK(&referred.get() == &number);

  async::promise<std::unique_ptr<int>> owner;
  async::future<std::unique_ptr<int>> owned = owner.get_future();
  owner.set_value(std::make_unique<int>(5));
  CHECK(*owned.get() == 5);

  async::promise<wide> widely;
  async::future<wide> wider = widely.get_future();
  widely.set_value({7});
  async::shared_future<wide> there = wider.share();
  CHECK(reinterpret_cast<std::uintptr_t>(&there.get()) % alignof(wide) == 0);
  CHECK(there.get().value == 7);
}

TEST_CASE("async::future: exceptions are thrown by get(), not by wait()") {
  async::promise<int> promise;
  async::future<int> future = promise.get_future();
  promise.set_exception(error("broken"));
  future.wait();
  CHECK_THROWS_WITH_AS(future.get(), "broken", std::runtime_error);
  CHECK_FALSE(future.valid());
}

TEST_CASE("async::promise: misuse has the codes of the standard") {
  async::promise<int> promise;
  async::future<int> future = promise.get_future();
  CHECK(code_of([&] { promise.get_future(); }) == std::future_errc::future_already_retrieved);
  promise.set_value(1);
  CHECK(code_of([&] { promise.set_value(2); }) == std::future_errc::promise_already_satisfied);
  CHECK(code_of([&] { promise.set_exception(error("late")); }) == std::future_errc::promise_already_satisfied);
  CHECK(future.get() == 1);
  CHECK(code_of([&] { future.get(); }) == std::future_errc::no_state);
  CHECK(code_of([&] { future.wait(); }) == std::future_errc::no_state);
  CHECK(code_of([&] { future.wait_for(1s); }) == std::future_errc::no_state);
  CHECK(code_of([&] { future.cancel(); }) == std::future_errc::no_state);
  CHECK(code_of([&] { std::move(future).then([](async::future<int>) {}); }) == std::future_errc::no_state);
  async::promise<int> other(std::move(promise));
  CHECK(code_of([&] { promise.get_future(); }) == std::future_errc::no_state);
  CHECK(code_of([&] { promise.set_value(3); }) == std::future_errc::no_state);
}

TEST_CASE("async::promise: destroyed or assigned over, it breaks its future") {
  async::future<int> future;
  {
    async::promise<int> promise;
    future = promise.get_future();
  }
  CHECK(code_of([&] { future.get(); }) == std::future_errc::broken_promise);
  async::promise<int> promise;
  future = promise.get_future();
  promise = async::promise<int>();
  CHECK(code_of([&] { future.get(); }) == std::future_errc::broken_promise);
  future = promise.get_future();
  async::promise<int> other;
  swap(promise, other);
  other.set_value(4);
  CHECK(future.get() == 4);
}

TEST_CASE("async::promise: a value whose constructor throws leaves the promise as it was") {
  async::promise<fragile> promise;
  async::future<fragile> future = promise.get_future();
  CHECK_THROWS_AS(promise.set_value(fragile(1)), std::runtime_error);
  CHECK_FALSE(future.is_ready());
  promise.set_value(fragile(2));
  CHECK(future.is_ready());
  CHECK_THROWS_AS(future.get(), std::runtime_error);  // the second move
  CHECK_FALSE(future.valid());
}

TEST_CASE("async::future and shared_future: assignment to itself keeps the result, any other drops the old one") {
  async::future<int> future = async::make_ready_future(1);
  async::future<int>& same = future;
  future = std::move(same);
  CHECK(future.get() == 1);
  auto value = std::make_shared<int>(2);
  async::future<std::shared_ptr<int>> old = async::make_ready_future(value);
  old = async::make_ready_future(std::make_shared<int>(3));
  CHECK(value.use_count() == 1);
  CHECK(*old.get() == 3);
  async::shared_future<int> shared = async::make_ready_future(4);
  async::shared_future<int>& again = shared;
  shared = again;
  shared = std::move(again);
  CHECK(shared.get() == 4);
}

TEST_CASE("async::promise: of two threads that set it, one succeeds") {
  for (int round = 0; round < 200; ++round) {
    async::promise<int> promise;
    async::future<int> future = promise.get_future();
    int refused = 0;
    std::thread other([&] {
      try {
        promise.set_value(1);
      } catch (const std::future_error&) {
        ++refused;
      }
    });
    int refused_here = 0;
    try {
      promise.set_value(2);
    } catch (const std::future_error&) {
      ++refused_here;
    }
    other.join();
    REQUIRE(refused + refused_here == 1);
    REQUIRE(future.get() == (refused_here == 1 ? 1 : 2));
  }
}

TEST_CASE("async::future: a thread that waits is woken") {
  for (int round = 0; round < 200; ++round) {
    async::promise<int> promise;
    async::future<int> future = promise.get_future();
    std::thread waiter([&future] { CHECK(future.get() == 9); });
    promise.set_value(9);
    waiter.join();
  }
}

TEST_CASE("async::future: timed waits time out, not too early, and end with the result") {
  async::promise<int> promise;
  async::future<int> future = promise.get_future();
  const auto begin = std::chrono::steady_clock::now();
  CHECK(future.wait_for(5ms) == std::future_status::timeout);
  CHECK(std::chrono::steady_clock::now() - begin >= 5ms);
  CHECK(future.wait_for(-1s) == std::future_status::timeout);
  CHECK(future.wait_until(std::chrono::steady_clock::now() + 2ms) == std::future_status::timeout);
  CHECK(future.wait_until(std::chrono::system_clock::now() + 2ms) == std::future_status::timeout);
  CHECK(future.wait_until(std::chrono::system_clock::time_point::min()) == std::future_status::timeout);
  std::thread setter([&promise] { promise.set_value(1); });
  CHECK(future.wait_for(std::chrono::hours::max()) == std::future_status::ready);
  CHECK(future.wait_until(std::chrono::system_clock::time_point::max()) == std::future_status::ready);
  setter.join();
}

TEST_CASE("async::shared_future: copies read one value, from any thread") {
  async::promise<std::vector<int>> promise;
  const async::shared_future<std::vector<int>> first = promise.get_future().share();
  std::vector<std::thread> readers;
  for (int i = 0; i < 4; ++i) {
    readers.emplace_back([mine = first] { CHECK(mine.get().size() == 3); });
  }
  promise.set_value({1, 2, 3});
  for (std::thread& t : readers) t.join();
  async::shared_future<std::vector<int>> second;
  CHECK_FALSE(second.valid());
  second = first;
  CHECK(&first.get() == &second.get());
  const async::shared_future<int> failed = async::make_exceptional_future<int>(error("broken"));
  CHECK_THROWS_AS(failed.get(), std::runtime_error);
  CHECK_THROWS_AS(failed.get(), std::runtime_error);
  CHECK(code_of([] { async::shared_future<int>().get(); }) == std::future_errc::no_state);
}

TEST_CASE("async::future: values and errors are destroyed with the last reference") {
  {
    async::promise<std::shared_ptr<int>> promise;
    const auto value = std::make_shared<int>(1);
    {
      const async::future<std::shared_ptr<int>> dropped = promise.get_future();
      promise.set_value(value);
      CHECK(value.use_count() == 2);
    }
    CHECK(value.use_count() == 2);  // the promise has a reference
    promise = {};
    CHECK(value.use_count() == 1);
  }
  const auto held = std::make_shared<int>(1);
  {
    async::promise<int> unused;
    unused.set_exception(std::make_exception_ptr(held));
  }
  CHECK(held.use_count() == 1);
}

TEST_CASE("async::make_ready_future, make_exceptional_future: ready at once") {
  async::future<std::string> text = async::make_ready_future(std::string("now"));
  CHECK(text.is_ready());
  CHECK(text.get() == "now");
  async::future<void> nothing = async::make_ready_future();
  CHECK(nothing.is_ready());
  async::future<int> failed = async::make_exceptional_future<int>(error("never"));
  CHECK(failed.is_ready());
  CHECK_THROWS_AS(failed.get(), std::runtime_error);
}
