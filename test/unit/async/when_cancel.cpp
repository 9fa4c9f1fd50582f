// SPDX-License-Identifier: BSL-1.0
//
// when_all() and when_any() that are cancelled, or whose future is dropped, before they are ready.
#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "async/async.hpp"
#include "support/scale.hpp"
#include "support/start_line.hpp"
#include "support/thrown.hpp"

using async::dropped_call;
using reason = async::dropped_call::reason;
using testing::why_dropped;

namespace {

using value = std::shared_ptr<int>;

struct of_all {
  template <class... F>
  auto operator()(F&&... futures) const {
    return async::when_all(std::forward<F>(futures)...);
  }
};
struct of_any {
  template <class... F>
  auto operator()(F&&... futures) const {
    return async::when_any(std::forward<F>(futures)...);
  }
};
constexpr bool is_any(of_any) { return true; }
constexpr bool is_any(of_all) { return false; }

/// Calls each function on a thread of its own, all at the same time.
template <class... F>
void at_once(F... each) {
  testing::run_threads(sizeof...(F), [&](std::size_t thread) {
    std::size_t number = 0;
    static_cast<void>(((number++ == thread && (each(), true)) || ...));
  });
}

/// Lets the other threads go ahead, in each round another time.
template <class Future>
void wait_some(const Future& future, std::size_t round) {
  for (std::size_t i = round % 100; i != 0; --i) static_cast<void>(future.is_ready());
}

/// Promises of values that count who has them.
struct promised {
  std::vector<async::promise<value>> promises;
  std::vector<async::shared_future<value>> futures;
  value given = std::make_shared<int>(1);

  explicit promised(std::size_t n) : promises(n) {
    for (auto& p : promises) futures.emplace_back(p.get_future());
  }
  void set(std::size_t i) { promises[i].set_value(given); }
  /// All futures are given away.
  std::vector<async::shared_future<value>> take() { return std::move(futures); }
  /// The values' owners besides this object, when the promises have gone.
  long owners() {
    promises.clear();
    return given.use_count() - 1;
  }
};

}  // namespace

TEST_CASE_TEMPLATE("cancel() breaks what is not ready, gives the futures back, and returns true once", Of, of_all,
                   of_any) {
  promised p(3);
  auto combined = Of()(p.take());
  CHECK(combined.cancel());
  CHECK(combined.is_ready());
  CHECK(combined.has_exception());
  CHECK_FALSE(combined.cancel());
  for (std::size_t i = 0; i < 3; ++i) p.set(i);
  CHECK(p.owners() == 0);
  CHECK(why_dropped(combined) == reason::cancelled);
}

TEST_CASE("when_all: cancel() after some of the futures are ready gives these back, too") {
  for (std::size_t ready = 1; ready < 3; ++ready) {
    promised p(3);
    auto all = async::when_all(p.take());
    for (std::size_t i = 0; i < ready; ++i) p.set(i);
    p.promises.erase(p.promises.begin(), p.promises.begin() + static_cast<std::ptrdiff_t>(ready));
    CHECK(p.given.use_count() == static_cast<long>(ready) + 1);
    CHECK(all.cancel());
    CHECK(p.given.use_count() == 1);
    CHECK(why_dropped(all) == reason::cancelled);
  }
}

TEST_CASE_TEMPLATE("cancel() of what is ready returns false, and changes nothing", Of, of_all, of_any) {
  promised p(1);
  auto combined = Of()(p.take());
  p.set(0);
  CHECK_FALSE(combined.cancel());
  CHECK_FALSE(combined.has_exception());
  CHECK(p.owners() == 1);
  static_cast<void>(combined.get());
  CHECK(p.owners() == 0);
}

TEST_CASE_TEMPLATE("cancel() runs the continuation, and wakes the threads that wait, inside tasks and outside", Of,
                   of_all, of_any) {
  const promised p(2);
  async::threadpool pool(1);
  std::atomic<int> waiting{0};
  const auto combined = Of()(p.futures[0], p.futures[1]).share();
  const auto waits = [&waiting, combined] {
    ++waiting;
    CHECK(why_dropped(combined) == reason::cancelled);
  };
  async::future<void> task = pool.post(waits);
  std::thread outside(waits);
  async::future<bool> next = combined.then([](const auto& ready) { return why_dropped(ready) == reason::cancelled; });
  while (waiting != 2) std::this_thread::yield();
  CHECK(combined.cancel());
  CHECK(next.is_ready());
  CHECK(next.get());
  task.get();
  outside.join();
}

