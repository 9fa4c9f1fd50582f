// SPDX-License-Identifier: BSL-1.0
#include "async/detail/future/pending_call.hpp"

#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include "async/detail/base/block_trim.hpp"
#include "async/task.hpp"
#include "support/alloc_counter.hpp"

using async::detail::make_call;

namespace {

struct immovable {
  immovable() = default;
  immovable(const immovable&) {}
  immovable(immovable&&) = delete;
  int operator()(const immovable&) const { return 3; }
};

}  // namespace

TEST_CASE("a call gives its result, reference, nothing or exception to the future") {
  auto sum = make_call([](int a, std::unique_ptr<int> b) { return a + *b; }, 2, std::make_unique<int>(3));
  auto sum_future = sum.get_future();
  sum();
  CHECK(sum_future.get() == 5);

  int value = 0;
  auto same = make_call([](int& x) -> int& { return x; }, std::ref(value));
  std::future<int&> same_future = same.get_future();
  same();
  CHECK(&same_future.get() == &value);

  auto nothing = make_call([&value] { value = 7; });
  std::future<void> nothing_future = nothing.get_future();
  nothing();
  nothing_future.get();
  CHECK(value == 7);

  auto throws = make_call([](const std::string& what) -> int { throw std::runtime_error(what); }, "thrown");
  std::future<int> throws_future = throws.get_future();
  throws();
  CHECK_THROWS_WITH_AS(throws_future.get(), "thrown", std::runtime_error);
}

TEST_CASE("the function and its arguments need not be movable") {
  const immovable f;
  auto call = make_call(f, f);
  auto future = call.get_future();
  call();
  CHECK(future.get() == 3);
}

TEST_CASE("the function and its arguments are gone when the result can be seen") {
  for (const bool throws : {false, true}) {
    const auto token = std::make_shared<int>(0);
    auto call = make_call(
        [token, throws](const std::shared_ptr<int>&) {
          if (throws) throw std::runtime_error("thrown");
        },
        token);
    auto future = call.get_future();
    CHECK(token.use_count() == 3);
    call();
    CHECK(token.use_count() == 1);
    CHECK(future.wait_for(std::chrono::seconds(0)) == std::future_status::ready);
  }
}

TEST_CASE("a call that is never made breaks its promise") {
  auto token = std::make_shared<int>(0);
  const auto broken = [&token](auto f) {
    std::future<void> future;
    {
      auto call = make_call(std::move(f));
      future = call.get_future();
      const auto moved = std::move(call);
      CHECK(token.use_count() == 2);
    }
    CHECK(token.use_count() == 1);
    CHECK_THROWS_AS(future.get(), std::future_error);
  };
  broken([token] {});
  broken([token, padding = std::array<char, 99>{}] { static_cast<void>(padding); });
}

TEST_CASE("a call fits into a task without a block of its own, as itself when it is small and as a handle otherwise") {
  struct throws_on_move {
    throws_on_move() = default;
    throws_on_move(throws_on_move&&) noexcept(false) {}
    void operator()() const {}
  };
  struct alignas(64) aligned {
    void operator()() const {}
  };
  std::array<char, 48> large{};
  const auto small = [a = 1L, b = 2L] { return a + b; };
  using kept = async::detail::pending_call<long, std::decay_t<decltype(small)>>;
  static_assert(std::is_same_v<decltype(make_call(small)), kept>, "16 bytes of captures");
  const auto in_block = [](auto&&... call) {
    using made = decltype(make_call(std::forward<decltype(call)>(call)...));
    static_assert(async::detail::fits_in_task<made>);
    return sizeof(made) == 2 * sizeof(void*);
  };
  CHECK_FALSE(in_block(small));
  CHECK_FALSE(in_block([](long, long) {}, 1L, 2L));
  CHECK(in_block(immovable(), immovable()));
  CHECK(in_block(throws_on_move()));
  CHECK(in_block(aligned()));
  CHECK(in_block([large] { static_cast<void>(large); }));
}

TEST_CASE("a call makes no allocation in the steady state") {
  const auto round = [](auto f) {
    std::size_t calls = 1;
    for (int i = 0; i < 10; ++i) {
      const testing::alloc_counter counter;
      auto call = make_call(f, i);
      auto future = call.get_future();
      async::task task(std::move(call));
      async::task moved(std::move(task));
      moved();
      CHECK(future.get() == i + 1);
      calls = counter.calls();
    }
    return calls;
  };
  CHECK(round([](int x) { return x + 1; }) == 0);
  CHECK(round([large = std::array<int, 40>{1}](int x) { return x + large[0]; }) == 0);
}

TEST_CASE("a failure on the way to a call leaves nothing behind") {
  const auto token = std::make_shared<int>(0);
  for (std::size_t k = 0;; ++k) {
    async::detail::trim_blocks();
    testing::fail_alloc failing(k);
    try {
      const auto call = make_call([token, padding = std::array<char, 2000>{}] { static_cast<void>(padding); });
      failing.stop();
      CHECK(token.use_count() == 2);
    } catch (const std::bad_alloc&) {
      failing.stop();
    }
    CHECK(token.use_count() == 1);
    if (!failing.has_failed()) break;
  }
}

TEST_CASE("a call that is dropped when there is no memory still makes its future ready") {
  std::future<int> future;
  {
    auto call = make_call([] { return 1; });
    future = call.get_future();
    const testing::no_memory none;
    const auto dropped = std::move(call);
  }
  CHECK_THROWS_AS(future.get(), std::exception);  // std::bad_alloc, or a broken promise where that needs no memory
}

TEST_CASE("a thread may look at an exception while another thread releases the call") {
  for (int i = 0; i < 200; ++i) {
    auto call = make_call([] { throw std::runtime_error("thrown"); });
    auto future = call.get_future();
    std::thread other([c = std::move(call)]() mutable { c(); });
    CHECK_THROWS_WITH_AS(future.get(), "thrown", std::runtime_error);
    other.join();
  }
}
