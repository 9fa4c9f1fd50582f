// SPDX-License-Identifier: BSL-1.0
//
// co_await of async::future in coroutines of any kind.
#include <doctest/doctest.h>

#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

#include "async/async.hpp"
#include "support/scale.hpp"
#include "support/walker.hpp"

using testing::walker;

namespace {

walker add(async::future<int> future, int& to) { to += co_await std::move(future); }

walker add_shared(async::shared_future<int> future, int& to) {
  to += co_await future;
  to += co_await future;
}

walker catches(async::future<void> future, bool& caught) {
  try {
    co_await std::move(future);
  } catch (const std::runtime_error&) {
    caught = true;
  }
}

walker holds(async::future<int> future, std::shared_ptr<int> value, int& to) {
  to = *value + co_await std::move(future);
}

/// Destroys another coroutine when it has the value.
walker destroys(async::shared_future<int> future, std::optional<walker>& other) {
  co_await future;
  other.reset();
}

}  // namespace

TEST_CASE("co_await: a coroutine resumes with the value, in the call that makes the future ready") {
  async::promise<int> promise;
  int sum = 1;
  const walker one = add(promise.get_future(), sum);
  CHECK(sum == 1);
  promise.set_value(2);
  CHECK(sum == 3);
  CHECK(one.handle.done());
  const walker two = add(async::make_ready_future(4), sum);
  CHECK(sum == 7);
}

TEST_CASE("co_await: exceptions are thrown in the coroutine") {
  bool caught = false;
  async::promise<void> promise;
  const walker one = catches(promise.get_future(), caught);
  promise.set_exception(std::make_exception_ptr(std::runtime_error("why")));
  CHECK(caught);
}

TEST_CASE("co_await: several coroutines await a shared future, each more than once") {
  async::promise<int> promise;
  const async::shared_future<int> shared = promise.get_future().share();
  int sum = 0;
  const walker one = add_shared(shared, sum);
  const walker two = add_shared(shared, sum);
  promise.set_value(3);
  CHECK(sum == 12);
}

TEST_CASE("co_await: a coroutine that is destroyed while it waits is not resumed, and drops the future") {
  async::promise<int> promise;
  const auto value = std::make_shared<int>(1);
  int sum = 0;
  {
    const walker one = holds(promise.get_future(), value, sum);
    CHECK(value.use_count() == 2);
  }
  CHECK(value.use_count() == 1);
  promise.set_value(3);
  CHECK(sum == 0);
}

TEST_CASE("co_await: a coroutine, or a continuation, destroys others that await the same future") {
  constexpr std::size_t count = 5;
  for (std::size_t victim = 0; victim < count; ++victim) {
    for (std::size_t second = 0; second < count; ++second) {
      for (std::size_t by = 0; by < count; ++by) {
        if (by == victim || by == second) continue;
        CAPTURE(victim);
        CAPTURE(second);
        CAPTURE(by);
        async::promise<int> promise;
        const async::shared_future<int> future = promise.get_future().share();
        std::optional<walker> others[count], also;
        int sums[count]{};
        const auto kill = [&] {
          others[victim].reset();
          others[second].reset();
        };
        for (std::size_t i = 0; i < count; ++i) {
          if (i != by) others[i].emplace(add_shared(future, sums[i]));
          if (i == by) static_cast<void>(future.then([kill](const async::shared_future<int>&) { kill(); }));
          if (i == by) also.emplace(destroys(future, others[victim]));
        }
        promise.set_value(4);
        for (std::size_t i = 0; i < count; ++i) {
          if (i != victim && i != second && i != by) CHECK(sums[i] == 8);
        }
        CHECK(!others[victim].has_value());
      }
    }
  }
}

TEST_CASE("co_await: an exception that resumes a coroutine does not leave its groups") {
  struct failed {};
  int ran = 0;
  async::threadpool pool(0);
  const auto use_group = [&pool, &ran](auto wait) -> walker {
    async::task_group group(pool);
    co_await wait();
    for (int i = 0; i != 8; ++i) group.run([&ran] { ++ran; });
  };
  std::optional<walker> kept;
  const auto resume_in_unwinding = [&](auto wait, auto resume) {
    struct resumes {
      decltype(resume)& at_end;
      ~resumes() { at_end(); }
    };
    const auto leave = [&] {
      const resumes later{resume};
      kept.emplace(use_group(wait));
      throw failed();
    };
    CHECK_THROWS_AS(leave(), failed);
  };
  SUBCASE("of a future, by the end of its promise") {
    auto promise = std::make_unique<async::promise<void>>();
    resume_in_unwinding([&] { return promise->get_future().then([](async::future<void>) {}); },
                        [&] { promise.reset(); });
  }
  SUBCASE("of a queue, by an enqueue in a destructor") {
    async::queue<int> queue;
    resume_in_unwinding([&] { return queue.pop(); }, [&] { queue.enqueue(1); });
  }
  SUBCASE("of an event, set in a destructor") {
    async::event event;
    resume_in_unwinding([&] { return event.on_set(); }, [&] { event.set(); });
  }
  CHECK(ran == 8);
}

TEST_CASE("co_await: of calls in a pool") {
  async::threadpool pool(2);
  for (std::size_t i = 0; i < testing::rounds(1'000); ++i) {
    int sum = 1;
    async::future<int> call = pool.post([] { return 2; });
    const walker one = add(std::move(call), sum);
    pool.wait_idle();
    REQUIRE(sum == 3);
  }
}
