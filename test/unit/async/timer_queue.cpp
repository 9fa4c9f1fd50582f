// SPDX-License-Identifier: BSL-1.0
#include "async/detail/loop/timer_queue.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "support/alloc_counter.hpp"
#include "support/timer_clock.hpp"

using async::detail::timer_node;
using namespace std::chrono_literals;
using std::chrono::nanoseconds;

namespace {

using time_point = testing::timer_clock::time_point;
using timer_queue = async::detail::timer_queue<testing::timer_clock>;

constexpr nanoseconds tick{65536};
constexpr time_point start = testing::timer_clock::start;

/// Notes in a list that it has fired.
struct timer : timer_node {
  timer(std::vector<int>& fired_list, int id_number) : timer_node(&note), fired(fired_list), id(id_number) {}
  static void note(timer_node& node) {
    auto& self = static_cast<timer&>(node);
    self.fired.push_back(self.id);
  }
  std::vector<int>& fired;
  int id;
};

/// Calls a function when it fires.
struct calling_timer : timer_node {
  explicit calling_timer(std::function<void()> f) : timer_node(&call), function(std::move(f)) {}
  static void call(timer_node& node) { static_cast<calling_timer&>(node).function(); }
  std::function<void()> function;
};

using list = std::vector<int>;

}  // namespace

TEST_CASE("a timer fires once, not before its deadline and within a tick") {
  for (const nanoseconds delay : {1ns, 65535ns, 65536ns, 65537ns, 1000000ns, 16777216ns, 16777217ns, 4294967296ns,
                                  1099511627776ns, 281474976710656ns, 281474976710657ns}) {
    for (const nanoseconds offset : {0ns, 1ns, 40000ns, 16777215ns}) {
      for (const bool wheels : {false, true}) {
        list fired;
        timer t(fired, 1);
        timer_queue timers(start);
        if (wheels) timers.make_wheels();
        timers.expire(start + offset);
        const time_point deadline = start + offset + delay;
        timers.arm(t, deadline);
        CHECK(t.armed());
        CHECK(timers.expire(deadline - 1ns) == 0);
        CHECK(timers.next_deadline() >= deadline);
        CHECK(timers.next_deadline() < deadline + tick);
        CHECK(timers.expire(deadline + tick) == 1);
        CHECK_FALSE(t.armed());
        CHECK(timers.empty());
        CHECK(fired == list{1});
        CHECK(timers.has_wheels() == wheels);
      }
    }
  }
}

TEST_CASE("timers fire in the order of their deadlines, those of one tick in the order armed") {
  list fired;
  timer_queue timers(start);
  SUBCASE("with wheels") { timers.make_wheels(); }
  SUBCASE("without") {}
  timer a(fired, 1), b(fired, 2), c(fired, 3), d(fired, 4), e(fired, 5);
  const time_point deadline = start + 300 * tick;
  timers.arm(a, deadline + 1h);
  timers.arm(b, deadline);  // in the second wheel
  timers.expire(start + 250 * tick);
  timers.arm(c, deadline);  // nearer now, but behind b
  timers.expire(start + 299 * tick);
  timers.arm(d, deadline);
  timers.arm(e, deadline - tick);  // due at once
  CHECK(timers.expire(start + 1000h) == 5);
  CHECK(fired == list{5, 2, 3, 4, 1});
}

TEST_CASE("a disarmed timer does not fire, and disarming twice is harmless") {
  list fired;
  timer_queue timers(start);
  SUBCASE("with wheels") { timers.make_wheels(); }
  SUBCASE("without") {}
  timer a(fired, 1), b(fired, 2), c(fired, 3);
  for (const nanoseconds delay : {0ns, 1000000ns, 1000000000ns, 3600000000000ns, 3600000000000000ns}) {
    timers.arm(a, start + delay);
    timers.arm(b, start + delay);
    timers.arm(c, start + delay);
    timers.disarm(b);
    timers.disarm(b);
    CHECK_FALSE(b.armed());
    timers.disarm(a);
    timers.disarm(c);
    CHECK(timers.empty());
    CHECK(timers.next_deadline() == time_point::max());
  }
  CHECK(timers.expire(start + 10000h) == 0);
  CHECK(fired.empty());
}

TEST_CASE("a deadline may be in the past, at the end of time, or after a delay of zero") {
  list fired;
  timer_queue timers(start);
  SUBCASE("with wheels") { timers.make_wheels(); }
  SUBCASE("without") {}
  timer past(fired, 1), zero(fired, 2), never(fired, 3), forever(fired, 4);
  timers.arm(past, start - 1h);
  timers.arm(zero, start);
  timers.arm(never, time_point::max());
  timers.arm_after(forever, nanoseconds::max());
  CHECK(timers.expire(start) == 2);
  CHECK(fired == list{1, 2});
  CHECK(timers.next_deadline() > start + 24h * 365 * 200);
  CHECK(timers.expire(start + 24h * 365 * 200) == 0);
  timers.disarm(never);
  timers.disarm(forever);
  CHECK(timers.empty());
}

