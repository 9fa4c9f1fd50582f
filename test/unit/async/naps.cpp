// SPDX-License-Identifier: BSL-1.0
//
// The naps of a task that sleeps in a queue, for an event or in select(): its worker looks after the pool in between.
#include "async/detail/base/naps.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <thread>
#include <vector>

#include "async/async.hpp"
#include "steps/steps.hpp"

#if ASYNCSTEPS_ON_LINUX && !defined(__ANDROID__)
#include <sys/resource.h>

#include "support/futex_calls.hpp"
#include "support/scale.hpp"
#endif

using async::detail::look_answer;
using async::detail::look_reason;
using async::detail::sleep_in_naps;
using async::detail::wait_clock;
using steps::IAsyncSteps;
using namespace std::chrono_literals;

namespace {

/// Has f() called between the naps of this thread.
class looking {
 public:
  explicit looking(async::detail::pool_look f) noexcept { async::detail::look_after_pool = f; }
  ~looking() { async::detail::look_after_pool = nullptr; }
  looking(const looking&) = delete;
  looking& operator=(const looking&) = delete;
};

constinit thread_local int turns_left = 0;
constinit thread_local int polls = 0;
look_answer turn(look_reason) noexcept { return {turns_left-- > 0}; }
look_answer find_nothing(look_reason why) noexcept {
  if (why == look_reason::polls) ++polls;
  return {};
}
look_answer see_many_asleep(look_reason) noexcept { return {false, 160}; }

/// A sleep that ends at once, `count` times by its limit, then by a wake-up. Notes the limits.
class short_sleep {
 public:
  explicit short_sleep(std::size_t count) : left_(count) {}

  bool operator()(const wait_clock::time_point* until) {
    limits.push_back(until == nullptr ? wait_clock::time_point::max() : *until);
    return left_-- == 0;
  }
  std::vector<wait_clock::time_point> limits;

 private:
  std::size_t left_;
};

}  // namespace

TEST_CASE("naps: between looks that find nothing they grow from 250 us to 8 ms") {
  const looking here(&find_nothing);
  short_sleep sleep(8);
  const wait_clock::time_point begin = wait_clock::now();
  CHECK(sleep_in_naps(nullptr, std::ref(sleep)));
  const wait_clock::time_point end = wait_clock::now();
  REQUIRE(sleep.limits.size() == 9);
  std::chrono::microseconds nap = 250us;
  for (const wait_clock::time_point limit : sleep.limits) {
    CHECK(limit >= begin + nap);
    CHECK(limit <= end + nap);
    nap = (std::min)(2 * nap, std::chrono::microseconds(8ms));
  }
}

TEST_CASE("naps: after a turn of a loop the sleep is a look only, without a system call; then naps are short again") {
  const looking here(&turn);
  turns_left = 3;
  short_sleep sleep(5);
  const wait_clock::time_point begin = wait_clock::now();
  CHECK(sleep_in_naps(nullptr, std::ref(sleep)));
  const wait_clock::time_point end = wait_clock::now();
  REQUIRE(sleep.limits.size() == 6);
  for (const std::size_t i : {1U, 2U, 3U}) CHECK(sleep.limits[i] == wait_clock::time_point());
  for (const std::size_t i : {0U, 4U}) {
    CHECK(sleep.limits[i] >= begin + 250us);
    CHECK(sleep.limits[i] <= end + 500us);
  }
}

TEST_CASE("naps: they grow longer where many threads of the pool wait") {
  const looking here(&see_many_asleep);
  short_sleep sleep(12);
  const wait_clock::time_point begin = wait_clock::now();
  CHECK(sleep_in_naps(nullptr, std::ref(sleep)));
  const wait_clock::time_point end = wait_clock::now();
  for (const std::size_t i : {9U, 10U, 11U}) {  // after 64 ms
    CHECK(sleep.limits[i] >= begin + 88ms);
    CHECK(sleep.limits[i] <= end + 88ms);
  }
}

TEST_CASE("naps: the limit ends the sleep, also while every look turns a loop") {
  const looking here(&turn);
  turns_left = (std::numeric_limits<int>::max)();
  const wait_clock::time_point limit = wait_clock::now() + 2ms;
  bool is_over = false;
  CHECK_FALSE(sleep_in_naps(&limit, [&](const wait_clock::time_point* until) {
    is_over = *until == limit;  // the last sleep, which may last
    return false;
  }));
  CHECK(is_over);
  CHECK(wait_clock::now() >= limit);
}

