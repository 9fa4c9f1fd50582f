// SPDX-License-Identifier: BSL-1.0
//
// async::future in programs that were written for std::future, and the other way round.
#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <future>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "async/async.hpp"
#include "async/detail/base/platform.hpp"
#include "support/live_count.hpp"
#include "support/scale.hpp"

namespace {

using namespace std::chrono_literals;

int sum_of(std::vector<std::future<int>>& all) {
  int sum = 0;
  for (std::future<int>& each : all) sum += each.get();
  return sum;
}

/// Also the name of a function of the library's.
template <class Future>
bool is_ready(const Future& f) {
  return f.wait_for(0s) == std::future_status::ready;
}

/// Can be moved so many times; the next move throws.
struct fragile : testing::live_count<fragile> {
  explicit fragile(int times) noexcept : moves(times) {}
  fragile(fragile&& other) noexcept(false) : live_count(other), moves(other.moves - 1) {
    if (moves < 0) throw std::runtime_error("moved");
  }
  int moves;
};

std::future<int> returned(async::threadpool& pool) {
  return pool.post([] { return 4; });
}

}  // namespace

TEST_CASE("a std::future takes what post() returns: in variables, members, containers, arguments and results") {
  async::threadpool pool(2);
  std::future<int> one = pool.post([] { return 1; });
  CHECK(one.get() == 1);
  one = pool.post([] { return 2; });
  CHECK(one.get() == 2);
  std::vector<std::future<int>> all;
  all.push_back(pool.post([] { return 1; }));
  all.emplace_back(pool.post([] { return 2; }));
  CHECK(sum_of(all) == 3);
  std::map<int, std::future<int>> by_number;
  by_number[1] = pool.post([] { return 3; });
  by_number.emplace(2, pool.post([] { return 4; }));
  CHECK(by_number[1].get() + by_number[2].get() == 7);
  CHECK(returned(pool).get() == 4);
  const std::future<void> dropped = pool.post([] {});
  struct {
    std::future<std::string> text;
  } object{pool.post([] { return std::string("member"); })};
  CHECK(object.text.get() == "member");
  int number = 1;
  std::future<int&> reference = pool.post([&number]() -> int& { return number; });
  CHECK(&reference.get() == &number);
  std::future<std::unique_ptr<int>> owned = pool.post([] { return std::make_unique<int>(5); });
  CHECK(*owned.get() == 5);
}

TEST_CASE("a std::shared_future takes it, too") {
  async::threadpool pool(2);
  std::shared_future<int> one = pool.post([] { return 1; });
  std::shared_future<int> two = pool.post([] { return 2; }).share();
  std::shared_future<int> three(pool.post([] { return 3; }));
  std::vector<std::shared_future<int>> all{one, two, three};
  all.push_back(pool.post([] { return 4; }));
  int sum = 0;
  for (const auto& each : all) sum += each.get();
  CHECK(sum == 10);
}

TEST_CASE("a std::shared_future of a shared future has a copy of the value, the same object or the error") {
  async::promise<std::vector<int>> promise;
  const async::shared_future<std::vector<int>> shared = promise.get_future();
  const std::shared_future<std::vector<int>> copy = shared;
  CHECK(copy.wait_for(0s) == std::future_status::timeout);
  promise.set_value({1, 2, 3});
  CHECK(copy.get() == shared.get());
  CHECK(&copy.get() != &shared.get());
  int number = 1;
  async::promise<int&> reference;
  const async::shared_future<int&> refers = reference.get_future();
  const std::shared_future<int&> same = refers;
  reference.set_value(number);
  CHECK(&same.get() == &number);
  const async::shared_future<void> failed =
      async::make_exceptional_future<void>(std::make_exception_ptr(std::runtime_error("why")));
  const std::shared_future<void> fails = failed;
  CHECK_THROWS_WITH_AS(fails.get(), "why", std::runtime_error);
  const std::shared_future<int> none = async::shared_future<int>();
  CHECK_FALSE(none.valid());
  std::shared_future<std::unique_ptr<int>> owned = async::make_ready_future(std::make_unique<int>(5));
  CHECK(*owned.get() == 5);
}

TEST_CASE("a std::future of a std::future takes a call that posts a call, and one that returns a std::future") {
  async::threadpool pool(2);
  std::future<std::future<int>> posts = pool.post([&pool] { return pool.post([] { return 1; }); });
  CHECK(posts.get().get() == 1);
  std::future<std::shared_future<int>> shares = pool.post([&pool] { return pool.post([] { return 2; }).share(); });
  CHECK(shares.get().get() == 2);
  std::future<std::future<std::future<int>>> deep =
      pool.post([&pool] { return pool.post([&pool] { return pool.post([] { return 3; }); }); });
  CHECK(deep.get().get().get() == 3);
  std::future<std::future<int>> calls = pool.post([] { return async::async([] { return 4; }); });
  CHECK(calls.get().get() == 4);
  async::future<std::future<int>> back(
      std::async(std::launch::async, [] { return std::async(std::launch::deferred, [] { return 5; }); }));
  CHECK(back.get().get() == 5);
  std::future<std::future<int>> broken = pool.post([&pool]() -> async::future<int> {
    if (pool.size() != 0) throw std::runtime_error("why");
    return {};
  });
  CHECK_THROWS_WITH_AS(broken.get(), "why", std::runtime_error);
  std::future<std::future<int>> none = async::future<async::future<int>>();
  CHECK_FALSE(none.valid());
}

