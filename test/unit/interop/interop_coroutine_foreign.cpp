// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <coroutine>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "steps/asynctool.hpp"
#include "steps/interop/coroutine.hpp"
#include "support/flows.hpp"

// Awaitables of other libraries in every form that the language allows, in a task and in a task that is a step.

using steps::IAsyncSteps;
using steps::interop::co;
using steps::interop::start;
using steps::interop::task;
using testing::bench;

namespace {

/// Awaiters that are suspended in each of the three ways, and resumed by the test.
struct until_called {
  std::coroutine_handle<>* caller;
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> handle) const noexcept { *caller = handle; }
  int await_resume() const noexcept { return 1; }
};
struct if_asked {
  std::coroutine_handle<>* caller;
  bool suspends;
  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> handle) const noexcept {
    if (suspends) *caller = handle;
    return suspends;
  }
  int await_resume() const noexcept { return suspends ? 20 : 10; }
};
struct handed_on {
  std::coroutine_handle<>* caller;
  bool suspends;
  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> handle) const noexcept {
    if (!suspends) return handle;
    *caller = handle;
    return std::noop_coroutine();
  }
  int await_resume() const noexcept { return suspends ? 200 : 100; }
};

/// Awaitables that are not awaiters.
struct with_member {
  std::coroutine_handle<>* caller;
  until_called operator co_await() const noexcept { return {caller}; }
};
struct with_function {
  std::coroutine_handle<>* caller;
};
if_asked operator co_await(const with_function& awaitable) noexcept { return {awaitable.caller, true}; }

/// Results that are references, or only movable.
struct reference_to {
  std::string* text;
  bool await_ready() const noexcept { return true; }
  void await_suspend(std::coroutine_handle<>) const noexcept {}
  std::string& await_resume() const noexcept { return *text; }
};
struct pointer_from {
  explicit pointer_from(int number) : value(std::make_unique<int>(number)) {}  // g++ 12 copies braced temporaries
  std::unique_ptr<int> value;
  bool await_ready() const noexcept { return true; }
  void await_suspend(std::coroutine_handle<>) const noexcept {}
  std::unique_ptr<int>&& await_resume() noexcept { return std::move(value); }
};
struct fails_at_the_end {
  std::coroutine_handle<>* caller;
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> handle) const noexcept { *caller = handle; }
  void await_resume() const { throw std::runtime_error("at the end"); }
};

struct other_library {
  std::coroutine_handle<> caller;
  std::vector<int> seen;
  std::string text = "before";

  task<> every_form() {
    seen.push_back(co_await until_called{&caller});
    seen.push_back(co_await if_asked{&caller, false});
    seen.push_back(co_await if_asked{&caller, true});
    seen.push_back(co_await handed_on{&caller, false});
    seen.push_back(co_await handed_on{&caller, true});
    seen.push_back(co_await with_member{&caller});
    seen.push_back(co_await with_function{&caller});
    const with_member kept{&caller};  // an lvalue
    seen.push_back(co_await kept);
    (co_await reference_to{&text}) = "after";
    seen.push_back(*co_await pointer_from(3));
    try {
      co_await fails_at_the_end{&caller};
    } catch (const std::runtime_error&) {
      seen.push_back(4);
    }
  }
  /// Resumes all that wait, until none does; returns how often.
  template <class Then>
  int resume_all(Then then) {
    int count = 0;
    while (caller) {
      std::exchange(caller, {}).resume();
      ++count;
      then();
    }
    return count;
  }
  void check() const {
    CHECK(seen == std::vector<int>{1, 10, 20, 100, 200, 1, 20, 1, 3, 4});
    CHECK(text == "after");
  }
};

}  // namespace

TEST_CASE("a task awaits awaitables of other libraries in every form") {
  other_library other;
  std::future<void> end = start(other.every_form());
  CHECK(other.resume_all([] {}) == 7);
  end.get();
  other.check();
}

TEST_CASE("a task that is a step awaits awaitables of other libraries in every form") {
  bench b;
  other_library other;
  steps::AsyncSteps flow{b.loop};
  flow.add(co([&other](IAsyncSteps&) { return other.every_form(); }));
  flow.execute();
  b.drain();
  CHECK(other.resume_all([&b] { b.drain(); }) == 7);
  other.check();
}

TEST_CASE("a million awaitables of other libraries that do not wait need no deeper stack") {
  const auto ready = [](std::string& text) -> task<std::size_t> {
    std::size_t sum = 0;
    for (int i = 0; i < 1'000'000; ++i) sum += (co_await reference_to{&text}).size();
    co_return sum;
  };
  const auto refused = []() -> task<std::size_t> {
    std::size_t sum = 0;
    for (int i = 0; i < 1'000'000; ++i) sum += static_cast<std::size_t>(co_await if_asked{nullptr, false});
    co_return sum;
  };
  std::string text = "x";
  CHECK(start(ready(text)).get() == 1'000'000);
  CHECK(start(refused()).get() == 10'000'000);
  bench b;
  std::size_t sum = 0;
  steps::AsyncSteps flow{b.loop};
  flow.add(co([&](IAsyncSteps&) -> task<> { sum = co_await ready(text) + co_await refused(); }));
  flow.execute();
  b.drain();
  CHECK(sum == 11'000'000);
}

TEST_CASE("in a step, what is ready is taken where it is") {
  bench b;
  const void* place = nullptr;
  const void* taken_at = nullptr;
  struct stays {
    const void** taken_at;
    bool await_ready() const noexcept { return true; }
    std::coroutine_handle<> await_suspend(std::coroutine_handle<> handle) const noexcept { return handle; }
    void await_resume() const noexcept { *taken_at = this; }
  };
  steps::AsyncSteps flow{b.loop};
  flow.add(co([&](IAsyncSteps&) -> task<> {
    stays kept{&taken_at};
    place = &kept;
    co_await std::move(kept);
  }));
  flow.execute();
  b.drain();
  CHECK(taken_at == place);
  CHECK(place != nullptr);
}
