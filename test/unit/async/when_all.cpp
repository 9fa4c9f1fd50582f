// SPDX-License-Identifier: BSL-1.0
//
// when_all() and when_any(), of several futures, of vectors and of ranges.
#include "async/when_all.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "async/async.hpp"
#include "support/scale.hpp"

namespace {

using namespace std::chrono_literals;

struct promised {
  std::vector<async::promise<int>> promises;
  std::vector<async::future<int>> futures;
  explicit promised(std::size_t n) : promises(n) {
    for (auto& p : promises) futures.push_back(p.get_future());
  }
};

}  // namespace

TEST_CASE("when_all: of several futures, a tuple, ready with the last of them") {
  async::promise<int> number;
  async::promise<std::string> text;
  async::promise<void> nothing;
  async::future<int> given = number.get_future();
  const async::shared_future<std::string> shared = text.get_future().share();
  auto all = async::when_all(std::move(given), shared, nothing.get_future());
  static_assert(std::is_same_v<
                decltype(all),
                async::future<std::tuple<async::future<int>, async::shared_future<std::string>, async::future<void>>>>);
  CHECK_FALSE(given.valid());
  CHECK(shared.valid());
  nothing.set_value();
  number.set_value(1);
  CHECK_FALSE(all.is_ready());
  text.set_value("two");
  CHECK(all.is_ready());
  auto [a, b, c] = all.get();
  CHECK(a.get() == 1);
  CHECK(b.get() == "two");
  c.get();
}

TEST_CASE("when_all: of a vector and of iterators, in any order, with errors inside") {
  for (const bool backwards : {false, true}) {
    promised p(10);
    async::future<std::vector<async::future<int>>> all =
        backwards ? async::when_all(std::move(p.futures)) : async::when_all(p.futures.begin(), p.futures.end());
    for (std::size_t i = 0; i < 10; ++i) {
      CHECK_FALSE(all.is_ready());
      const std::size_t n = backwards ? 9 - i : i;
      if (n == 5) {
        p.promises[n].set_exception(std::make_exception_ptr(std::runtime_error("five")));
      } else {
        p.promises[n].set_value(static_cast<int>(n));
      }
    }
    REQUIRE(all.is_ready());
    std::vector<async::future<int>> each = all.get();
    for (std::size_t i = 0; i < 10; ++i) {
      if (i == 5) {
        CHECK_THROWS_WITH_AS(each[i].get(), "five", std::runtime_error);
      } else {
        CHECK(each[i].get() == static_cast<int>(i));
      }
    }
  }
}

TEST_CASE("when_all, when_any: of nothing, of what is ready, of futures without state") {
  CHECK(async::when_all().is_ready());
  CHECK(async::when_all(std::vector<async::future<int>>()).get().empty());
  CHECK(async::when_any().get().index == static_cast<std::size_t>(-1));
  CHECK(async::when_any(std::vector<async::future<int>>()).get().index == static_cast<std::size_t>(-1));
  CHECK(std::get<0>(async::when_all(async::make_ready_future(3)).get()).get() == 3);
  auto any = async::when_any(async::promise<int>().get_future(), async::make_ready_future(4));
  CHECK(any.is_ready());
  CHECK_THROWS_AS(async::when_all(async::future<int>()), std::future_error);
  CHECK_THROWS_AS(async::when_any(async::future<int>()), std::future_error);
}

TEST_CASE("when_any: ready with the first, and the others go on") {
  for (std::size_t first = 0; first < 3; ++first) {
    promised p(3);
    auto any = async::when_any(std::move(p.futures));
    CHECK_FALSE(any.is_ready());
    p.promises[first].set_value(7);
    REQUIRE(any.is_ready());
    async::when_any_result<std::vector<async::future<int>>> found = any.get();
    CHECK(found.index == first);
    CHECK(found.futures[first].get() == 7);
    const std::size_t other = (first + 1) % 3;
    CHECK_FALSE(found.futures[other].is_ready());
    p.promises[other].set_value(8);
    CHECK(found.futures[other].get() == 8);
  }
}

