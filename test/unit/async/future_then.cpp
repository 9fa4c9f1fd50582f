// SPDX-License-Identifier: BSL-1.0
//
// Continuations of async::future, and futures that are cancelled.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "async/async.hpp"
#include "support/live_count.hpp"
#include "support/pause_thread.hpp"
#include "support/scale.hpp"
#include "support/thrown.hpp"

using testing::is_broken;

namespace {

using namespace std::chrono_literals;

/// A worker that is busy while this lives.
class busy_worker {
 public:
  explicit busy_worker(async::threadpool& pool) {
    std::promise<void> begun;
    std::future<void> has_begun = begun.get_future();
    pool.execute([until = go_.get_future(), begun = std::move(begun)]() mutable {
      begun.set_value();
      until.wait();
    });
    has_begun.wait();
  }
  ~busy_worker() { go_.set_value(); }

 private:
  std::promise<void> go_;
};

}  // namespace

TEST_CASE("then: f gets the ready future, on the thread that makes it ready") {
  async::promise<int> promise;
  std::thread::id where;
  async::future<std::string> text = promise.get_future().then([&where](async::future<int> ready) {
    where = std::this_thread::get_id();
    CHECK(ready.is_ready());
    return std::to_string(ready.get());
  });
  CHECK_FALSE(text.is_ready());
  std::thread setter([&promise] { promise.set_value(7); });
  const std::thread::id other = setter.get_id();
  setter.join();
  CHECK(where == other);
  CHECK(text.get() == "7");
}

TEST_CASE("then: of a ready future, f runs at once") {
  const std::thread::id here = std::this_thread::get_id();
  async::future<int> future = async::make_ready_future(1);
  async::future<bool> same =
      std::move(future).then([here](async::future<int>) { return std::this_thread::get_id() == here; });
  CHECK_FALSE(future.valid());
  CHECK(same.is_ready());
  CHECK(same.get());
}

TEST_CASE("then: exceptions go to f, and those of f to its future") {
  async::future<int> failed = async::make_exceptional_future<int>(std::make_exception_ptr(std::runtime_error("one")));
  async::future<std::string> text = std::move(failed).then([](async::future<int> f) {
    try {
      f.get();
    } catch (const std::runtime_error& e) {
      return std::string(e.what());
    }
    return std::string();
  });
  CHECK(text.get() == "one");
  async::future<void> thrown =
      async::make_ready_future().then([](async::future<void>) { throw std::logic_error("two"); });
  CHECK_THROWS_WITH_AS(thrown.get(), "two", std::logic_error);
  async::promise<int> promise;
  async::future<int> broken = promise.get_future().then([](async::future<int> f) { return f.get(); });
  promise = {};
  CHECK(is_broken(std::move(broken)));
}

TEST_CASE("then: takes void, references and move-only values and functions") {
  int number = 1;
  async::promise<int&> reference;
  async::future<int&> same = reference.get_future().then([](async::future<int&> f) -> int& { return f.get(); });
  reference.set_value(number);
  CHECK(&same.get() == &number);
  async::future<std::unique_ptr<int>> owned = async::make_ready_future().then(
      [two = std::make_unique<int>(2)](async::future<void>) mutable { return std::move(two); });
  CHECK(*owned.get() == 2);
}

TEST_CASE("then: a future that f returns is unwrapped") {
  async::promise<int> outer;
  async::promise<std::string> inner;
  auto text = outer.get_future().then([&inner](async::future<int>) { return inner.get_future(); });
  static_assert(std::is_same_v<decltype(text), async::future<std::string>>);
  outer.set_value(1);
  CHECK_FALSE(text.is_ready());
  inner.set_value("later");
  CHECK(text.is_ready());
  CHECK(text.get() == "later");

  auto failed = async::make_ready_future().then([](async::future<void>) {
    return async::make_exceptional_future<int>(std::make_exception_ptr(std::runtime_error("inner")));
  });
  CHECK_THROWS_WITH_AS(failed.get(), "inner", std::runtime_error);
  auto thrown = async::make_ready_future().then(
      [](async::future<void>) -> async::future<int> { throw std::runtime_error("no future"); });
  CHECK_THROWS_WITH_AS(thrown.get(), "no future", std::runtime_error);
  CHECK(is_broken(async::make_ready_future().then([](async::future<void>) { return async::future<int>(); })));
  auto shared =
      async::make_ready_future().then([](async::future<void>) { return async::make_ready_future(5).share(); });
  static_assert(std::is_same_v<decltype(shared), async::future<int>>);
  CHECK(shared.get() == 5);
}