TEST_CASE("naps: a look follows a sleep that was too short for one, and found nothing") {
  const looking here(&find_nothing);
  const auto asleep = [](bool is_woken) {
    const wait_clock::time_point limit = wait_clock::now() + 100us;
    polls = 0;
    CHECK(sleep_in_naps(&limit, [is_woken](const wait_clock::time_point*) { return is_woken; }) == is_woken);
    return polls;
  };
  CHECK(asleep(false) == 1);
  CHECK(asleep(true) == 0);
  const wait_clock::time_point limit = wait_clock::now() + 2ms;
  polls = 0;
  CHECK_FALSE(sleep_in_naps(&limit, [](const wait_clock::time_point* until) {
    std::this_thread::sleep_until(*until);
    return false;
  }));
  CHECK(polls == 0);
}

#if ASYNCSTEPS_ON_LINUX && !defined(__ANDROID__)

TEST_CASE("naps: a look at a word makes no system call") {
  std::atomic<std::uint32_t> word{1};
  const wait_clock::time_point none;
  const testing::futex_calls calls;
  CHECK_FALSE(async::detail::wait_on_word(word, 1, &none));
  CHECK(async::detail::wait_on_word(word, 0, &none));
  CHECK(calls.waits() == 0);
  const wait_clock::time_point passed = wait_clock::now();
  CHECK_FALSE(async::detail::wait_on_word(word, 1, &passed));
  CHECK(calls.waits() == 1);
  CHECK(calls.late_waits() == 1);
}

TEST_CASE("naps: many tasks that wait for an event wake up no more often than a few, and flows go on beside them") {
  async::threadpool pool(1);
  async::event over;
  std::atomic<int> waiting{0};
  constexpr int tasks = 200;
  for (int i = 0; i < tasks; ++i) {
    pool.execute([&] {
      ++waiting;
      over.wait();
    });
  }
  while (waiting != tasks) std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(200ms);  // the first naps are short
  const auto sleeps = [] {
    rusage u{};
    getrusage(RUSAGE_SELF, &u);
    return u.ru_nvcsw;
  };
  const long before = sleeps();
  std::this_thread::sleep_for(1s);
  CHECK(sleeps() - before < 6'000);  // 2,000 in quiet; 25,000 if each naps for 8 ms
  std::vector<std::chrono::steady_clock::duration> answers(5);
  for (auto& answer : answers) {
    std::this_thread::sleep_for(240ms);  // meanwhile the worker's naps have grown
    const auto begin = std::chrono::steady_clock::now();
    steps::post<int>(pool, [](IAsyncSteps& asi) { asi.success(1); }).get();
    answer = std::chrono::steady_clock::now() - begin;
  }
  std::sort(answers.begin(), answers.end());
  CHECK(answers[2] < (testing::sanitized || testing::emulated() ? 500ms : 30ms));  // after a worker's nap, at most
  over.set();
  pool.wait_idle();
}

TEST_CASE("naps: flows beside tasks that wait for a queue, an event and select() take no system call for each turn") {
  async::threadpool pool(3);
  async::queue<int> in_queue, in_select;
  async::event set;
  std::vector<async::future<bool>> waits;
  waits.push_back(pool.post([&] {
    int got = 0;
    return in_queue.blocking_dequeue(got);
  }));
  waits.push_back(pool.post([&] { return set.wait_for(1h); }));
  waits.push_back(pool.post([&] {
    bool got = false;
    async::select(async::on_pop(in_select, [&got](int) { got = true; }), async::after(1h, [] {}));
    return got;
  }));
  constexpr std::size_t flows = 2'000;
  std::vector<async::future<void>> ends;
  ends.reserve(flows);
  const testing::futex_calls calls;
  const std::uint64_t turns_before = pool.stats().turns;
  for (std::size_t i = 0; i < flows; ++i) {
    ends.push_back(steps::post(pool, [](IAsyncSteps& asi) {
      for (int step = 0; step != 5; ++step) asi.add([](IAsyncSteps& inner) { inner.relinquish(); });
    }));
  }
  for (async::future<void>& end : ends) end.get();
  const std::uint64_t turns = pool.stats().turns - turns_before;
  CHECK(turns >= flows);
  CHECK(calls.late_waits() * 20 <= turns);
  in_queue.enqueue(1);
  in_select.enqueue(1);
  set.set();
  for (async::future<bool>& wait : waits) CHECK(wait.get());
}

#endif