TEST_CASE("when_any: of many copies of one shared future takes a time in proportion to their number") {
  auto best = std::chrono::steady_clock::duration::max();  // of several: the machine may have other work
  for (int i = 0; i < 20 && best >= 500ms; ++i) {
    async::promise<void> never, last;
    std::vector<async::shared_future<void>> copies(50'000, never.get_future().share());
    copies.emplace_back(last.get_future());
    async::future<std::size_t> first =
        async::when_any(std::move(copies)).then([](auto found) { return found.get().index; });
    const auto before = std::chrono::steady_clock::now();
    last.set_value();
    CHECK(first.get() == 50'000);
    best = (std::min)(best, std::chrono::steady_clock::now() - before);
  }
  CHECK(best < 500ms);  // a few ms; seconds with a square
}

TEST_CASE("when_any: the calls that lost can be cancelled") {
  async::threadpool pool(1);
  std::promise<void> go;
  async::future<int> blocks = pool.post([f = go.get_future()]() mutable {
    f.wait();
    return 1;
  });
  std::atomic<bool> was_called{false};
  async::future<int> loses = pool.post([&was_called] {
    was_called = true;
    return 2;
  });
  auto found = async::when_any(async::make_ready_future(0), std::move(loses)).get();
  CHECK(found.index == 0);
  CHECK(std::get<1>(found.futures).cancel());
  go.set_value();
  CHECK(blocks.get() == 1);
  pool.wait_idle();
  CHECK_FALSE(was_called);
}

TEST_CASE("when_all and when_any of calls on a pool, from outside, in a task of one worker, and continued") {
  for (const std::size_t threads : {1U, 3U}) {
    async::threadpool pool(threads);
    const auto work = [&pool] {
      std::vector<async::future<int>> calls;
      for (int i = 0; i < 100; ++i) calls.push_back(pool.post([i] { return i; }));
      int sum = 0;
      for (auto& each : async::when_all(std::move(calls)).get()) sum += each.get();
      auto any = async::when_any(pool.post([] { return 1; }), pool.post([] { return 2; })).get();
      async::future<int> later =
          async::when_all(pool.post([] { return 3; }), pool.post([] { return 4; })).then(pool, [](auto both) {
            auto [a, b] = both.get();
            return a.get() + b.get();
          });
      return sum + later.get() + (any.index < 2 ? 1 : 0);
    };
    CHECK(work() == 4'958);
    for (std::size_t i = 0; i < testing::rounds(100); ++i) REQUIRE(pool.post(work).get() == 4'958);
  }
}

TEST_CASE("when_any: threads that make its futures ready at the same time") {
  for (std::size_t round = 0; round < testing::rounds(1'000); ++round) {
    promised p(4);
    std::atomic<bool> go{false};
    std::vector<std::thread> setters;
    for (std::size_t t = 0; t < 2; ++t) {
      setters.emplace_back([&p, &go, t] {
        while (!go) std::this_thread::yield();
        p.promises[t].set_value(static_cast<int>(t));
        p.promises[t + 2].set_value(static_cast<int>(t + 2));
      });
    }
    go = true;
    auto found = async::when_any(std::move(p.futures)).get();
    REQUIRE(found.futures[found.index].is_ready());
    int sum = 0;
    for (auto& each : found.futures) sum += each.get();
    REQUIRE(sum == 6);
    for (std::thread& t : setters) t.join();
  }
}

TEST_CASE("when_all, when_any: a future without a state is refused, and the others are not taken") {
  const auto refuses = [](auto combine) {
    promised of(1);
    CHECK_THROWS_AS(combine(of.futures[0], async::future<int>()), std::future_error);
    CHECK(of.futures[0].valid());
  };
  refuses([](auto& a, auto&& b) { return async::when_all(std::move(a), std::move(b)); });
  refuses([](auto& a, auto&& b) { return async::when_any(std::move(a), std::move(b)); });
}

TEST_CASE("when_all, when_any: a vector with a future without a state stays whole") {
  promised of(1);
  std::vector<async::shared_future<int>> shared{of.futures[0].share(), {}};
  std::vector<async::future<int>> futures(1);
  CHECK_THROWS_AS(async::when_all(std::move(shared)), std::future_error);
  CHECK(shared.size() == 2);
  CHECK_THROWS_AS(async::when_any(std::move(shared)), std::future_error);
  CHECK(shared.size() == 2);
  CHECK_THROWS_AS(async::when_all(std::move(futures)), std::future_error);
  CHECK(futures.size() == 1);
  shared.pop_back();
  auto copied = async::when_all(shared);
  CHECK(shared.size() == 1);
  auto moved = async::when_any(std::move(shared));
  CHECK(shared.empty());
  of.promises[0].set_value(1);
  CHECK(copied.get()[0].get() == 1);
  CHECK(moved.get().futures[0].get() == 1);
}

TEST_CASE("when_all, when_any: a future that is named twice and given away is refused") {
  promised of(2);
  async::future<int>& first = of.futures[0];
  CHECK_THROWS_AS(async::when_all(std::move(first), std::move(first)), std::future_error);
  CHECK_THROWS_AS(async::when_any(std::move(first), std::move(first)), std::future_error);
  CHECK(first.valid());
  const async::shared_future<int> shared = first.share();
  async::shared_future<int> given = shared;
  CHECK_THROWS_AS(async::when_all(given, std::move(given)), std::future_error);
  CHECK(given.valid());
  auto twice = async::when_all(shared, shared);
  of.promises[0].set_value(1);
  CHECK(std::get<1>(twice.get()).get() == 1);
}
