// SPDX-License-Identifier: BSL-1.0
//
// The standard's text on std::async and the futures that it returns, sentence by sentence, for std::async and for
// async::async. Paragraphs are counted as in C++17 (N4659); later standards say the same in another order.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/dropin_futures.hpp"
#include "support/live_count.hpp"
#include "support/scale.hpp"

using namespace std::chrono_literals;
using dropin::check_everywhere;
using dropin::check_that_it_waits;
using dropin::future_of;
using dropin::poll;
using dropin::shared_future_of;

namespace {

constexpr auto async_or_deferred = std::launch::async | std::launch::deferred;

/// Says which of its call operators was called.
struct callee {
  std::string operator()(int&&) && { return "rvalue of an rvalue"; }
  std::string operator()(const int&) && { return "lvalue of an rvalue"; }
  template <class T>
  std::string operator()(T&&) & {
    return "of an lvalue";
  }
};

/// Knows which thread has copied it from its original.
struct copied {
  copied() = default;
  copied(const copied&) : by(std::this_thread::get_id()) {}
  copied(copied&& other) noexcept : by(other.by) {}
  std::thread::id by;
};

/// Whether get() says that there is no shared state: libstdc++'s does, which the standard only encourages.
template <class Future>
bool has_no_state([[maybe_unused]] Future& future) {
#if defined(__GLIBCXX__)
  try {
    static_cast<void>(future.get());
  } catch (const std::future_error& e) {
    return e.code() == std::future_errc::no_state;
  }
  return false;
#else
  return !future.valid();
#endif
}

}  // namespace

// --- the function template async -------------------------------------------------------------------------------------

DROPIN_FUTURE_CASE(
    "[futures.async]: the result is a future of what the decayed callable returns for decayed arguments") {
  const auto same = []<class T>(const T& x) -> const T& { return x; };
  const auto number = [](auto) { return 1; };
  int array[2] = {1, 2};
  static_assert(std::is_same_v<decltype(use::async(same, std::declval<int(&)[2]>())), future_of<use, int* const&>>);
  static_assert(std::is_same_v<decltype(use::async(number, 1)), future_of<use, int>>);
  static_assert(std::is_same_v<decltype(use::async([] {})), future_of<use, void>>);
  const auto second = [](const int* first) { return first[1]; };
  CHECK(use::async(second, array).get() == 2);
  if constexpr (use::is_like_std_async) CHECK(use::async(std::launch::deferred, second, array).get() == 2);
}

DROPIN_FUTURE_CASE("[futures.async]/2: it is enough that the callable and its arguments can be moved") {
  struct movable {
    movable() = default;
    movable(movable&&) noexcept = default;
    movable& operator=(movable&&) = delete;
    int operator()(const movable&, movable&&) && { return 5; }
  };
  CHECK(use::async(movable(), movable(), movable()).get() == 5);
  if constexpr (use::is_like_std_async) {
    CHECK(use::async(std::launch::deferred, movable(), movable(), movable()).get() == 5);
  }
}

DROPIN_CASE("[futures.async]/3: without a policy it is as with both, and what is called is called once") {
  int calls = 0;
  use::async([&calls] { ++calls; }).get();
  CHECK(calls == 1);
  use::async(async_or_deferred, [&calls] { ++calls; }).get();
  CHECK(calls == 2);
  auto future = use::async([&calls] { ++calls; });
  future.wait();
  future.get();
  CHECK(calls == 3);
}

DROPIN_CASE("[futures.async]/3.1: the call is made as if in a new thread, which needs nobody who waits for it") {
  CHECK(use::async(std::this_thread::get_id).get() != std::this_thread::get_id());
  std::promise<int> called;
  const auto future = use::async(std::launch::async, [&called] { called.set_value(3); });
  CHECK(called.get_future().get() == 3);
}

DROPIN_FUTURE_CASE("[futures.async]/3.1: copies are made by the thread that calls async, and called as rvalues") {
  const callee by_copy;
  const int number = 1;
  CHECK(use::async(by_copy, number).get() == "rvalue of an rvalue");
  CHECK(use::async(by_copy, std::cref(number)).get() == "lvalue of an rvalue");
  const copied original;
  const auto copier = [](const copied& argument) { return argument.by; };
  CHECK(use::async(copier, original).get() == std::this_thread::get_id());
  struct callable : copied {
    std::thread::id operator()() const { return by; }
  };
  const callable called;
  CHECK(use::async(called).get() == std::this_thread::get_id());
}