TEST_CASE_TEMPLATE("a future that is named twice is let go twice", Of, of_all, of_any) {
  promised p(1);
  const async::shared_future<value> one = p.futures[0];
  auto cancelled = Of()(one, one);
  auto left = Of()(one, one);
  auto dropped = Of()(one, one);
  CHECK(cancelled.cancel());
  {
    const auto ended = std::move(dropped);
  }
  CHECK_FALSE(left.is_ready());
  p.set(0);
  CHECK(left.is_ready());
  CHECK_FALSE(left.has_exception());
  CHECK(why_dropped(cancelled) == reason::cancelled);
}

TEST_CASE_TEMPLATE("futures whose calls are cancelled count as ready", Of, of_all, of_any) {
  async::threadpool paused(0);
  const async::shared_future<int> call = paused.post([] { return 1; });
  auto before = Of()(call, call);
  CHECK(call.cancel());
  CHECK(before.is_ready());
  CHECK_FALSE(before.cancel());
  CHECK_FALSE(before.has_exception());
  auto after = Of()(call);
  CHECK_FALSE(after.cancel());
  CHECK_FALSE(after.has_exception());
}

TEST_CASE_TEMPLATE("calls go on when what waits for them is cancelled", Of, of_all, of_any) {
  async::threadpool pool(1);
  std::atomic<int> calls{0};
  std::promise<void> go;
  auto held = pool.post([f = go.get_future(), &calls]() mutable {
    f.wait();
    ++calls;
  });
  auto behind = pool.post([&calls] { ++calls; });
  auto combined = Of()(std::move(held), std::move(behind));
  CHECK(combined.cancel());
  go.set_value();
  pool.wait_idle();
  CHECK(calls == 2);
}

TEST_CASE_TEMPLATE("the last future that is dropped lets go of the futures; an earlier one does not", Of, of_all,
                   of_any) {
  promised p(2);
  auto combined = std::make_optional(Of()(p.take()).share());
  {
    const auto copy = *combined;
    combined.reset();
    CHECK_FALSE(copy.is_ready());
    if (!is_any(Of())) p.set(0);
  }
  if (is_any(Of())) p.set(0);
  p.promises[0] = {};
  CHECK(p.given.use_count() == 1);  // although the other one is not ready
}

TEST_CASE_TEMPLATE("a continuation is called though its future has been dropped", Of, of_all, of_any) {
  promised p(2);
  int calls = 0;
  {
    const auto dropped = Of()(p.take()).then([&calls](auto ready) { calls += ready.has_exception() ? 100 : 1; });
  }
  p.set(0);
  p.set(1);
  CHECK(calls == 1);
  CHECK(p.owners() == 0);
}

TEST_CASE_TEMPLATE("dropping a continuation that was cancelled lets go of the futures", Of, of_all, of_any) {
  promised p(2);
  const auto next = Of()(p.take()).then([](auto) {});
  CHECK(next.cancel());
  p.set(0);
  p.set(1);
  CHECK(p.owners() == 0);
}

TEST_CASE_TEMPLATE("an action of a future cancels, or drops, before the own one runs and after it", Of, of_all,
                   of_any) {
  for (const bool drops : {false, true}) {
    for (const bool is_older : {false, true}) {
      promised p(2);
      async::shared_future<value> one = p.futures[0];
      std::optional<decltype(Of()(p.take()))> combined;
      std::optional<bool> was_cancelled;
      const auto ends = [&](const async::shared_future<value>&) {
        if (drops) return combined.reset();
        was_cancelled = combined->cancel();
      };
      if (is_older) one.then(ends);
      combined = Of()(p.take());
      if (!is_older) one.then(ends);
      one = {};
      p.set(0);
      if (drops) {
        CHECK(!combined);
      } else {
        REQUIRE(was_cancelled.has_value());
        CHECK(combined->has_exception() == *was_cancelled);
        CHECK(combined->is_ready());
        CHECK_FALSE(combined->cancel());
        combined.reset();
      }
      p.set(1);
      CHECK(p.owners() == 0);
    }
  }
}

TEST_CASE_TEMPLATE("cancel() of a group ends it", Of, of_all, of_any) {
  promised p(2);
  async::future_group group;
  group.add(Of()(p.take()));
  CHECK(group.cancel() == 1);
  CHECK(group.size() == 0);
  p.set(0);
  p.set(1);
  CHECK(p.owners() == 0);
}

TEST_CASE_TEMPLATE("one inside another: the outer one's cancel() lets go of all", Of, of_all, of_any) {
  promised p(2);
  auto outer = async::when_all(Of()(p.take()), async::when_any(async::promise<int>().get_future()));
  CHECK(outer.cancel());
  p.set(0);
  p.set(1);
  CHECK(p.owners() == 0);
}

