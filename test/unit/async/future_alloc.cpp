// SPDX-License-Identifier: BSL-1.0
//
// Memory of async::future: what is allocated, and what is left when an allocation fails.
#include <doctest/doctest.h>

#include <cstddef>
#include <exception>
#include <future>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "async/async.hpp"
#include "support/alloc_counter.hpp"

namespace {

/// Calls f() with each of its allocations failing in turn; f() must work at last.
template <class F>
std::size_t fail_each(F f) {
  for (std::size_t k = 0;; ++k) {
    testing::fail_alloc failing(k);
    try {
      f();
    } catch (const std::bad_alloc&) {
      continue;
    }
    if (!failing.has_failed()) return k;
  }
}

}  // namespace

TEST_CASE("async::future: call, state and result take one recycled block, and so do promise and then()") {
  async::threadpool pool(1);
  pool.post([&pool] {
        const auto work = [&pool] {
          async::future<std::size_t> length = pool.post([](const std::string& s) { return s.size(); }, "four");
          CHECK(length.get() == 4);
          async::promise<int> promise;
          async::future<int> next = promise.get_future().then([](async::future<int> f) { return f.get() + 1; });
          promise.set_value(1);
          CHECK(next.get() == 2);
        };
        work();
        const testing::alloc_counter counter;
        work();
        CHECK(counter.calls() == 0);
      })
      .get();
}

