// SPDX-License-Identifier: BSL-1.0
//
// The list of an event count, on one thread: which waiters are notified, and in which order.
#include "async/detail/queue/event_count.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "async/detail/queue/queue_waiter.hpp"

using async::detail::event_count;

namespace {

struct waiter : async::detail::queue_waiter {
  waiter(int n, std::vector<int>& l) : queue_waiter(table), number(n), log(l) {}

  static void reserve(queue_waiter& w) noexcept { static_cast<waiter&>(w).is_chosen = true; }
  static void notify(queue_waiter& w) noexcept {
    auto& its = static_cast<waiter&>(w);
    CHECK(its.is_chosen);
    its.log.push_back(its.number);
    if (its.passes_on_to != nullptr) its.passes_on_to->wake(1);
    if (its.comes_again_to != nullptr && its.log.size() < 1000) its.comes_again_to->add(w, its.in_front);
  }
  static constexpr operations table{reserve, notify};

  const int number;
  std::vector<int>& log;
  bool is_chosen = false;
  event_count* passes_on_to = nullptr;
  event_count* comes_again_to = nullptr;
  bool in_front = false;
};

struct scene {
  event_count events;
  std::vector<int> log;
  std::deque<waiter> waiters;

  explicit scene(int count) {
    for (int i = 0; i < count; ++i) waiters.emplace_back(i, log);
  }
  void add(std::size_t i, bool in_front = false) { events.add(waiters[i], in_front); }
  std::vector<int> wake(std::uint32_t count) {
    log.clear();
    events.wake(count);
    return log;
  }
};
using numbers = std::vector<int>;

}  // namespace

TEST_CASE("listed waiters are notified first come, first served") {
  scene s(4);
  for (std::size_t i = 0; i < 4; ++i) s.add(i);
  CHECK(s.wake(1) == numbers{0});
  CHECK(s.wake(2) == numbers{1, 2});
  CHECK(s.wake(9) == numbers{3});
  CHECK(s.wake(1).empty());
}

TEST_CASE("a waiter that comes again in front is notified before the others") {
  scene s(3);
  s.add(0);
  s.add(1);
  CHECK(s.wake(1) == numbers{0});
  s.add(0, true);
  s.add(2);
  CHECK(s.wake(event_count::everyone) == numbers{0, 1, 2});
}

TEST_CASE("a waiter that is removed is not notified") {
  scene s(3);
  for (std::size_t i = 0; i < 3; ++i) s.add(i);
  CHECK(s.events.remove(s.waiters[1]));
  CHECK_FALSE(s.events.remove(s.waiters[1]));
  CHECK(s.wake(event_count::everyone) == numbers{0, 2});
  CHECK_FALSE(s.events.remove(s.waiters[0]));
  CHECK_FALSE(s.waiters[1].is_chosen);
}

TEST_CASE("everyone is notified, however many there are") {
  scene s(100);
  for (std::size_t i = 0; i < 100; ++i) s.add(i);
  CHECK(s.wake(70).size() == 70);
  CHECK(s.wake(event_count::everyone).size() == 30);
}

TEST_CASE("a waiter may pass its notification on while it is notified") {
  scene s(3);
  for (std::size_t i = 0; i < 3; ++i) s.add(i);
  s.waiters[0].passes_on_to = &s.events;
  CHECK(s.wake(1) == numbers{0, 1});
  CHECK(s.wake(1) == numbers{2});
}

TEST_CASE("a waiter that is notified may be listed again at once") {
  scene s(1);
  for (int i = 0; i < 3; ++i) {
    s.add(0);
    CHECK(s.wake(1) == numbers{0});
  }
}

TEST_CASE("everyone is notified once, also while the notified come again, in front or not") {
  for (const bool in_front : {false, true}) {
    scene s(100);
    numbers all;
    for (std::size_t i = 0; i < 100; ++i) {
      s.add(i);
      s.waiters[i].comes_again_to = &s.events;
      s.waiters[i].in_front = in_front;
      all.push_back(static_cast<int>(i));
    }
    CHECK(s.wake(event_count::everyone) == all);
    CHECK(s.wake(event_count::everyone) == all);
    CHECK(s.wake(1) == numbers{0});
    CHECK(s.wake(1) == numbers{in_front ? 0 : 1});  // where not everyone is called, those in front come first again
  }
}
