// SPDX-License-Identifier: BSL-1.0
#include "async/detail/queue/consumer_backoff.hpp"

#include <chrono>   // for nanoseconds, time_point
#include <cstdint>  // for uint64_t

#include <doctest/doctest.h>

using namespace std::chrono_literals;

namespace {

struct some_queue {};
using consumer_backoff = async::detail::consumer_backoff<some_queue, 0>;

/// A consumer's stops at an empty queue, a distance of positions apart. `filled`: elements come while it waits.
/// Returns how often it has waited.
int waits(const some_queue& queue, int stops, std::uint64_t apart, bool filled) {
  int count = 0;
  for (int i = 1; i <= stops; ++i) {
    const std::uint64_t at = static_cast<std::uint64_t>(i) * apart;
    if (consumer_backoff::wait(&queue, at)) {
      ++count;
      if (filled) continue;
      CHECK_FALSE(consumer_backoff::wait(&queue, at));  // it looks once more, in vain
    }
  }
  return count;
}

/// Each reading is `step` later.
struct clock_of_steps {
  using duration = std::chrono::nanoseconds;
  using time_point = std::chrono::time_point<clock_of_steps, duration>;
  static time_point now() noexcept { return last += step; }
  static inline duration step{0};
  static inline time_point last{};
};
using polling_consumer = async::detail::consumer_backoff<some_queue, 1, clock_of_steps>;

/// A consumer's stops at an empty queue, a distance of positions apart. It looks at each until an element has come:
/// with watch `found` at the third look of a watch, else at its tenth own one. Returns the number of watches.
int watches(int stops, std::uint64_t apart, bool found = true) {
  const some_queue queue, before;
  polling_consumer::wait(&before, 1);  // forgets another test's queue, which may have been where `queue` is
  int count = 0;
  for (int i = 1; i <= stops; ++i) {
    for (int looks = 10; looks != 0; --looks) {
      int left = 3;
      const bool again =
          polling_consumer::wait_or_watch(&queue, static_cast<std::uint64_t>(i) * apart, polling_consumer::unbounded,
                                          [&] { return --left == 0 && found; });
      if (left != 3) ++count;
      if (again && left <= 0) break;
    }
  }
  return count;
}

}  // namespace

TEST_CASE("a consumer that polls quickly watches for elements that come one by one") {
  clock_of_steps::step = 30ns;
  CHECK(watches(10'000, 1) > 9'900);
}

TEST_CASE("a consumer with other work between two looks is not kept watching") {
  clock_of_steps::step = 61ns;
  CHECK(watches(10'000, 1) == 0);
}

TEST_CASE("a watch ends when no element comes, and is made again at the next stop") {
  clock_of_steps::step = 30ns;
  CHECK(watches(1'000, 1, false) > 950);
}

TEST_CASE("a consumer does not watch where several elements come at a time") {
  clock_of_steps::step = 30ns;
  CHECK(watches(10'000, 3) <= 200);
}

TEST_CASE("a consumer keeps waiting at its stops as long as elements come meanwhile") {
  const some_queue queue;
  CHECK(waits(queue, 1'000, 10, true) == 999);  // the first stop tells nothing
}

TEST_CASE("a consumer gives up waiting when nothing comes meanwhile, as when it fills the queue itself") {
  for (const unsigned apart : {1U, 2U, 5U, 10U, 20U, 50U}) {
    CAPTURE(apart);
    const some_queue queue;
    const int stops = static_cast<int>(10'240 / apart);
    CHECK(waits(queue, stops, apart, false) <= 10 + 2 + static_cast<int>(10'240 / 64 / 64));
  }
}

TEST_CASE("a consumer waits again when elements come again") {
  const some_queue queue;
  waits(queue, 100, 10, false);
  CHECK(waits(queue, 1'000, 100'000, true) > 990);
}

TEST_CASE("a wait grows until it gains a hundred elements, and shrinks when it gains more than six times as many") {
  constexpr std::uint64_t any = consumer_backoff::unbounded;
  CHECK(consumer_backoff::next(64, 50, any) == 128);
  CHECK(consumer_backoff::next(128, 50, any) == 128);
  CHECK(consumer_backoff::next(64, 100, any) == 64);
  CHECK(consumer_backoff::next(64, 600, any) == 64);
  CHECK(consumer_backoff::next(64, 601, any) == 32);
}

TEST_CASE("a wait for a queue with little room does not last until the other side waits, too") {
  for (const std::uint64_t capacity : {4U, 8U, 32U, 128U}) {
    CAPTURE(capacity);
    unsigned pauses = 128;
    for (int i = 0; i < 5; ++i) pauses = consumer_backoff::next(pauses, capacity, capacity);  // full, or empty
    CHECK(pauses == 4);
    CHECK(consumer_backoff::next(4, capacity, capacity) == 4);
    CHECK(consumer_backoff::next(16, capacity / 2, capacity) == 16);
  }
  CHECK(consumer_backoff::next(16, 9, 128) == 32);
}

TEST_CASE("a consumer that polls several queues does not wait") {
  const some_queue a, b, before;
  consumer_backoff::wait(&before, 1);  // forgets another test's queue, which may have been where `a` is
  for (std::uint64_t at = 10; at < 1'000; at += 10) {
    CHECK_FALSE(consumer_backoff::wait(&a, at));
    CHECK_FALSE(consumer_backoff::wait(&b, at));
  }
}