DROPIN_FUTURE_CASE("[futures.async]/3.1: what is returned is the result, what is thrown the exceptional result") {
  CHECK(use::async([] { return std::string("value"); }).get() == "value");
  struct derived : std::string {};
  const auto thrower = [] { throw derived(); };
  CHECK_THROWS_AS(use::async(thrower).get(), derived);
  CHECK_THROWS_AS(use::async(thrower).share().get(), std::string);
}

DROPIN_CASE("[futures.async]/3.2: a deferred function has its copies at once, and is called as an rvalue") {
  std::string text("first");
  auto copy = use::async(std::launch::deferred, [](std::string&& argument) { return std::move(argument); }, text);
  text = "second";
  CHECK(copy.get() == "first");
  CHECK(use::async(std::launch::deferred, callee(), 1).get() == "rvalue of an rvalue");
}

DROPIN_CASE(
    "[futures.async]/3.2: the first non-timed wait calls a deferred function, in its thread; no timed one does") {
  check_everywhere<use>([] {
    std::vector<std::thread::id> callers;
    const auto call = [&callers] { callers.push_back(std::this_thread::get_id()); };
    auto got = use::async(std::launch::deferred, call);
    const auto waited = use::async(std::launch::deferred, call);
    auto shared = use::async(std::launch::deferred, call).share();
    bool deferred = true;
    for (const auto limit : {-1ms, 0ms, 5ms}) {
      deferred = deferred && got.wait_for(limit) == std::future_status::deferred;
      deferred =
          deferred && waited.wait_until(std::chrono::steady_clock::now() + limit) == std::future_status::deferred;
      deferred = deferred && shared.wait_for(limit) == std::future_status::deferred;
    }
    const bool none = callers.empty();
    got.get();
    waited.wait();
    waited.wait();
    bool right = deferred && none && callers == std::vector(2, std::this_thread::get_id());
    std::thread other([&] { shared.get(); });
    const std::thread::id of_other = other.get_id();
    other.join();
    shared.get();
    right = right && callers.size() == 3 && callers.back() == of_other;
    return right && shared.wait_for(0s) != std::future_status::timeout;
  });
}

DROPIN_CASE("[futures.async]/3.2: what a deferred function returns or throws is stored") {
  CHECK(use::async(std::launch::deferred, [] { return 1; }).get() == 1);
  const auto shared = use::async(std::launch::deferred, []() -> int { throw std::out_of_range("x"); }).share();
  CHECK_NOTHROW(shared.wait());
  CHECK_THROWS_AS(shared.get(), std::out_of_range);
  CHECK_THROWS_AS(shared.get(), std::out_of_range);
}

// The writes here are not atomic: ThreadSanitizer reports those that are not ordered.
DROPIN_FUTURE_CASE(
    "[futures.async]/5: what was done before async is seen in the call, what the call did after the wait") {
  for (std::size_t i = 0; i < testing::rounds(200); ++i) {
    int before = 0, after = 0;
    const auto call = [&] { after = before + 1; };
    const auto waits = {+[](future_of<use, void>& f) { f.get(); }, +[](future_of<use, void>& f) { f.wait(); },
                        +[](future_of<use, void>& f) { poll(f); }, +[](future_of<use, void>& f) { poll(f.share()); },
                        +[](future_of<use, void>& f) {
                          static_cast<void>(f.wait_for(10min));
                          if (!use::tells_truth) f.wait();
                        }};
    for (const auto wait : waits) {
      before += 10;
      auto future = use::async(call);
      wait(future);
      REQUIRE(after == before + 1);
    }
    before += 10;
    std::thread([moved = use::async(call)]() mutable { moved.get(); }).join();
    REQUIRE(after == before + 1);
    if constexpr (use::is_like_std_async) {
      for (const std::launch policy : {std::launch::async, std::launch::deferred}) {
        before += 10;
        std::thread([moved = use::async(policy, call)]() mutable { moved.get(); }).join();
        REQUIRE(after == before + 1);
      }
    }
  }
}