TEST_CASE("then: a shared future that f returns is let go of when its result is passed on") {
  async::promise<void> outer;
  async::promise<std::shared_ptr<int>> inner;
  auto shared = std::make_optional(inner.get_future().share());
  const auto last = outer.get_future().then([&shared](async::future<void>) { return *shared; });
  outer.set_value();
  const auto value = std::make_shared<int>(1);
  inner.set_value(value);
  CHECK(last.is_ready());
  shared.reset();
  inner = {};
  CHECK(value.use_count() == 2);  // and the last one's
}

TEST_CASE("then: a shared future has any number of continuations") {
  async::promise<int> promise;
  const async::shared_future<int> shared = promise.get_future().share();
  std::vector<async::future<int>> all;
  for (int i = 0; i < 10; ++i) {
    all.push_back(shared.then([i](const async::shared_future<int>& f) { return f.get() + i; }));
  }
  promise.set_value(100);
  for (int i = 0; i < 10; ++i) CHECK(all[static_cast<std::size_t>(i)].get() == 100 + i);
}

TEST_CASE("then: in a pool, f runs there as a task") {
  async::threadpool pool(1);
  async::promise<int> promise;
  async::future<bool> inside = promise.get_future().then(
      pool, [&pool](async::future<int> f) { return f.get() == 3 && async::threadpool::current() == &pool; });
  promise.set_value(3);
  CHECK(inside.get());
  async::future<int> sum = pool.post([] { return 1; })
                               .then(pool, [](async::future<int> f) { return f.get() + 1; })
                               .then([](async::future<int> f) { return f.get() + 1; });
  CHECK(sum.get() == 3);
}

TEST_CASE("then: a pool that has stopped breaks the promise") {
  async::threadpool pool(1);
  async::promise<int> promise;
  async::future<int> late = promise.get_future().then(pool, [](async::future<int> f) { return f.get(); });
  pool.stop();
  promise.set_value(1);
  CHECK(is_broken(std::move(late)));
}

TEST_CASE("then: a chain of a million needs no stack, made before, made after, or dropped") {
  struct counted : testing::live_count<counted> {};
  const std::size_t length = testing::rounds(1'000'000);
  const auto next = [c = counted()](async::future<std::size_t> f) { return f.get() + 1; };
  const int before = counted::live();
  for (const bool is_ready_first : {true, false}) {
    async::promise<std::size_t> promise;
    async::future<std::size_t> last = promise.get_future();
    if (is_ready_first) promise.set_value(0);
    for (std::size_t i = 0; i < length; ++i) last = std::move(last).then(next);
    if (!is_ready_first) promise.set_value(0);
    CHECK(last.get() == length);
    CHECK(counted::live() == before);
  }
  {  // dropped: the futures have gone, and then the promise
    async::promise<std::size_t> promise;
    {
      async::future<std::size_t> last = promise.get_future();
      for (std::size_t i = 0; i < length; ++i) last = std::move(last).then(next);
    }
    CHECK(counted::live() == before + static_cast<int>(length));
  }
  CHECK(counted::live() == before);
}

TEST_CASE("then: a chain of a million on a pool that has stopped needs no stack") {
  struct counted : testing::live_count<counted> {};
  const int before = counted::live();
  async::threadpool pool(1);
  pool.stop();
  async::promise<int> promise;
  async::future<int> last = promise.get_future();
  for (std::size_t i = 0; i < testing::rounds(1'000'000); ++i) {
    last = std::move(last).then(pool, [c = counted()](async::future<int> f) { return f.get() + 1; });
  }
  promise.set_value(1);
  CHECK(is_broken(std::move(last)));
  CHECK(counted::live() == before);
}

