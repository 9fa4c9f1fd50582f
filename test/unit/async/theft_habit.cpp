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
unsigned paused = 0;
using habit = async::detail::basic_theft_habit<still_clock, [](unsigned count) { paused += count; }>;

/// A deque of another thread, of which elements go, at the bottom or the top, between the first look at it and the
/// next.
struct other_deque {
  int left;
  int popped_between = 0;
  int stolen_between = 0;
  mutable bool looked = false;
  mutable bool waited = false;
  int top() const noexcept {
    looked = true;
    return waited ? stolen_between : 0;
  }
  int position() const noexcept {
    if (waited) return left - popped_between;
    waited = looked;
    return left;
  }
  bool empty() const noexcept { return waited ? left == popped_between + stolen_between : left == 0; }
};

/// A deque in which nothing happens by itself.
struct plain_deque {
  int first;
  int end;
  mutable unsigned looks_at_top = 0;
  int top() const noexcept { return ++looks_at_top, first; }
  int position() const noexcept { return end; }
  bool empty() const noexcept { return first == end; }
};

/// A theft that takes `cost`, and the tasks after it, which take `length`.
void steal(habit& h, std::chrono::nanoseconds cost, std::chrono::nanoseconds length) {
  static int size = 0;  // another one each time: the deque's thread uses it
  h.begin_look();
  REQUIRE(h.is_left(other_deque{++size}));
  h.begin_theft();
  still_clock::time += cost;
  h.end_theft();
  still_clock::time += length;
  h.end_task();
}

/// Whether the habit steals from a deque at the first sight, without a second look.
bool steals_at_once(habit& h) {
  const other_deque deque{8};
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
  const other_deque busy{8, 2, 1}, drained{8, 8}, stuck{8}, popped{8, 2};
  for (const auto* const deque : {&busy, &drained}) {
    h.begin_look();
    CHECK_FALSE(h.is_left(*deque));
  }
  for (const auto* const deque : {&stuck, &popped}) {
    h.begin_look();
    CHECK(h.is_left(*deque));
    CHECK(deque->waited);
  }
}

TEST_CASE("a worker waits once for a deque that its thread does not use, and then steals all of it") {
  habit h;
  steal(h, 100ns, 0ns);
  plain_deque blocked{0, 8};
  h.begin_look();
  CHECK(h.is_left(blocked));
  const unsigned looks = blocked.looks_at_top;
  for (; blocked.first != 8; ++blocked.first) {
    h.begin_look();
    CHECK(h.is_left(blocked));
  }
  CHECK(blocked.looks_at_top == looks);
  h.begin_look();
  CHECK_FALSE(h.is_left(blocked));
  blocked = {0, 9};  // its thread is back
  h.begin_look();
  CHECK(h.is_left(blocked));
  CHECK(blocked.looks_at_top == 2);
}

TEST_CASE("a worker waits longer for a deque that its thread goes on to use, up to four times as long") {
  habit h;
  steal(h, 100ns, 0ns);
  const auto wait_for = [&h](const auto& deque) {
    paused = 0;
    h.begin_look();
    static_cast<void>(h.is_left(deque));
    return paused;
  };
  const auto wait_for_used = [&] { return wait_for(other_deque{8, 2, 1}); };
  const unsigned first = wait_for_used();
  REQUIRE(first > 0);
  CHECK(wait_for_used() == 2 * first);
  CHECK(wait_for_used() == 4 * first);
  CHECK(wait_for_used() == 4 * first);
  CHECK(wait_for(plain_deque{0, 8}) == 4 * first);  // and finds that nobody uses it
  CHECK(wait_for_used() == first);
  CHECK(wait_for_used() == 2 * first);
  steal(h, 100ns, 1us);  // that has paid
  CHECK(wait_for_used() == 0);
  steal(h, 100ns, 0ns);
  CHECK(wait_for_used() == first);
}

TEST_CASE("a deque whose thread has pushed and popped as much is in use all the same") {
  habit h;
  steal(h, 100ns, 0ns);
  const other_deque swinging{8, 2};
  h.begin_look();
  CHECK(h.is_left(swinging));
  swinging.looked = swinging.waited = false;  // as at first
  h.begin_look();
  CHECK(h.is_left(swinging));
  CHECK(swinging.looked);
}

TEST_CASE("thefts from a deque that its thread does not use read the clock one time in eight") {
  habit h;
  steal(h, 100ns, 0ns);
  plain_deque blocked{0, 81};
  const auto steal_next = [&] {
    h.begin_look();
    REQUIRE(h.is_left(blocked));
    h.begin_theft();
    h.end_theft();
    h.end_task();
    ++blocked.first;
  };
  steal_next();
  still_clock::readings = 0;
  for (int i = 0; i < 80; ++i) steal_next();
  CHECK(still_clock::readings == 3 * 10);
}

TEST_CASE("two workers share a deque that its thread does not use") {
  habit h;
  steal(h, 100ns, 0ns);
  const other_deque blocked{8, 0, 1};
  h.begin_look();
  CHECK_FALSE(h.is_left(blocked));  // another worker has stolen meanwhile
  h.begin_look();
  CHECK(h.is_left(blocked));
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
  const other_deque busy{8, 2, 1}, next{8, 2, 1};
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
