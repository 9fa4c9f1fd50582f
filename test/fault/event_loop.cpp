// SPDX-License-Identifier: BSL-1.0
//
// Every allocation of the loop's calls fails once: the call throws and has done nothing; the loop goes on.
#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "async/event_loop.hpp"
#include "steps/asynctool.hpp"
#include "support/alloc_counter.hpp"

using async::event_loop;
using testing::fail_alloc;
using namespace std::chrono_literals;

namespace {

/// More than a task keeps inside, and more than a recycled block holds: its block is allocated, too.
struct big {
  std::shared_ptr<int> count;
  std::array<char, 2000> more{};
  void operator()() const { ++*count; }
};

using call = std::function<void(event_loop&, const std::shared_ptr<int>&)>;

/// Calls until all allocations of a call have failed once; the number of failures.
std::size_t fail_each(const call& f) {
  std::size_t failures = 0;
  for (std::size_t k = 0;; ++k) {
    const auto count = std::make_shared<int>(0);
    event_loop loop;
    for (bool recycled = true; recycled;) {  // until no recycled block is left
      const testing::alloc_counter counter;
      loop.deferred(1h, [] {});
      recycled = counter.calls() == 0;
    }
    bool thrown = false;
    {
      fail_alloc failing(k);
      try {
        f(loop, count);
      } catch (const std::bad_alloc&) {
        thrown = true;
      }
      failing.stop();
      if (!failing.has_failed()) {
        CHECK_FALSE(thrown);
        loop.run_for(1ms);
        CHECK(*count == 1);
        return failures;
      }
    }
    ++failures;
    if (thrown) CHECK(count.use_count() == 1);  // nothing is left behind
    loop.run_for(1ms);
    CHECK(*count == (thrown ? 0 : 1));
    f(loop, count);  // it works again
    loop.run_for(1ms);
    CHECK(*count == (thrown ? 1 : 2));
    REQUIRE(failures < 100);
  }
}

}  // namespace

TEST_CASE("immediate, deferred and post throw bad_alloc and do nothing") {
  std::size_t failures = 0;
  failures += fail_each([](event_loop& loop, const auto& count) { loop.immediate(big{count}); });
  failures += fail_each([](event_loop& loop, const auto& count) { loop.deferred(1us, big{count}); });
  failures += fail_each([](event_loop& loop, const auto& count) { loop.post(big{count}); });
  CHECK(failures == 6);  // the task's block and the callback's
  std::printf("count: %zu injected failures\n", failures);
}

TEST_CASE("so they do when called by another thread") {
  const auto in_thread = [](auto f) {
    return [f](event_loop& loop, const std::shared_ptr<int>& count) {
      async::detail::core_of(loop).disown();  // as if this were another thread
      f(loop, count);
    };
  };
  std::size_t failures = 0;
  failures += fail_each(in_thread([](event_loop& loop, const auto& count) { loop.immediate(big{count}); }));
  failures += fail_each(in_thread([](event_loop& loop, const auto& count) { loop.deferred(1us, big{count}); }));
  CHECK(failures == 4);
  std::printf("count: %zu injected failures\n", failures);
}

TEST_CASE("constructing a loop and setting its hook throw bad_alloc and leave nothing behind") {
  for (std::size_t k = 0;; ++k) {
    const testing::alloc_counter counter;
    fail_alloc failing(k);
    try {
      event_loop loop;
      loop.on_unhandled([a = std::array<char, 100>{}](std::exception_ptr) { static_cast<void>(a); });
    } catch (const std::bad_alloc&) {
      CHECK(counter.live() == 0);
      continue;
    }
    if (!failing.has_failed()) break;
  }
}

TEST_CASE("constructing a tool throws bad_alloc and leaves no thread behind") {
  std::size_t failures = 0;
  for (std::size_t k = 0;; ++k) {
    fail_alloc failing(k);
    try {
      steps::AsyncTool tool;
    } catch (const std::bad_alloc&) {
      ++failures;
      continue;
    }
    if (!failing.has_failed()) break;
  }
  CHECK(failures >= 2);
}