TEST_CASE("then: a chain on a pool, and one of futures that are unwrapped") {
  async::threadpool pool(2);
  const std::size_t length = testing::rounds(10'000);
  async::future<std::size_t> last = pool.post([] { return std::size_t{0}; });
  for (std::size_t i = 0; i < length; ++i) {
    last = i % 2 == 0 ? std::move(last).then(pool, [](async::future<std::size_t> f) { return f.get() + 1; })
                      : std::move(last).then([&pool](async::future<std::size_t> f) {
                          return pool.post([n = f.get()] { return n + 1; });
                        });
  }
  CHECK(last.get() == length);
}

TEST_CASE("then: a task makes a call that returns a future while other actions of the source still run") {
  async::threadpool pool(1);
  async::promise<int> source, inner;
  std::atomic<bool> is_called{false};
  const async::shared_future<int> ready = source.get_future().share();
  async::future<int> last = ready.then([&](const async::shared_future<int>&) {
    is_called = true;
    return inner.get_future();
  });
  // The newest action runs first: the call's own comes when the task has made the call.
  async::future<void> before = ready.then([&](const async::shared_future<int>&) {
    while (!is_called) std::this_thread::yield();
    std::this_thread::sleep_for(1ms);  // until the call waits for `inner`, mostly
  });
  std::atomic<bool> has_begun{false};
  async::future<int> got = pool.post([&] {
    has_begun = true;
    return last.get();
  });
  while (!has_begun) std::this_thread::yield();
  source.set_value(1);
  CHECK(is_called);
  CHECK(before.is_ready());
  CHECK(got.wait_for(10ms) == std::future_status::timeout);
  inner.set_value(7);
  CHECK(got.get() == 7);
}

TEST_CASE("then: a continuation without a future may end before its task is posted to the end") {
  async::threadpool pool(4);
  const std::size_t length = testing::rounds(20'000);
  std::atomic<std::size_t> called{0};
  pool.post([&] {
        for (std::size_t i = 0; i < length; ++i) {
          async::promise<void> promise;
          static_cast<void>(promise.get_future().then(pool, [&called](async::future<void>) { ++called; }));
          promise.set_value();
        }
      })
      .get();
  pool.wait_idle();
  CHECK(called == length);
}

TEST_CASE("then: the pool may end when the returned future is ready, beside the thread that has made the other ready") {
  for (std::size_t round = testing::rounds(500); round != 0; --round) {
    std::optional<async::threadpool> pool(1);
    async::promise<int> promise;
    std::thread setter;
    std::atomic<bool> is_there{false};
    async::future<int> next = promise.get_future().then(*pool, [&setter](async::future<int> ready) {
      testing::pause_thread(setter);
      return ready.get() + 1;
    });
    setter = std::thread([&] {
      while (!is_there) std::this_thread::yield();
      promise.set_value(1);
    });
    while (round % 2 == 0 && pool->idlesize() == 0) std::this_thread::yield();  // in each other round the worker sleeps
    is_there = true;
    CHECK(next.get() == 2);
    pool.reset();
    setter.join();
  }
}

TEST_CASE("cancel: drops a call that has not begun, with its captures") {
  async::threadpool pool(1);
  std::atomic<bool> was_called{false};
  const auto value = std::make_shared<int>(1);
  async::future<void> future;
  {
    const busy_worker busy(pool);
    future = pool.post([&was_called, value] { was_called = true; });
    CHECK(future.cancel());
    CHECK(value.use_count() == 1);
    CHECK(future.is_ready());
    CHECK_FALSE(future.cancel());
  }
  CHECK(is_broken(std::move(future)));
  pool.wait_idle();
  CHECK_FALSE(was_called);
}

TEST_CASE("cancel: leaves calls that have begun, results and promises alone") {
  async::threadpool pool(1);
  async::future<int> done = pool.post([] { return 1; });
  done.wait();
  CHECK_FALSE(done.cancel());
  CHECK(done.get() == 1);
  async::promise<int> promise;
  async::future<int> future = promise.get_future();
  CHECK_FALSE(future.cancel());
  promise.set_value(2);
  CHECK(future.get() == 2);
}

TEST_CASE("cancel: of a continuation, f is not called, and continuations of it see that") {
  async::promise<int> promise;
  bool was_called = false;
  const auto value = std::make_shared<int>(1);
  async::future<void> next = promise.get_future().then([&was_called, value](async::future<int>) { was_called = true; });
  CHECK(next.cancel());
  CHECK(value.use_count() == 1);
  async::future<bool> last = std::move(next).then([](async::future<void> f) { return is_broken(std::move(f)); });
  CHECK(last.get());
  promise.set_value(1);
  CHECK_FALSE(was_called);
}

TEST_CASE("cancel: of a call whose captures own its future") {
  struct owner : testing::live_count<owner> {
    async::future<void> own;
  };
  const auto cancel_of = [](auto make) {
    auto shared = std::make_shared<owner>();
    owner& kept = *shared;
    kept.own = make([shared](auto&&...) {});
    shared.reset();
    CHECK(owner::live() == 1);
    CHECK(kept.own.cancel());
    CHECK(owner::live() == 0);
  };
  async::threadpool pool(0);
  async::promise<int> first;
  async::promise<int> second;
  cancel_of([&](auto f) { return pool.post(f); });
  cancel_of([&](auto f) { return first.get_future().then(f); });
  cancel_of([&](auto f) { return second.get_future().then(pool, f); });
}

TEST_CASE("cancel: a call and the thread that takes it agree") {
  async::threadpool pool(1);
  for (std::size_t i = 0; i < testing::rounds(20'000); ++i) {
    std::atomic<bool> was_called{false};
    async::future<int> future = pool.post([&was_called] {
      was_called = true;
      return 1;
    });
    const bool dropped = future.cancel();
    if (dropped) {
      REQUIRE(is_broken(std::move(future)));
    } else {
      REQUIRE(future.get() == 1);
    }
    REQUIRE(was_called == !dropped);
  }
}

#if defined(__cpp_lib_jthread)
TEST_CASE("cancel: of a running call whose reaction destroys the future") {
  async::threadpool pool(1);
  auto held = std::make_unique<async::future<void>>();
  async::future<void>& kept = *held;
  std::promise<void> has_begun;
  std::promise<void> has_ended;
  kept = pool.post([&](std::stop_token stop) {
    const std::stop_callback drop(stop, [&held] { held.reset(); });
    has_begun.set_value();
    while (!stop.stop_requested()) std::this_thread::yield();
    has_ended.set_value();
  });
  has_begun.get_future().wait();
  CHECK_FALSE(kept.cancel());
  has_ended.get_future().wait();
  CHECK(held == nullptr);
}

TEST_CASE("cancel: a running call with a std::stop_token is requested to stop") {
  async::threadpool pool(1);
  std::atomic<bool> has_begun{false};
  async::future<int> future = pool.post(
      [&has_begun](std::stop_token token, int n) {
        has_begun = true;
        while (!token.stop_requested()) std::this_thread::yield();
        return n;
      },
      5);
  while (!has_begun) std::this_thread::yield();
  CHECK_FALSE(future.cancel());
  CHECK(future.get() == 5);
  // A call that needs no token gets none.
  CHECK(pool.post([](auto... all) { return sizeof...(all); }, 1, 2).get() == 2);
}
#endif

TEST_CASE("futures that are destroyed before their calls are made, and while these run") {
  const auto value = std::make_shared<int>(1);
  std::atomic<int> calls{0};
  {
    async::threadpool pool(2);
    for (std::size_t i = 0; i < testing::rounds(2'000); ++i) {
      pool.post([value, &calls] { ++calls; });
      static_cast<void>(
          pool.post([value, &calls] { return ++calls; }).then([value](async::future<int> f) { f.get(); }));
    }
  }
  CHECK(calls == 2 * static_cast<int>(testing::rounds(2'000)));
  CHECK(value.use_count() == 1);
}
