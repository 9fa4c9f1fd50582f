// SPDX-License-Identifier: BSL-1.0
//
// Arguments, results and exceptions of calls with async::async in the place of std::async, and where programs end:
// every case is run with both.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "async/detail/base/config.hpp"
#include "support/dropin_futures.hpp"
#include "support/live_count.hpp"
#include "support/scale.hpp"

#if defined(__GLIBC__) && defined(__GLIBCXX__) && !ASYNCSTEPS_TSAN && !ASYNCSTEPS_ASAN  // libc++ ends the program
#define THREADS_CAN_END 1
#include <pthread.h>
#else
#define THREADS_CAN_END 0
#endif

using dropin::check_everywhere;
using dropin::future_of;
using dropin::shared_future_of;

namespace {

/// Whether `f` throws a std::runtime_error with this text.
template <class F>
bool throws(const char* text, F f) {
  try {
    f();
  } catch (const std::runtime_error& e) {
    return std::string(e.what()) == text;
  }
  return false;
}

}  // namespace

// --- what is called, and with what -----------------------------------------------------------------------------------

namespace {

struct account {
  int balance = 10;
  int deposit(int amount) { return balance += amount; }
  int seen() const { return balance; }
};

struct alignas(128) aligned_number {
  explicit aligned_number(int number) : value(number) {}
  int value;
  bool in_place() const { return reinterpret_cast<std::uintptr_t>(this) % 128 == 0; }
};

}  // namespace

DROPIN_FUTURE_CASE("member functions, data members and reference wrappers are called as by std::invoke") {
  check_everywhere<use>([] {
    account mine;
    const account& same = mine;
    bool right = use::async(&account::deposit, &mine, 5).get() == 15;
    right = right && use::async(&account::deposit, std::ref(mine), 5).get() == 20;
    right = right && use::async(&account::deposit, mine, 5).get() == 25 && mine.balance == 20;  // a copy
    right = right && use::async(&account::seen, std::cref(same)).get() == 20;
    right = right && use::async(&account::seen, std::make_unique<account>()).get() == 10;
    right = right && &use::async(&account::balance, &mine).get() == &mine.balance;
    std::vector<int> numbers;
    use::async([](std::vector<int>& to) { to.push_back(1); }, std::ref(numbers)).get();
    return right && numbers.size() == 1;
  });
}

DROPIN_FUTURE_CASE("what is called, its arguments and its result may be move-only") {
  check_everywhere<use>([] {
    auto sum = use::async([a = std::make_unique<int>(1)](std::unique_ptr<int> b) { return *a + *b; },
                          std::make_unique<int>(2));
    std::unique_ptr<int> moved =
        use::async([](std::unique_ptr<int>&& p) { return std::move(p); }, std::make_unique<int>(3)).get();
    std::packaged_task<int()> task([] { return 4; });
    auto of_task = task.get_future();
    use::async(std::move(task)).get();
    auto of_future = use::async([](std::future<int> f) { return f; }, std::move(of_task)).get();
    return sum.get() == 3 && *moved == 3 && of_future.get() == 4;
  });
}

