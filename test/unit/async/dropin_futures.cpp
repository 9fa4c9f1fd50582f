// SPDX-License-Identifier: BSL-1.0
//
// Futures of async::async in the place of those of std::async: programs that keep, drop, poll and pass them on, in each
// way that std::async allows. Every case is run with both; dropin_standard.cpp goes through the standard's words.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/dropin_futures.hpp"
#include "support/scale.hpp"

using namespace std::chrono_literals;
using dropin::check_everywhere;
using dropin::check_that_it_waits;
using dropin::future_of;
using dropin::poll;
using dropin::times_out;

namespace {

void yield_a_little() {
  for (int i = 0; i < 20; ++i) std::this_thread::yield();
}

/// More than any machine that runs this has processors to poll with.
std::size_t more_than_processors() { return 2 * std::size_t{std::thread::hardware_concurrency()} + 2; }

/// Knows whether it is still there, for calls that it must outlive.
struct used {
  std::shared_ptr<std::atomic<bool>> there = std::make_shared<std::atomic<bool>>(true);
  used() = default;
  used(const used&) = delete;
  used& operator=(const used&) = delete;
  ~used() { *there = false; }

  /// The work of a call that uses it for a while.
  auto user(std::atomic<int>& too_late) const {
    return [there = there, &too_late] {
      yield_a_little();
      if (!*there) ++too_late;
    };
  }
};

}  // namespace

// --- futures that are left behind ------------------------------------------------------------------------------------

DROPIN_CASE("a local future waits at the end of its scope, whichever way that is left") {
  check_that_it_waits<use>([](auto call) {
    const auto local = use::async(call);
    return 1;
  });
  check_that_it_waits<use>([](auto call) {
    try {
      const auto first = use::async(call);
      const auto second = use::async(call);
      throw std::runtime_error("past both");
    } catch (const std::runtime_error&) {
      return 2;
    }
  });
}

DROPIN_CASE("a future that is discarded, or passed by value to what does nothing with it, waits at once") {
  check_that_it_waits<use>([](auto call) {
    static_cast<void>(use::async(call));
    return 1;
  });
  check_that_it_waits<use>([](auto call) {
    [](std::future<void>) {}(use::async(call));
    return 1;
  });
}

DROPIN_CASE("a future in an object or in a container waits when that is destroyed, cleared or erased from") {
  check_that_it_waits<use>([](auto call) {
    struct owner {
      int number = 0;
      std::future<void> running;
    };
    const auto object = std::make_unique<owner>();
    object->running = use::async(call);
    return 1;
  });
  check_that_it_waits<use>([](auto call) {
    std::vector<std::future<void>> all;
    for (int i = 0; i < 5; ++i) all.push_back(use::async(call));
    return 5;
  });
  check_that_it_waits<use>([](auto call) {
    std::vector<std::future<void>> all;
    for (int i = 0; i < 3; ++i) all.push_back(use::async(call));
    all.clear();
    return 3;
  });
}

DROPIN_CASE("a future that is assigned over waits for the call that it had") {
  check_that_it_waits<use>([](auto call) {
    auto future = use::async(call);
    future = {};
    return 1;
  });
  check_that_it_waits<use>([](auto call) {
    auto future = use::async(call);
    future = use::async([] {});
    future.get();
    return 1;
  });
}

DROPIN_CASE("the last copy of a shared future waits, the others do not") {
  check_that_it_waits<use>([](auto call) {
    const std::shared_future<void> first = use::async(call).share();
    const std::vector<std::shared_future<void>> copies(5, first);
    return 1;
  });
  std::promise<void> go;
  std::shared_future<void> last = use::async([until = go.get_future().share()] { until.wait(); }).share();
  {
    const std::shared_future<void> copy = last;  // a wait for the call here would be for ever
    std::shared_future<void> other = copy;
    other = {};
  }
  CHECK((!use::tells_truth || last.wait_for(0s) == std::future_status::timeout));
  go.set_value();
  last.get();
}

DROPIN_CASE("what a future was moved from does not wait, what it was moved to does") {
  check_that_it_waits<use>([](auto call) {
    std::future<void> to;
    {
      std::future<void> from = use::async(call);
      to = std::move(from);
    }
    return [](std::future<void>) { return 1; }(std::move(to));
  });
  std::promise<void> go;
  std::future<void> kept;
  {
    auto future = use::async([&go] { go.get_future().wait(); });
    kept = std::move(future);
  }
  go.set_value();  // not reached if the block waits
  kept.get();
}