TEST_CASE("time that runs backwards counts as standing still") {
  list fired;
  timer_queue timers(start);
  timer a(fired, 1);
  timers.expire(start + 1h);
  timers.arm(a, start + 1h + 1s);
  CHECK(timers.expire(start - 1h) == 0);
  CHECK(timers.expire(start + 2h) == 1);
}

TEST_CASE("arm_after counts from the time of the next call") {
  list fired;
  timer_queue timers(start);
  timer a(fired, 1), b(fired, 2), c(fired, 3);
  timers.arm_after(a, 10ms);
  timers.arm_after(b, 5ms);
  timers.arm_after(c, 7ms);
  timers.disarm(c);
  timers.expire(start + 1h);
  CHECK(timers.expire(start + 1h + 5ms - 1ns) == 0);
  CHECK(timers.expire(start + 1h + 5ms + tick) == 1);
  CHECK(timers.expire(start + 1h + 10ms - 1ns) == 0);
  CHECK(timers.expire(start + 1h + 10ms + tick) == 1);
  CHECK(fired == list{2, 1});
}

TEST_CASE("arm_after without a positive delay fires at the next expire, whatever the time") {
  list fired;
  timer_queue timers(start);
  timer a(fired, 1), b(fired, 2);
  timers.arm_after(a, 0ns);
  timers.arm_after(b, -1h);
  CHECK(timers.expire(start + 1ns) == 2);
}

TEST_CASE("a callback may arm, disarm and destroy timers, and timers that it makes due wait for the next expire") {
  list fired;
  timer_queue timers(start);
  auto victim = std::make_unique<timer>(fired, 2);
  timer cancelled(fired, 3), again(fired, 4);
  calling_timer first([&] {
    fired.push_back(1);
    timers.disarm(*victim);
    victim.reset();
    timers.disarm(cancelled);
    timers.arm(again, start);
    timers.arm(first, start);
  });
  timers.arm(first, start + 1ms);
  timers.arm(*victim, start + 1ms);
  timers.arm(cancelled, start + 2ms);
  CHECK(timers.expire(start + 1s) == 1);
  CHECK(timers.any_due());
  first.function = [&] { fired.push_back(5); };
  CHECK(timers.expire(start + 1s) == 2);
  CHECK(fired == list{1, 4, 5});
  CHECK(timers.empty());
}

TEST_CASE("a timer may destroy itself when it fires") {
  timer_queue timers(start);
  std::unique_ptr<calling_timer> self;
  bool called = false;
  self = std::make_unique<calling_timer>([&] {
    called = true;
    const auto function = std::move(self->function);  // which must outlive the call
    self.reset();
  });
  timers.arm(*self, start);
  timers.expire(start);
  CHECK(called);
}

TEST_CASE("a callback's exception comes out of fire, and the timers behind it stay due") {
  list fired;
  timer_queue timers(start);
  calling_timer bad([] { throw std::runtime_error("bad"); });
  timer good(fired, 1);
  timers.arm(bad, start);
  timers.arm(good, start);
  CHECK_THROWS_AS(timers.expire(start), std::runtime_error);
  CHECK(timers.any_due());
  CHECK(timers.expire(start) == 1);
}

TEST_CASE("fire takes no more than the given number and keeps the rest due") {
  list fired;
  timer_queue timers(start);
  std::vector<std::unique_ptr<timer>> many;
  for (int i = 0; i < 10; ++i) {
    many.push_back(std::make_unique<timer>(fired, i));
    timers.arm(*many.back(), start + i * 1ms);
  }
  timers.collect(start + 1s);
  CHECK(timers.fire(4) == 4);
  timers.disarm(*many[5]);
  CHECK(timers.next_deadline() <= start + 1s);
  CHECK(timers.fire(3) == 3);
  CHECK(timers.fire(100) == 2);
  CHECK(fired == list{0, 1, 2, 3, 4, 6, 7, 8, 9});
}

TEST_CASE("take_due hands over timers that are due instead of firing them") {
  list fired;
  timer_queue timers(start);
  timer first(fired, 1), second(fired, 2), later(fired, 3);
  timers.arm(second, start + 2ms);
  timers.arm(first, start + 1ms);
  timers.arm(later, start + 1s);
  timers.collect(start + 10ms);
  std::vector<const void*> taken;
  const auto take = [&taken](auto& node) { taken.push_back(&node); };
  CHECK(timers.take_due(1, take) == 1);
  CHECK(timers.take_due(64, take) == 1);
  CHECK(taken == std::vector<const void*>{&first, &second});
  CHECK(fired.empty());
}