DROPIN_FUTURE_CASE("results and arguments are as they were made: references, large ones, and those with an alignment") {
  check_everywhere<use>([] {
    const std::string constant("constant");
    const bool same = &use::async([&constant]() -> const std::string& { return constant; }).get() == &constant;
    auto large = use::async(
        [](const std::array<int, 5'000>& numbers) {
          auto next = numbers;
          ++next.back();
          return next;
        },
        std::array<int, 5'000>{1});
    auto aligned = use::async(
        [captured = aligned_number(1)](const aligned_number& passed) {
          return aligned_number(captured.in_place() && passed.in_place() ? captured.value + passed.value : 0);
        },
        aligned_number(2));
    const shared_future_of<use, aligned_number> stored = aligned.share();
    const auto numbers = large.get();
    return same && numbers.front() == 1 && numbers.back() == 1 && stored.get().in_place() && stored.get().value == 3;
  });
}

DROPIN_FUTURE_CASE("arguments are copied before the call is made, and then never again") {
  struct counted {
    counted() = default;
    counted(const counted& other) : copies(other.copies + 1) {}
    counted(counted&& other) noexcept : copies(other.copies) {}
    int copies = 0;
  };
  check_everywhere<use>([] {
    counted original;
    std::string text("before");
    std::promise<void> go;
    auto call = use::async(
        [until = go.get_future().share()](const counted& one, const counted& none, const std::string& copy) {
          until.wait();
          return one.copies == 1 && none.copies == 0 && copy == "before";
        },
        original, counted(), text);
    text = "after";
    go.set_value();
    return call.get();
  });
}

DROPIN_FUTURE_CASE("what was called and its arguments have been destroyed when get() returns") {
  struct captured : testing::live_count<captured> {};
  struct passed : testing::live_count<passed> {};
  const auto left = [] { return captured::live() + passed::live(); };
  for (std::size_t i = 0; i < testing::rounds(300); ++i) {
    auto future = use::async([c = captured()](const passed&) { return c.live(); }, passed());
    REQUIRE(future.get() > 0);
    REQUIRE(left() == 0);
    auto thrown = use::async([c = captured()](const passed&) { throw c.live(); }, passed());
    REQUIRE_THROWS_AS(thrown.get(), int);
    REQUIRE(left() == 0);
    REQUIRE(use::async([left] {
              use::async([c = captured()](const passed&) {}, passed()).get();
              return left();
            }).get() == 0);
    if constexpr (use::is_like_std_async) {
      static_cast<void>(use::async([c = captured()](const passed&) {}, passed()));
      REQUIRE(left() == 0);
    }
  }
}

// --- what throws -----------------------------------------------------------------------------------------------------

namespace {

struct throws_when_copied : testing::live_count<throws_when_copied> {
  throws_when_copied() = default;
  throws_when_copied(const throws_when_copied& other) : live_count(other) { throw std::runtime_error("copied"); }
  void operator()() const {}
};

struct throws_when_moved : testing::live_count<throws_when_moved> {
  throws_when_moved() = default;
  throws_when_moved(throws_when_moved&& other) noexcept(false) : live_count(other) {
    throw std::runtime_error("moved");
  }
};

struct counts_itself : testing::live_count<counts_itself> {};

}  // namespace

DROPIN_FUTURE_CASE("what copies throw is thrown where the call was to be made, and nothing is called or left") {
  static std::atomic<int> called{0};
  check_everywhere<use>([] {
    const throws_when_copied original;
    const counts_itself other;
    const auto call = [](const counts_itself&, const auto&...) { ++called; };
    if constexpr (use::is_like_std_async) {
      for (const std::launch policy : {std::launch::async, std::launch::deferred}) {
        if (!throws("copied", [&] { static_cast<void>(use::async(policy, call, other, original)); })) return false;
      }
    }
    if (!throws("copied", [&] { static_cast<void>(use::async(call, other, other, original, other)); })) return false;
    if (!throws("copied", [&] { static_cast<void>(use::async(original)); })) return false;
    return called == 0 && counts_itself::live() == 1 && throws_when_copied::live() == 1;
  });
}

DROPIN_FUTURE_CASE("what a call throws is thrown by get(), through as many calls as wait for it") {
  struct special {
    int number;
  };
  check_everywhere<use>([] {
    const auto thrower = [](int n) -> int { throw special{n}; };
    const auto caught = [](auto future) {
      try {
        future.get();
        return 0;
      } catch (const special& e) {
        return e.number;
      }
    };
    const auto two_deep = [thrower] { return use::async([thrower] { return use::async(thrower, 2).get(); }).get(); };
    const auto shared = use::async(thrower, 3).share();
    const bool twice = caught(shared) == 3 && caught(shared) == 3;
    const auto dropped = use::async(thrower, 4);  // as if nothing had happened
    return twice && caught(use::async(thrower, 1)) == 1 && caught(use::async(two_deep)) == 2;
  });
}

DROPIN_FUTURE_CASE("what the move of a result throws is thrown by get()") {
  check_everywhere<use>([] {
    auto future = use::async([] { return throws_when_moved(); });
    bool is_thrown = throws("moved", [&] { future.get(); }) && !future.valid();
    if constexpr (use::is_like_std_async) {
      auto deferred = use::async(std::launch::deferred, [] { return throws_when_moved(); });
      is_thrown = is_thrown && throws("moved", [&] { deferred.get(); });
    }
    return is_thrown;
  });
  CHECK(throws_when_moved::live() == 0);
}

#if THREADS_CAN_END
DROPIN_FUTURE_CASE("a call that ends its thread breaks its promise, and others are made as before") {
  for (int i = 0; i < 5; ++i) {
    auto future = use::async([]() -> int { pthread_exit(nullptr); });
    bool broken = false;
    try {
      future.get();
    } catch (const std::future_error& e) {
      broken = e.code() == std::future_errc::broken_promise;
    }
    CHECK(broken);
    CHECK(use::async([](int x) { return 2 * x; }, i).get() == 2 * i);
  }
  {
    const auto dropped = use::async([] { pthread_exit(nullptr); });
  }
  std::vector<future_of<use, int>> all;
  for (int i = 0; i < 20; ++i) all.push_back(use::async([i] { return i; }));
  int sum = 0;
  for (future_of<use, int>& each : all) sum += each.get();
  CHECK(sum == 190);
}
#endif

// --- the end of the program ------------------------------------------------------------------------------------------

namespace {

/// For after the last test, whose results nobody reports.
void insist(bool condition, const char* text) {
  if (condition) return;
  std::fprintf(stderr, "at the end of the program: %s\n", text);
  std::_Exit(1);
}

/// Makes calls in its destructor, and keeps a future until then.
template <class use>
class calls_at_the_end {
 public:
  calls_at_the_end() = default;
  calls_at_the_end(const calls_at_the_end&) = delete;
  calls_at_the_end& operator=(const calls_at_the_end&) = delete;
  ~calls_at_the_end() {
    insist(use::async([](int x) { return 2 * x; }, 21).get() == 42, "a call has another result");
    insist(use::async([] { return use::async([] { return 1; }).get() + 1; }).get() == 2, "a call cannot make calls");
    std::atomic<int> calls{0};
    for (int i = 0; i < 10; ++i) static_cast<void>(use::async([&calls] { ++calls; }));
    insist(calls == 10, "a discarded future has not waited");
    insist(throws("thrown", [] { use::async([] { throw std::runtime_error("thrown"); }).get(); }), "nothing is thrown");
    auto future = use::async([] {});
    dropin::poll(future);
  }

  void keep_a_call() {
    written_.expected = true;
    kept_ = use::async([this] {
      for (int i = 0; i < 100; ++i) std::this_thread::yield();
      written_.value = true;
    });
  }

 private:
  struct checked {
    std::atomic<bool> value{false};
    std::atomic<bool> expected{false};
    ~checked() { insist(value == expected, "the future of a static object has not waited"); }
  };
  checked written_;
  std::future<void> kept_;
};

// Made before main() and before the shared pool, and so destroyed after it.
const calls_at_the_end<dropin::with_std> after_main_with_std;
const calls_at_the_end<dropin::with_async> after_main_with_async;

}  // namespace

DROPIN_CASE("destructors of static objects make calls and wait for them; the end of the program checks it") {
  use::async([] {}).get();  // what this needs is older than the object
  static calls_at_the_end<use> object;
  object.keep_a_call();
  CHECK(use::async([] { return true; }).get());
}
