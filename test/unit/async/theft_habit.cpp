// SPDX-License-Identifier: BSL-1.0
#include "async/detail/pool/theft_habit.hpp"

#include <doctest/doctest.h>

#include <chrono>

using namespace std::chrono_literals;

namespace {

/// A clock that stands still until it is moved.
struct still_clock {
  using duration = std::chrono::nanoseconds;
  using time_point = std::chrono::time_point<still_clock>;
  static inline duration time{0};
  static inline unsigned readings = 0;
  static time_point now() noexcept {
    ++readings;
    return time_point(1h + time);
  }
};
using habit = async::detail::basic_theft_habit<still_clock>;

/// A deque of another thread, which takes some of its elements between two looks.
struct other_deque {
  int left;
  int taken_between = 0;
  mutable int taken = 0;
  mutable bool looked = false;
  int top() const noexcept {
    if (looked) taken = taken_between;
    looked = true;
    return taken;
  }
  bool empty() const noexcept { return taken == left; }
};

/// A theft that takes `cost`, and the tasks after it, which take `length`.
void steal(habit& h, std::chrono::nanoseconds cost, std::chrono::nanoseconds length) {
  h.begin_look();
  REQUIRE(h.is_left(other_deque{1}));
  h.begin_theft();
  still_clock::time += cost;
  h.end_theft();
  still_clock::time += length;
  h.end_task();
}

/// Whether the habit steals from a deque at the first sight, without a second look.
bool steals_at_once(habit& h) {
  other_deque deque{8};
  h.begin_look();
  const bool found = h.is_left(deque);
  CHECK(found);
  return !deque.looked;
}

}  // namespace

TEST_CASE("a worker steals at once until a stolen task was short") {
  habit h;
  CHECK(steals_at_once(h));
  steal(h, 100ns, 10us);
  CHECK(steals_at_once(h));
  steal(h, 100ns, 100ns);
  CHECK_FALSE(steals_at_once(h));
}

TEST_CASE("a task is short where it takes less than two and a half thefts") {
  habit h;
  steal(h, 300ns, 749ns);
  CHECK_FALSE(steals_at_once(h));
  steal(h, 300ns, 750ns);
  CHECK(steals_at_once(h));
}

TEST_CASE("after short tasks a worker leaves a deque whose oldest task goes meanwhile, and steals one that stays") {
  habit h;
  steal(h, 100ns, 0ns);
  const other_deque busy{8, 3}, drained{8, 8}, stuck{8};
  for (const auto* const deque : {&busy, &drained}) {
    h.begin_look();
    CHECK_FALSE(h.is_left(*deque));
  }
  h.begin_look();
  CHECK(h.is_left(stuck));
}

TEST_CASE("an empty deque has nothing left, and costs no wait") {
  habit h;
  steal(h, 100ns, 0ns);
  const other_deque none{0}, full{1};
  h.begin_look();
  CHECK_FALSE(h.is_left(none));
  CHECK_FALSE(none.looked);
  CHECK(h.is_left(full));
  CHECK(full.looked);
}

TEST_CASE("a look waits once, however many deques there are") {
  habit h;
  steal(h, 100ns, 0ns);
  const other_deque busy{8, 3}, next{8, 3};
  h.begin_look();
  CHECK_FALSE(h.is_left(busy));
  CHECK(h.is_left(next));
  CHECK_FALSE(next.looked);
}

TEST_CASE("a dearer theft counts at once, a cheaper one by and by, and one that was interrupted never") {
  habit h;
  steal(h, 400ns, 999ns);
  CHECK_FALSE(steals_at_once(h));
  steal(h, 100ns, 999ns);  // the cost is 375 ns now
  CHECK(steals_at_once(h));
  steal(h, 1ms, 999ns);
  CHECK(steals_at_once(h));
  steal(h, 100ns, 500ns);
  CHECK_FALSE(steals_at_once(h));
  for (int i = 0; i < 40; ++i) steal(h, 100ns, 500ns);
  CHECK(steals_at_once(h));
}

TEST_CASE("of thefts that follow each other at once, one in eight reads the clock") {
  habit h;
  steal(h, 100ns, 10us);
  still_clock::readings = 0;
  for (int i = 0; i < 80; ++i) steal(h, 100ns, 10us);
  CHECK(still_clock::readings == 3 * 10);
}