TEST_CASE("async::future: continuations that are cancelled keep nothing in a result that is not ready, in any order") {
  async::promise<int> promise;
  async::shared_future<int> source = promise.get_future().share();
  const auto come_and_go = [&source](std::size_t count) {
    std::vector<async::future<int>> waiting;
    for (std::size_t i = 0; i < count; ++i) {
      waiting.push_back(async::shared_future<int>(source).then([](async::shared_future<int> f) { return f.get(); }));
    }
    std::size_t cancelled = 0;
    for (std::size_t i = 0; i < count; ++i) cancelled += waiting[i * 7 % count].cancel();  // 7 does not divide it
    CHECK(cancelled == count);
  };
  come_and_go(1'000);
  const testing::alloc_counter of_errors;
  for (int i = 0; i < 20'000; ++i) {  // a cancelled call has one
    static_cast<void>(std::make_exception_ptr(std::future_error(std::future_errc::broken_promise)));
  }
  const std::size_t errors = of_errors.calls();
  const testing::alloc_counter counter;
  for (int i = 0; i < 20; ++i) come_and_go(1'000);
  CHECK(counter.calls() <= errors + 2'000);  // and the vectors'
  promise.set_value(1);
}

TEST_CASE("async::future: a large value fails to be allocated, and nothing is lost") {
  struct large {
    char bytes[20'000];
  };
  CHECK(fail_each([] {
          async::promise<large> promise;
          async::future<large> future = promise.get_future();
          promise.set_value({});
          static_cast<void>(future.get());
        }) > 0);
}

TEST_CASE("async::future: then() that cannot be allocated leaves the future as it was") {
  struct large {
    char bytes[20'000];
  };
  async::promise<int> promise;
  async::future<int> future = promise.get_future();
  const auto value = std::make_shared<int>(1);
  {
    const testing::fail_alloc failing(0);
    CHECK_THROWS_AS(std::move(future).then([value, unused = large()](async::future<int>) { return unused; }),
                    std::bad_alloc);
  }
  CHECK(value.use_count() == 1);
  CHECK(future.valid());
  promise.set_value(4);
  CHECK(future.get() == 4);
}

TEST_CASE("async::future: a conversion from std::future that cannot be allocated leaves that as it was") {
  std::promise<int> promise;
  std::future<int> foreign = promise.get_future();
  const std::size_t failed = fail_each([&foreign] {
    try {
      const async::future<int> future(std::move(foreign));
    } catch (...) {
      CHECK(foreign.valid());
      throw;
    }
  });
  CHECK(failed > 0);
  promise.set_value(1);
}

TEST_CASE("when_any: a long-lived future keeps nothing of the calls that it lost") {
  async::promise<void> end;
  const async::shared_future<void> ends = end.get_future().share();
  const auto lose = [&ends](int times) {
    for (int i = 0; i < times; ++i) {
      async::promise<int> p;
      auto any = async::when_any(ends, p.get_future());
      p.set_value(i);
      REQUIRE(any.get().index == 1);
    }
  };
  lose(100);
  const std::size_t before = testing::alloc::live;
  lose(1'000);
  CHECK(testing::alloc::live <= before);  // fewer if a thread of an earlier case ends meanwhile
  end.set_value();
}

TEST_CASE("when_all, when_any: long-lived futures keep nothing of those that are cancelled or dropped, in any order") {
  async::promise<int> end, other;
  const async::shared_future<int> ends = end.get_future().share();
  const async::shared_future<int> others = other.get_future().share();
  const auto come_and_go = [&](std::size_t times, auto combine) {
    for (std::size_t i = 0; i < times; ++i) {
      const auto cancelled = combine();
      const auto dropped = combine();
      const auto both = combine();
      CHECK(cancelled.cancel());
      if (i % 2 == 0) CHECK(both.cancel());
    }
  };
  const auto keeps_nothing = [&](auto combine) {
    come_and_go(100, combine);
    const std::size_t before = testing::alloc::live;
    come_and_go(10'000, combine);
    CHECK(testing::alloc::live <= before);  // as above
  };
  keeps_nothing([&] { return async::when_any(ends, others); });
  keeps_nothing([&] { return async::when_all(ends, others); });
  keeps_nothing([&] { return async::when_any(std::vector<async::shared_future<int>>{ends, others, ends}); });
  keeps_nothing([&] { return async::when_all(std::vector<async::shared_future<int>>{others, ends, others}); });
  keeps_nothing([&] { return async::when_all(async::make_ready_future(1), ends); });
  keeps_nothing([&] { return async::when_all(async::when_any(ends, others), ends); });
  end.set_value(1);
}

#if ASYNCSTEPS_CALL_STATE != 0  // else libstdc++ ends the program when a std::promise gets no memory for its value
TEST_CASE("async::future: a conversion to std::future that cannot be allocated leaves the future as it was") {
  struct large {
    char bytes[20'000];
  };
  async::threadpool pool(1);
  async::future<large> future;
  const std::size_t failed = fail_each([&] {
    // Again after a round that succeeded, in which an allocation failed that is not needed.
    if (!future.valid()) future = pool.post([] { return large(); });
    try {
      std::future<large> made = std::move(future);
      static_cast<void>(made.get());
    } catch (const std::bad_alloc&) {
      CHECK(future.valid());
      throw;
    }
  });
  CHECK(failed > 0);

  async::future<std::unique_ptr<int>> ready;
  const std::size_t failed_ready = fail_each([&ready] {
    if (!ready.valid()) ready = async::make_ready_future(std::make_unique<int>(5));
    std::future<std::unique_ptr<int>> made;
    try {
      made = std::move(ready);
    } catch (const std::bad_alloc&) {
      const auto other = async::make_ready_future(std::make_unique<int>(6));  // in a block that is free
      throw;
    }
    CHECK(*made.get() == 5);
  });
  CHECK(failed_ready > 0);
}
#endif

TEST_CASE("async::future: cancel() without memory for an exception drops the call; get() throws what there is") {
  async::threadpool paused(0);
  const auto captured = std::make_shared<int>(1);
  async::future<int> call = paused.post([captured] { return *captured; });
  {
    const testing::fail_alloc failing(0);
    CHECK(call.cancel());
  }
  CHECK(captured.use_count() == 1);
  CHECK(call.has_exception());
  try {
    call.get();
    FAIL("no error");
  } catch (const std::bad_alloc&) {
  } catch (const async::dropped_call& error) {  // the standard library has memory of its own
    CHECK(error.why() == async::dropped_call::reason::cancelled);
  }
}