DROPIN_CASE("calls never outlive what is declared before their futures") {
  const auto try_all = [] {
    std::atomic<int> too_late{0};
    for (std::size_t i = 0; i < testing::rounds(100); ++i) {
      {
        const used local;
        const auto future = use::async(local.user(too_late));
      }
      {
        struct {
          used data;
          std::future<void> user;
        } object;
        object.user = use::async(object.data.user(too_late));
      }
      try {
        const used local;
        std::vector<std::future<void>> all;
        for (int n = 0; n < 3; ++n) all.push_back(use::async(local.user(too_late)));
        throw i;
      } catch (std::size_t) {
      }
      {
        const used local;
        const std::shared_future<void> first = use::async(local.user(too_late)).share();
        const auto second = use::async([first] { first.wait(); });
      }
    }
    return too_late == 0;
  };
  check_everywhere<use>(try_all);
}

// --- timed waits -----------------------------------------------------------------------------------------------------

DROPIN_FUTURE_CASE("a loop that polls ends, outside and in calls") {
  DROPIN_NEEDS_TIMED_WAITS();
  check_everywhere<use>([] {
    const auto number = [] { return 7; };
    auto by_duration = use::async(number);
    poll(by_duration);
    auto by_time = use::async(number);
    while (by_time.wait_until(std::chrono::steady_clock::now()) == std::future_status::timeout) yield_a_little();
    auto by_other_time = use::async(number);
    while (by_other_time.wait_until(std::chrono::system_clock::now() + 1ms) == std::future_status::timeout) continue;
    auto shared = use::async(number).share();
    poll(shared);
    return by_duration.get() + by_time.get() + by_other_time.get() + shared.get() == 28;
  });
}

DROPIN_FUTURE_CASE("more calls than there are processors poll at once, for calls that poll in their turn") {
  DROPIN_NEEDS_TIMED_WAITS();
  const auto poll_for = [](auto call) {
    auto future = use::async(call);
    poll(future);
    return future.get() + 1;
  };
  for (std::size_t round = 0; round < testing::rounds(10); ++round) {
    std::vector<future_of<use, int>> all;
    for (std::size_t i = 0; i < more_than_processors(); ++i) {
      all.push_back(use::async([poll_for] { return poll_for([poll_for] { return poll_for([] { return 1; }); }); }));
    }
    int sum = 0;
    for (future_of<use, int>& each : all) {
      poll(each);
      sum += each.get();
    }
    CHECK(sum == 3 * static_cast<int>(all.size()));
  }
}

DROPIN_FUTURE_CASE("a timed wait with time enough ends with the call, outside and in calls") {
  DROPIN_NEEDS_TIMED_WAITS();
  check_everywhere<use>([] {
    auto first = use::async(yield_a_little);
    auto second = use::async(yield_a_little).share();
    return first.wait_for(10min) == std::future_status::ready &&
           second.wait_until(std::chrono::steady_clock::now() + 10min) == std::future_status::ready;
  });
}

DROPIN_FUTURE_CASE("a timed wait from outside times out, not too early, while the call goes on") {
  DROPIN_NEEDS_TIMED_WAITS();
  std::promise<void> go;
  std::promise<void> started;
  auto running = use::async([&] {
    started.set_value();
    go.get_future().wait();
  });
  started.get_future().wait();
  CHECK(running.wait_for(0s) == std::future_status::timeout);
  CHECK(running.wait_for(-1s) == std::future_status::timeout);
  CHECK(times_out(running, 20ms));
  if (use::at_once() > 1) {  // a call that waits for a call made by others
    CHECK(use::async([&running] { return times_out(running, 20ms); }).get());
  }
  go.set_value();
  CHECK(running.wait_for(10min) == std::future_status::ready);
  CHECK(running.wait_for(0s) == std::future_status::ready);
}

DROPIN_FUTURE_CASE("a timed wait in a call times out while the call that it waits for cannot end before it does") {
  DROPIN_NEEDS_TIMED_WAITS();
  check_everywhere<use>([] {
    std::promise<void> go;
    auto held = use::async([until = go.get_future().share()] { until.wait(); });
    const bool timed_out = times_out(held, 5ms);
    go.set_value();
    held.get();
    return timed_out;
  });
}

DROPIN_CASE("calls that are not deferred never say so, whatever state they are in") {
  DROPIN_NEEDS_TIMED_WAITS();
  for (const std::launch policy : {std::launch::async, std::launch::async | std::launch::deferred}) {
    if (std::is_same_v<use, dropin::with_std> && policy != std::launch::async) continue;  // which the standard permits
    check_everywhere<use>([policy] {
      bool said = false;
      for (std::size_t i = 0; i < testing::rounds(200); ++i) {
        auto future = use::async(policy, [] { return 1; });
        said = said || future.wait_for(0s) == std::future_status::deferred;
        yield_a_little();
        said = said || future.wait_for(0s) == std::future_status::deferred;
        future.wait();
        said = said || future.wait_for(0s) != std::future_status::ready;
      }
      return !said;
    });
  }
}