TEST_CASE_TEMPLATE("race: futures become ready on two threads while a third cancels", Of, of_all, of_any) {
  for (std::size_t round = 0; round < testing::rounds(3'000); ++round) {
    promised p(4);
    auto combined = Of()(p.take());
    bool was_cancelled = false;
    at_once(
        [&p] {
          p.set(0);
          p.set(2);
        },
        [&p] {
          p.set(1);
          p.set(3);
        },
        [&] {
          wait_some(combined, round);
          was_cancelled = combined.cancel();
        });
    REQUIRE(combined.is_ready());
    REQUIRE(combined.has_exception() == was_cancelled);
    REQUIRE_FALSE(combined.cancel());
    if (was_cancelled) {
      REQUIRE(p.owners() == 0);
      REQUIRE(why_dropped(combined) == reason::cancelled);
    } else {
      REQUIRE(p.owners() == 4);
      static_cast<void>(combined.get());
      REQUIRE(p.owners() == 0);
    }
  }
}

TEST_CASE_TEMPLATE("race: futures become ready on two threads while a third drops the last future", Of, of_all,
                   of_any) {
  for (std::size_t round = 0; round < testing::rounds(3'000); ++round) {
    promised p(4);
    auto combined = std::make_optional(Of()(p.take()));
    at_once(
        [&p] {
          p.set(0);
          p.set(1);
        },
        [&p] {
          p.set(2);
          p.set(3);
        },
        [&] {
          wait_some(*combined, round);
          combined.reset();
        });
    REQUIRE(p.owners() == 0);
  }
}

TEST_CASE_TEMPLATE("race: two threads cancel, a third drops, a fourth makes the futures ready", Of, of_all, of_any) {
  for (std::size_t round = 0; round < testing::rounds(3'000); ++round) {
    promised p(3);
    auto first = std::make_optional(Of()(p.take()).share());
    auto second = first, third = first;
    bool by_first = false, by_second = false;
    at_once(
        [&] {
          wait_some(*first, round);
          by_first = first->cancel();
          first.reset();
        },
        [&] {
          by_second = second->cancel();
          second.reset();
        },
        [&] { third.reset(); },
        [&p] {
          for (std::size_t i = 0; i < 3; ++i) p.set(i);
        });
    REQUIRE_FALSE((by_first && by_second));
    REQUIRE(p.owners() == 0);
  }
}

TEST_CASE_TEMPLATE("race: a call is cancelled, and so is what waits for it", Of, of_all, of_any) {
  async::threadpool paused(0);
  for (std::size_t round = 0; round < testing::rounds(3'000); ++round) {
    const async::shared_future<int> call = paused.post([] { return 1; });
    const async::shared_future<int> other = paused.post([] { return 2; });
    auto combined = Of()(call, other);
    bool was_cancelled = false;
    at_once([&call] { CHECK(call.cancel()); }, [&other] { CHECK(other.cancel()); },
            [&] {
              wait_some(combined, round);
              was_cancelled = combined.cancel();
            });
    REQUIRE(combined.is_ready());
    REQUIRE(combined.has_exception() == was_cancelled);
  }
}

TEST_CASE_TEMPLATE("race: many cancel at the same futures, of which one becomes ready", Of, of_all, of_any) {
  for (std::size_t round = 0; round < testing::rounds(300); ++round) {
    promised p(2);
    const auto come_and_go = [&p] {
      const async::shared_future<value> one = p.futures[0];
      const async::shared_future<value> two = p.futures[1];
      for (int i = 0; i < 50; ++i) {
        auto combined = Of()(one, two, one);
        const bool was_cancelled = i % 2 == 0 && combined.cancel();
        if (was_cancelled) CHECK(why_dropped(combined) == reason::cancelled);
      }
    };
    at_once(come_and_go, come_and_go, [&p] { p.set(0); });
    p.futures.clear();
    REQUIRE(p.owners() == 0);
  }
}

TEST_CASE_TEMPLATE("race: a pool ends while what waits for its calls is cancelled", Of, of_all, of_any) {
  for (std::size_t round = 0; round < testing::rounds(500); ++round) {
    auto pool = std::make_optional<async::threadpool>(round % 2);
    std::vector<async::future<int>> calls;
    for (int i = 0; i < 4; ++i) calls.push_back(pool->post([i] { return i; }));
    auto combined = Of()(std::move(calls));
    auto next = Of()(pool->post([] { return 5; }), pool->post([] { return 6; })).then(*pool, [](auto) { return 7; });
    bool was_cancelled = false;
    at_once([&pool] { pool->stop(async::discard); },
            [&] {
              wait_some(combined, round);
              was_cancelled = combined.cancel();
              static_cast<void>(next.cancel());
            });
    combined.wait();
    next.wait();
    REQUIRE(combined.has_exception() == was_cancelled);
    pool.reset();
  }
}