TEST_CASE("clear hands over each timer once") {
  list fired;
  timer_queue timers(start);
  SUBCASE("with wheels") { timers.make_wheels(); }
  SUBCASE("without") {}
  std::vector<std::unique_ptr<timer>> many;
  for (int i = 0; i < 60; ++i) {
    many.push_back(std::make_unique<timer>(fired, i));
    timers.arm(*many.back(), start + nanoseconds(std::int64_t{1} << i));
  }
  timers.arm_after(*many.emplace_back(std::make_unique<timer>(fired, 60)), 1s);
  int count = 0;
  timers.clear([&](timer_node& node) {
    CHECK_FALSE(node.armed());
    ++count;
  });
  CHECK(count == 61);
  CHECK(timers.empty());
}

TEST_CASE("the next deadline of a crowded slot is not late, and reaches the timer in a few steps") {
  list fired;
  timer_queue timers(start);
  std::vector<std::unique_ptr<timer>> many;
  for (int i = 0; i < 100; ++i) {
    many.push_back(std::make_unique<timer>(fired, i));
    timers.arm(*many.back(), start + 30min + (99 - i) * 1ms);
  }
  time_point now = start;
  int steps = 0;
  while (fired.empty()) {
    const time_point next = timers.next_deadline();
    REQUIRE(next > now);
    REQUIRE(next < start + 30min + tick);
    now = next;
    timers.expire(now);
    ++steps;
  }
  CHECK(steps <= 4);
  CHECK(fired == list{99});
}

namespace {

/// 200 timers for one tick in the next slot of the second wheel, in which a slot has 128 ticks. A timer that is earlier
/// lets them move down a few at a time, and the first ones have.
struct half_moved {
  explicit half_moved(time_point due_at = start + 500 * tick) : due(due_at) {
    timers.make_wheels();
    for (int i = 0; i < 200; ++i) {
      many.push_back(std::make_unique<timer>(fired, i));
      timers.arm(*many.back(), due);
    }
    timers.arm(earlier, start + 300 * tick);
    CHECK(timers.expire(start + 256 * tick) == 0);
  }
  const time_point due;
  list fired;
  timer_queue timers{start};
  std::vector<std::unique_ptr<timer>> many;
  timer earlier{fired, -1};
};

}  // namespace

TEST_CASE(
    "a slot's timers move down in parts, and a timer of the same tick that is armed meanwhile fires behind them") {
  half_moved slot;
  CHECK(slot.timers.next_deadline() == start + 300 * tick);
  timer later(slot.fired, 200);
  slot.timers.arm(later, slot.due);
  slot.timers.disarm(*slot.many[3]);
  slot.timers.disarm(*slot.many[190]);
  list expected{-1};
  for (int i = 0; i < 201; ++i) {
    if (i != 3 && i != 190) expected.push_back(i);
  }
  SUBCASE("in small steps") {
    for (int i = 257; i < 500; ++i) slot.timers.expire(start + i * tick);
  }
  SUBCASE("in one") {}
  slot.timers.expire(slot.due - 1ns);
  CHECK(slot.fired == list{-1});
  slot.timers.expire(slot.due);
  CHECK(slot.fired == expected);
  CHECK(slot.timers.empty());
}

TEST_CASE("timers of the first tick of a slot keep their order if the time jumps there while some of them have moved") {
  half_moved slot(start + 384 * tick);
  slot.timers.expire(start + 400 * tick);
  list expected{-1};
  for (int i = 0; i < 200; ++i) expected.push_back(i);
  CHECK(slot.fired == expected);
}

TEST_CASE("the next deadline is not behind what has not moved yet") {
  half_moved slot;
  slot.timers.disarm(slot.earlier);
  CHECK(slot.timers.next_deadline() == start + 384 * tick);  // the slot's first tick
  CHECK(slot.timers.expire(start + 260 * tick) == 0);        // nothing is before them: all move
  CHECK(slot.timers.next_deadline() == slot.due);
}

TEST_CASE("timers may be disarmed while they move") {
  half_moved slot;
  slot.timers.disarm(slot.earlier);
  for (std::size_t i = 199; i != 5; --i) slot.timers.disarm(*slot.many[i]);
  CHECK(slot.timers.next_deadline() == slot.due);  // all that is left has moved
  int count = 0;
  slot.timers.clear([&count](timer_node&) { ++count; });
  CHECK(count == 6);
  CHECK(slot.timers.empty());
}