DROPIN_CASE("a deferred call says so, is made in get() by the thread that calls it, and never if it is dropped") {
  check_everywhere<use>([] {
    bool called = false;
    {
      const auto dropped = use::async(std::launch::deferred, [&called] { called = true; });
    }
    auto id = use::async(std::launch::deferred, [&called] {
      called = true;
      return std::this_thread::get_id();
    });
    const bool says_so = id.wait_for(10ms) == std::future_status::deferred;
    const bool too_early = called;
    return says_so && !too_early && id.get() == std::this_thread::get_id() && called;
  });
}

// --- calls that wait for calls ---------------------------------------------------------------------------------------

namespace {

template <class use>
int down(int n) {
  return n == 0 ? 0 : 1 + use::async(down<use>, n - 1).get();
}

template <class use>
int down_without_get(int n, std::atomic<int>& reached) {
  ++reached;
  if (n > 0) {
    const auto left_to_wait = use::async(down_without_get<use>, n - 1, std::ref(reached));
  }
  return reached;
}

template <class use>
int fibonacci(int n) {
  if (n < 2) return n;
  auto one = use::async(fibonacci<use>, n - 1);
  auto two = use::async(fibonacci<use>, n - 2);
  return one.get() + two.get();
}

/// The number of ways through a square of calls, each of which waits for the two before it.
template <class use>
std::uint64_t wavefront(bool reversed) {
  using cell = dropin::shared_future_of<use, std::uint64_t>;
  constexpr std::size_t width = 20;
  std::vector<cell> cells;
  for (std::size_t i = 0; i < width * width; ++i) {
    if (i < width || i % width == 0) {
      cells.push_back(use::async([] { return std::uint64_t{1}; }).share());
    } else {
      const cell& first = cells[reversed ? i - 1 : i - width];
      const cell& second = cells[reversed ? i - width : i - 1];
      cells.push_back(use::async([first, second] { return first.get() + second.get(); }).share());
    }
  }
  for (std::size_t i = 0; i < cells.size(); ++i) cells[reversed ? cells.size() - 1 - i : i].wait();
  return cells.back().get();
}

/// Two calls that wait for one, made in a call; once in each order of waits. Returns 4.
template <class use>
int shares() {
  auto sum = use::async([] {
    auto s = use::async([] { return 1; }).share();
    auto u = use::async([s] { return s.get(); });
    return s.get() + u.get();
  });
  auto reversed = use::async([] {
    auto s = use::async([] { return 1; }).share();
    auto u = use::async([s] { return s.get(); });
    return u.get() + s.get();
  });
  return sum.get() + reversed.get();
}

}  // namespace

DROPIN_CASE("calls wait for calls, deeper than there are threads, with get() and with destructors") {
  CHECK(down<use>(use::depth) == use::depth);
  CHECK(use::async(down<use>, use::depth - 1).get() == use::depth - 1);
  std::atomic<int> reached{0};
  CHECK(down_without_get<use>(use::depth, reached) == use::depth + 1);
  CHECK(fibonacci<use>(10) == 55);
}

DROPIN_FUTURE_CASE("two calls that wait for one, made in a call") {
  for (std::size_t i = 0; i < testing::rounds(1'000); ++i) {
    REQUIRE(shares<use>() == 4);
  }
}

DROPIN_FUTURE_CASE("a wavefront of calls that share their futures ends, in whatever order they are waited for") {
  for (const bool reversed : {false, true}) {
    CHECK(wavefront<use>(reversed) == 35'345'263'800U);
    CHECK(use::async(wavefront<use>, reversed).get() == 35'345'263'800U);
  }
}

TEST_CASE("on one thread and on two: recursion, calls that share futures, and a wavefront, inside calls and outside") {
  using use = dropin::with_async;
  const struct threads_again {
    std::size_t count = async::threadpool::shared().size();
    ~threads_again() { async::threadpool::shared().configurepool(count); }
  } at_end;
  for (const std::size_t threads : {1U, 2U}) {
    CAPTURE(threads);
    async::threadpool::shared().configurepool(threads);
    CHECK(down<use>(use::depth) == use::depth);
    CHECK(use::async(down<use>, use::depth - 1).get() == use::depth - 1);
    for (int i = 0; i < 20; ++i) REQUIRE(shares<use>() == 4);
    for (const bool reversed : {false, true}) {
      CHECK(wavefront<use>(reversed) == 35'345'263'800U);
      CHECK(use::async(wavefront<use>, reversed).get() == 35'345'263'800U);
    }
  }
}