DROPIN_CASE("[futures.async]/5: what the call did is seen after the last function that releases the shared state") {
  for (std::size_t i = 0; i < testing::rounds(200); ++i) {
    int after = 0;
    const auto call = [&after] {
      std::this_thread::yield();
      ++after;
    };
    {
      const auto destroyed = use::async(call);
    }
    REQUIRE(after == 1);
    auto assigned = use::async(call);
    assigned = std::future<void>();
    REQUIRE(after == 2);
    {
      auto shared = use::async(call).share();
      const auto copy = shared;
      shared = std::shared_future<void>();
    }
    REQUIRE(after == 3);
    use::async([&call] { static_cast<void>(use::async(call)); }).get();
    REQUIRE(after == 4);
  }
}

DROPIN_FUTURE_CASE("[futures.async]/5: a waiting function blocks until the call has ended") {
  check_that_it_waits<use>([](auto call) { return use::async(call).get(), 1; });
  check_that_it_waits<use>([](auto call) { return use::async(call).wait(), 1; });
  check_that_it_waits<use>([](auto call) { return use::async(call).share().get(), 1; });
  check_that_it_waits<use>([](auto call) { return use::async(call).share().wait(), 1; });
  DROPIN_NEEDS_TIMED_WAITS();
  check_that_it_waits<use>([](auto call) { return static_cast<void>(use::async(call).wait_for(10min)), 1; });
  check_that_it_waits<use>([](auto call) { return poll(use::async(call)), 1; });
}

// --- shared states ---------------------------------------------------------------------------------------------------

DROPIN_CASE("[futures.state]/5: to release a state does not block for a deferred function, which is gone with it") {
  struct captured : testing::live_count<captured> {};
  bool called = false;
  {
    const auto future = use::async(std::launch::deferred, [c = captured(), &called] { called = true; });
    auto shared = use::async(std::launch::deferred, [c = captured(), &called] { called = true; }).share();
    CHECK(captured::live() == 2);
    const auto copy = shared;
    shared = {};
    CHECK(captured::live() == 2);
  }
  CHECK(captured::live() == 0);
  CHECK_FALSE(called);
}

DROPIN_FUTURE_CASE(
    "[futures.state]/5: a result that nobody has fetched is destroyed with the last reference to its state") {
  check_everywhere<use>([] {
    const auto result = std::make_shared<int>(1);
    const auto call = [moved = result]() mutable { return std::move(moved); };
    // The thread that has made a call of post() holds the state, as a promise does, for a moment more.
    const auto is_gone = [&result] {
      const auto limit = std::chrono::steady_clock::now() + 10s;
      while (!use::is_like_std_async && result.use_count() != 2 && std::chrono::steady_clock::now() < limit) {
        std::this_thread::yield();
      }
      return result.use_count() == 2;
    };
    auto future = use::async(call);
    future.wait();
    const bool stored = result.use_count() == 3;  // with that of the call that was copied
    future = {};
    const bool gone = is_gone();
    auto first = use::async(call).share();
    auto last = first;
    first.wait();
    first = {};
    const bool kept = result.use_count() == 3;
    last = {};
    return stored && gone && kept && is_gone();
  });
}

// --- future ----------------------------------------------------------------------------------------------------------

DROPIN_FUTURE_CASE(
    "[futures.unique_future]/3-7: one without a state is not valid and says so; a move leaves one behind") {
  future_of<use, int> empty;
  CHECK_FALSE(empty.valid());
  CHECK(has_no_state(empty));
  auto from = use::async([] { return 4; });
  future_of<use, int> to(std::move(from));
  CHECK(to.valid());
  CHECK_FALSE(from.valid());  // NOLINT: that is the question
  CHECK(has_no_state(from));
  CHECK(to.get() == 4);
}

DROPIN_CASE(
    "[futures.unique_future]/8-10: the destructor and an assignment release the state, which waits for the call") {
  check_that_it_waits<use>([](auto call) {
    const auto owned = std::make_unique<std::future<void>>(use::async(call));
    return 1;
  });
  auto from = use::async([] { return 6; });
  auto to = use::async([] { return 5; });
  to = std::move(from);
  CHECK(to.valid());
  CHECK_FALSE(from.valid());  // NOLINT: that is the question
  CHECK(to.get() == 6);
}

DROPIN_FUTURE_CASE("[futures.unique_future]/11-12: share() moves the state to a shared future") {
  auto future = use::async([] { return 8; });
  const shared_future_of<use, int> shared = future.share();
  CHECK_FALSE(future.valid());
  CHECK(shared.get() == 8);
}