TEST_CASE("the timer that would pass more than 16 others makes the wheels, and no other does") {
  list fired;
  timer_queue timers(start);
  std::vector<std::unique_ptr<timer>> many;
  list expected;
  for (int i = 0; i < 100; ++i) {
    many.push_back(std::make_unique<timer>(fired, i));
    timers.arm(*many.back(), start + (1000 + i) * tick);
    expected.push_back(i);
    if (i == 82) expected.push_back(300);
    if (i == 83) expected.push_back(200);
  }
  timer sixteen(fired, 200), seventeen(fired, 300);
  const testing::alloc_counter counter;
  timers.arm(sixteen, start + 1083 * tick);  // behind its equal: passes 84 to 99
  CHECK_FALSE(timers.has_wheels());
  CHECK(counter.calls() == 0);
  timers.disarm(sixteen);
  timers.arm(seventeen, start + 1082 * tick);
  CHECK(timers.has_wheels());
  CHECK(counter.calls() == 1);
  timers.arm(sixteen, start + 1083 * tick);
  CHECK(timers.expire(start + 2000 * tick) == 102);
  CHECK(fired == expected);
  CHECK(timers.has_wheels());  // they stay
  const testing::alloc_counter again;
  timers.make_wheels();
  CHECK(again.calls() == 0);
}

TEST_CASE("timers of one tick keep the order in which they were armed when the wheels come") {
  list fired;
  timer_queue timers(start);
  std::vector<std::unique_ptr<timer>> many;
  const auto arm = [&](int id, nanoseconds at) {
    timers.arm(*many.emplace_back(std::make_unique<timer>(fired, id)), start + at);
  };
  const nanoseconds far = 400h;  // beyond the wheels
  for (int i = 0; i < 8; ++i) arm(i, 300 * tick);
  for (int i = 20; i < 28; ++i) arm(i, far);
  for (int i = 8; i < 10; ++i) arm(i, 300 * tick);
  REQUIRE_FALSE(timers.has_wheels());
  arm(-1, 299 * tick);
  REQUIRE(timers.has_wheels());
  for (int i = 10; i < 12; ++i) arm(i, 300 * tick);
  for (int i = 28; i < 30; ++i) arm(i, far);
  timers.expire(start + 299 * tick);
  arm(12, 300 * tick);
  CHECK(timers.next_deadline() == start + 300 * tick);
  CHECK(timers.expire(start + 1000h) == 23);
  list expected{-1};
  for (int i = 0; i < 13; ++i) expected.push_back(i);
  for (int i = 20; i < 30; ++i) expected.push_back(i);
  CHECK(fired == expected);
}

TEST_CASE("without wheels, the next deadline is that of the first timer, however many there are") {
  list fired;
  timer_queue timers(start);
  std::vector<std::unique_ptr<timer>> many;
  for (int i = 0; i < 1000; ++i) {
    many.push_back(std::make_unique<timer>(fired, i));
    timers.arm(*many.back(), start + (70'000 + i) * tick);
  }
  for (int i = 0; i < 1000; ++i) {
    CHECK(timers.next_deadline() == start + (70'000 + i) * tick);
    CHECK(timers.expire(timers.next_deadline()) == 1);
  }
  CHECK(timers.next_deadline() == time_point::max());
  CHECK_FALSE(timers.has_wheels());
}

TEST_CASE("without memory for the wheels the timers stay in order, and the wheels come when there is memory") {
  list fired;
  timer_queue timers(start);
  std::vector<std::unique_ptr<timer>> many;
  list expected;
  for (int i = 0; i < 100; ++i) {
    many.push_back(std::make_unique<timer>(fired, 99 - i));
    expected.push_back(i);
  }
  {
    const testing::no_memory none;
    for (int i = 0; i < 99; ++i) timers.arm(*many[static_cast<std::size_t>(i)], start + 1h - i * tick);
  }
  CHECK_FALSE(timers.has_wheels());
  CHECK(timers.next_deadline() >= start + 1h - 98 * tick);
  CHECK(timers.next_deadline() < start + 1h - 97 * tick);
  {
    const testing::no_memory none;
    CHECK_THROWS_AS(timers.make_wheels(), std::bad_alloc);
  }
  CHECK_FALSE(timers.has_wheels());
  timers.arm(*many[99], start + 1h - 99 * tick);
  CHECK(timers.has_wheels());
  CHECK(timers.expire(start + 2h) == 100);
  CHECK(fired == expected);
}

TEST_CASE("a queue of the same origin is armed for another one's next deadline without a second rounding") {
  list fired;
  const time_point odd = start + 12'345ns;
  timer_queue own(odd);
  timer_queue of_all(own.origin());
  CHECK(own.origin() == odd);
  for (const nanoseconds delay : {1ns, 65'535ns, 65'537ns, 1'000'000ns, 3'600'000'000'000ns}) {
    timer t(fired, 1), for_queue(fired, 2);
    own.arm(t, odd + delay);
    const time_point next = own.next_deadline();
    of_all.arm(for_queue, next);
    CHECK(of_all.next_deadline() == next);
    CHECK(next - (odd + delay) < tick);
    of_all.disarm(for_queue);
    own.disarm(t);
  }
}