TEST_CASE("a std::future made of a future that has a value, an error or nothing") {
  std::future<int> ready = async::make_ready_future(1);
  CHECK(ready.wait_for(0s) == std::future_status::ready);
  CHECK(ready.get() == 1);
  std::future<int> failed = async::make_exceptional_future<int>(std::make_exception_ptr(std::runtime_error("why")));
  CHECK_THROWS_WITH_AS(failed.get(), "why", std::runtime_error);
  std::future<int> none = async::future<int>();
  CHECK_FALSE(none.valid());
  async::promise<int> promise;
  std::future<int> broken = promise.get_future();
  promise = {};
  CHECK_THROWS_AS(broken.get(), std::future_error);
}

#if !defined(_WIN32) || ASYNCSTEPS_CALL_STATE != 0  // there std::promise is not usable after a value has thrown
TEST_CASE("a std::future throws what a move of its value throws, at any of the moves, and nothing of it is left") {
  async::threadpool pool(2);
  int values = 0;
  for (int moves = 0; moves < 8; ++moves) {
    std::future<fragile> future = pool.post([moves] { return fragile(moves); });
    try {
      static_cast<void>(future.get());
      ++values;
    } catch (const std::runtime_error& e) {
      CHECK(std::string(e.what()) == "moved");
    } catch (const std::future_error&) {
      CHECK_FALSE((ASYNCSTEPS_CALL_STATE != 0 || async::detail::call_once_may_throw));
    }
  }
  CHECK(values > 0);
  CHECK(values < 8);
  pool.wait_idle();
  CHECK(fragile::live() == 0);
}
#endif

TEST_CASE("a std::future of a call helps in tasks: on one worker, to any depth") {
  async::threadpool pool(1);
  struct nested {
    async::threadpool& pool;
    int operator()(int n) const {
      if (n == 0) return 0;
      std::future<int> below = pool.post(*this, n - 1);
      return 1 + (ASYNCSTEPS_CALL_STATE == 1 && n % 2 == 0 ? below.get() : pool.wait(below));  // see call_state.hpp
    }
  };
  CHECK(pool.post(nested{pool}, 100).get() == 100);
  for (std::size_t i = 0; i < testing::rounds(1'000); ++i) {
    std::future<int> outside = pool.post([] { return 1; });
    REQUIRE(outside.get() == 1);
  }
}

TEST_CASE("a std::future that becomes ready while it is waited for, from several sides") {
  async::threadpool pool(2);
  for (std::size_t i = 0; i < testing::rounds(500); ++i) {
    std::shared_future<int> shared = pool.post([] { return 1; }).share();
    async::future<int> a = pool.post([shared] { return shared.get(); });
    async::future<int> b = pool.post([shared] { return shared.get(); });
    REQUIRE(a.get() + b.get() + shared.get() == 3);
  }
}

TEST_CASE("an async::future of a std::future: ready, later, deferred, with an error, of async::async") {
  std::promise<int> promise;
  async::future<int> later(promise.get_future());
  CHECK_FALSE(later.is_ready());
  async::future<int> next = std::move(later).then([](async::future<int> f) { return f.get() + 1; });
  promise.set_value(1);
  CHECK(next.get() == 2);
  std::promise<std::string> set;
  set.set_value("now");
  async::future<std::string> now(set.get_future());
  CHECK(now.is_ready());
  CHECK(now.get() == "now");
  async::future<int> lazy(std::async(std::launch::deferred, [] { return 3; }));
  CHECK(lazy.get() == 3);
  async::future<void> failed(std::async(std::launch::async, [] { throw std::runtime_error("why"); }));
  CHECK_THROWS_WITH_AS(failed.get(), "why", std::runtime_error);
  async::future<int> own;
  own = async::async([] { return 5; });
  CHECK(own.get() == 5);
  async::future<int> none{std::future<int>()};
  CHECK_FALSE(none.valid());
  async::threadpool pool(1);
  CHECK(pool.post([] {
              async::future<int> f(async::async([] { return 6; }));
              return f.get();
            })
            .get() == 6);
}

TEST_CASE("post() beside std::async: in a conditional expression, and assigned to one variable") {
  async::threadpool pool(1);
  const auto one = [] { return 1; };
  for (const bool on_pool : {true, false}) {
    std::future<int> chosen = on_pool ? pool.post(one) : std::async(std::launch::deferred, one);
    CHECK(chosen.get() == 1);
    auto mine = pool.post(one);
    if (!on_pool) mine = std::async(std::launch::deferred, one);
    CHECK(mine.get() == 1);
    mine = {};
    CHECK_FALSE(mine.valid());
  }
}

TEST_CASE("a function template of the user's takes futures of this library as it takes those of the standard") {
  async::future<int> own = async::make_ready_future(1);
  const async::shared_future<int> shared = async::make_ready_future(2);
  CHECK(is_ready(own));
  CHECK(is_ready(shared));
  const std::future<int> standard = std::move(own);
  CHECK(is_ready(standard));
}

TEST_CASE("many std::futures are waited for at once") {
  std::vector<std::promise<int>> promises(200);
  std::vector<async::future<int>> futures;
  for (auto& p : promises) futures.emplace_back(p.get_future());
  std::thread setter([&promises] {
    for (auto& p : promises) p.set_value(1);
  });
  int sum = 0;
  for (auto& f : futures) sum += f.get();
  setter.join();
  CHECK(sum == 200);
}