DROPIN_FUTURE_CASE(
    "[futures.unique_future]/14-17: get() waits, moves the value out, and releases the state, also if it throws") {
  check_everywhere<use>([] {
    auto moved = use::async([] { return std::make_unique<int>(9); });
    bool right = *moved.get() == 9 && !moved.valid() && has_no_state(moved);
    int number = 0;
    auto reference = use::async([&number]() -> int& { return number; });
    right = right && &reference.get() == &number && !reference.valid();
    auto nothing = use::async([] {});
    nothing.get();
    auto thrown = use::async([]() -> int { throw std::runtime_error("thrown"); });
    bool caught = false;
    try {
      thrown.get();
    } catch (const std::runtime_error& e) {
      caught = e.what() == std::string("thrown");
    }
    return right && !nothing.valid() && caught && !thrown.valid() && has_no_state(thrown);
  });
}

DROPIN_FUTURE_CASE(
    "[futures.unique_future]/18-19: wait() throws nothing, can be repeated, and leaves the future valid") {
  check_everywhere<use>([] {
    const auto thrown = use::async([] { throw 1; });
    thrown.wait();
    thrown.wait();
    return thrown.valid() && thrown.wait_for(0s) == std::future_status::ready;
  });
}

DROPIN_FUTURE_CASE(
    "[futures.unique_future]/20-24: timed waits say what the state is, and return when that is ready or late") {
  DROPIN_NEEDS_TIMED_WAITS();
  std::promise<void> go;
  const auto future = use::async([until = go.get_future().share()] { until.wait(); });
  CHECK(future.wait_for(0s) == std::future_status::timeout);
  CHECK(future.wait_until(std::chrono::system_clock::now() + 5ms) == std::future_status::timeout);
  CHECK(dropin::times_out(future, 5ms));
  go.set_value();
  CHECK(future.wait_until(std::chrono::steady_clock::now() + 1h) == std::future_status::ready);
  CHECK(future.wait_until(std::chrono::system_clock::now() - 1h) == std::future_status::ready);
}

// --- shared_future ---------------------------------------------------------------------------------------------------

DROPIN_FUTURE_CASE("[futures.shared_future]/4-14: copies refer to the same state, moves leave none behind") {
  const shared_future_of<use, int> empty;
  CHECK_FALSE(empty.valid());
  shared_future_of<use, int> first = use::async([] { return 1; });
  shared_future_of<use, int> copy = first;
  const shared_future_of<use, int> moved = std::move(first);
  CHECK(copy.valid());
  CHECK(moved.valid());
  CHECK_FALSE(first.valid());  // NOLINT: that is the question
  CHECK(&copy.get() == &moved.get());
  copy = empty;
  CHECK_FALSE(copy.valid());
}

DROPIN_FUTURE_CASE(
    "[futures.shared_future]/17-19: get() gives a constant reference to the value, or throws, as often as asked") {
  check_everywhere<use>([] {
    const auto shared = use::async([] { return std::string("value"); }).share();
    static_assert(std::is_same_v<decltype(shared.get()), const std::string&>);
    int number = 0;
    const auto reference = use::async([&number]() -> int& { return number; }).share();
    static_assert(std::is_same_v<decltype(reference.get()), int&>);
    const auto thrown = use::async([] { throw std::runtime_error("thrown"); }).share();
    int caught = 0;
    for (const auto& copy : {thrown, thrown, thrown}) {
      try {
        copy.get();
      } catch (const std::runtime_error&) {
        ++caught;
      }
    }
    const bool right = &shared.get() == &shared.get() && shared.get() == "value" && &reference.get() == &number;
    return right && caught == 3 && thrown.valid();
  });
}

DROPIN_FUTURE_CASE(
    "[futures.shared_future]/21: several threads and calls wait for one call, each with a copy of its own") {
  std::promise<int> go;
  const auto shared = use::async([until = go.get_future().share()] { return until.get(); }).share();
  std::vector<std::thread> threads;
  std::vector<future_of<use, int>> calls;
  std::atomic<int> sum{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([shared, &sum] { sum += shared.get(); });
    calls.push_back(use::async([shared] { return shared.get(); }));
  }
  go.set_value(5);
  for (std::thread& each : threads) each.join();
  for (future_of<use, int>& each : calls) sum += each.get();
  CHECK(sum == 40);
}
