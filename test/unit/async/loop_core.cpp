// SPDX-License-Identifier: BSL-1.0
//
// The interface for flows and pools: runnables, timers, messages, extensions, references.
#include "async/detail/loop/loop_core.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "async/detail/loop/loop_entry.hpp"
#include "async/detail/loop/loop_ref.hpp"
#include "async/event_loop.hpp"
#include "async/manual_clock.hpp"

using async::event_loop;
using async::manual_clock;
using namespace async::detail;
using namespace std::chrono_literals;
using list = std::vector<int>;

namespace {

struct runner : runnable {
  runner(loop_core& c, std::function<void()> f) : runnable(&call), core(c), function(std::move(f)) {
    core.ready().reserve(1);
  }
  ~runner() { core.ready().unreserve(1); }
  static void call(runnable& r) { static_cast<runner&>(r).function(); }
  loop_core& core;
  std::function<void()> function;
};

struct letter : message {
  explicit letter(std::function<void(delivery)> f) : message(&call), function(std::move(f)) {}
  static void call(message& m, delivery how) { static_cast<letter&>(m).function(how); }
  std::function<void(delivery)> function;
};

}  // namespace

TEST_CASE("runnables run in order, and those that they push wait for the next turn") {
  event_loop loop;
  loop_core& core = core_of(loop);
  CHECK(&core.loop() == &loop);
  list ran;
  runner a(core, [&] {
    ran.push_back(1);
    if (ran.size() < 5) core.ready().push(a);
  });
  runner b(core, [&] { ran.push_back(2); });
  core.ready().push(a);
  core.ready().push(b);
  CHECK(core.turn().have_work);
  CHECK(ran == list{1, 2});
  while (core.turn().have_work) {
  }
  CHECK(ran == list{1, 2, 1, 1, 1});
}

TEST_CASE("a runnable may erase its neighbour, which does not run") {
  event_loop loop;
  loop_core& core = core_of(loop);
  list ran;
  runner b(core, [&] { ran.push_back(2); });
  runner a(core, [&] { core.ready().erase(b); });
  core.ready().push(a);
  core.ready().push(b);
  CHECK_FALSE(core.turn().have_work);
  CHECK(ran.empty());
}

TEST_CASE("a turn runs the runnables from its begin, also when some are erased and the queue is rearranged") {
  event_loop loop;
  loop_core& core = core_of(loop);
  int ran = 0;
  int later = 0;
  std::vector<std::unique_ptr<runner>> others;
  std::vector<std::unique_ptr<runner>> made;
  runner again(core, [&] { ++later; });
  std::function<void()> rearrange;
  int pushed = 0;
  SUBCASE("because it is full") {
    pushed = 1;
    rearrange = [&] {
      for (int i = 0; i < 100; ++i) {
        core.ready().push(again);
        core.ready().erase(again);
      }
      core.ready().push(again);
    };
  }
  SUBCASE("because it grows") {
    pushed = 100;
    rearrange = [&] {
      for (int i = 0; i < 100; ++i) {
        core.ready().push(*made.emplace_back(std::make_unique<runner>(core, [&] { ++later; })));
      }
    };
  }
  runner first(core, [&] {
    for (int i = 0; i < 40; ++i) core.ready().erase(*others[static_cast<std::size_t>(i)]);
    rearrange();
  });
  core.ready().push(first);
  for (int i = 0; i < 50; ++i) {
    core.ready().push(*others.emplace_back(std::make_unique<runner>(core, [&] { ++ran; })));
  }
  CHECK(core.turn().have_work);
  CHECK(ran == 10);
  CHECK(later == 0);
  CHECK_FALSE(core.turn().have_work);
  CHECK(later == pushed);
}

TEST_CASE("messages are delivered on the loop in order, and only the first of a sleep wakes") {
  int woken = 0;
  event_loop loop([&] { ++woken; });
  loop_core& core = core_of(loop);
  list got;
  letter a([&](delivery how) { got.push_back(how == delivery::on_loop ? 1 : -1); });
  letter b([&](delivery how) { got.push_back(how == delivery::on_loop ? 2 : -2); });
  core.turn();
  CHECK(core.push(a));
  CHECK(core.push(b));
  CHECK(woken == 1);
  CHECK(got.empty());
  core.turn();
  CHECK(got == list{1, 2});
}

TEST_CASE("a message that is on its way can be taken back, and the others arrive in order") {
  event_loop loop;
  loop_core& core = core_of(loop);
  list got;
  std::vector<std::unique_ptr<letter>> letters;
  for (int i = 0; i < 5; ++i) letters.push_back(std::make_unique<letter>([&got, i](delivery) { got.push_back(i); }));
  CHECK_FALSE(core.retract(*letters[0]));
  for (int i = 0; i < 3; ++i) core.push(*letters[static_cast<std::size_t>(i)]);
  CHECK(core.retract(*letters[1]));
  CHECK_FALSE(core.retract(*letters[1]));
  core.push(*letters[3]);
  core.push(*letters[4]);
  CHECK(core.retract(*letters[4]));
  CHECK(core.retract(*letters[0]));
  core.turn();
  CHECK(got == list{2, 3});
  CHECK(core.push(*letters[1]));
  core.turn();
  CHECK(got == list{2, 3, 1});
}

TEST_CASE("any thread gets an entry between turns, but in a turn only its thread") {
  event_loop loop;
  loop_core& core = core_of(loop);
  const auto enters_elsewhere = [&](loop_entry::who who) {
    bool given = false;
    std::thread([&] {
      const loop_entry entry(core, who);
      given = bool(entry);
      if (given) CHECK(current_loop == &core);
    }).join();
    return given;
  };
  CHECK(enters_elsewhere(loop_entry::who::anybody));
  CHECK_FALSE(enters_elsewhere(loop_entry::who::owner));
  CHECK(core.is_same_thread());  // the owner still
  {
    const loop_entry entry(core, loop_entry::who::owner);
    CHECK(bool(entry));
    CHECK(current_loop == &core);
    const loop_entry nested(core, loop_entry::who::owner);
    CHECK(bool(nested));
    CHECK_FALSE(enters_elsewhere(loop_entry::who::anybody));
  }
  CHECK(current_loop == nullptr);
  loop.immediate([&] {
    CHECK(bool(loop_entry(core, loop_entry::who::owner)));
    CHECK_FALSE(enters_elsewhere(loop_entry::who::anybody));
  });
  core.turn();
  CHECK(enters_elsewhere(loop_entry::who::anybody));
  core.disown();
  CHECK_FALSE(core.is_same_thread());
  core.adopt();
  CHECK(core.is_same_thread());
}

TEST_CASE("an entry into another loop, and from there into the loop around it, leaves that one to its turn") {
  event_loop outer;
  event_loop inner;
  bool is_given = true;
  outer.immediate([&] {
    {
      const loop_entry within(core_of(inner));
      CHECK(within);
      const loop_entry back(core_of(outer));
      CHECK(back);
    }
    CHECK(event_loop::current() == &outer);
    std::thread([&] { is_given = static_cast<bool>(loop_entry(core_of(outer))); }).join();
  });
  outer.iterate();
  CHECK_FALSE(is_given);
}

TEST_CASE("a message may be pushed again when it is delivered, and a flood of them is bounded in each turn") {
  event_loop loop;
  loop_core& core = core_of(loop);
  int count = 0;
  letter again([&](delivery) {
    if (++count < 3) core.push(again);
  });
  core.push(again);
  core.turn();
  CHECK(count == 1);
  core.turn();
  core.turn();
  CHECK(count == 3);
  std::vector<std::unique_ptr<letter>> many;
  for (int i = 0; i < 1000; ++i) {
    core.push(*many.emplace_back(std::make_unique<letter>([&](delivery) { ++count; })));
  }
  CHECK(core.turn().delay == 0ns);
  CHECK(count == 3 + 256);
  letter last([&](delivery) { CHECK(count == 3 + 1000); });
  core.push(last);
  while (core.turn().have_work) {
  }
  CHECK(count == 3 + 1000);
}

TEST_CASE("a loop that ends drops messages, and calls runnables and timers while closing") {
  list gone;
  struct closing_timer : timer_node {
    closing_timer(loop_core& c, list& l) : timer_node(&call), core(c), out(l) {}
    static void call(timer_node& n) {
      auto& self = static_cast<closing_timer&>(n);
      self.out.push_back(self.core.closing() ? 3 : -3);
    }
    loop_core& core;
    list& out;
  };
  letter dropped([&](delivery how) { gone.push_back(how == delivery::dropped ? 1 : -1); });
  {
    auto loop = std::make_unique<event_loop>();
    loop_core& core = core_of(*loop);
    struct waiting : runnable {
      waiting(loop_core& c, list& l) : runnable(&call), core(c), out(l) {}
      static void call(runnable& r) {
        auto& self = static_cast<waiting&>(r);
        self.out.push_back(self.core.closing() && current_loop == &self.core ? 2 : -2);
      }
      loop_core& core;
      list& out;
    } ready(core, gone);
    closing_timer timer(core, gone);
    closing_timer soon(core, gone);
    core.ready().reserve(1);
    core.ready().push(ready);
    core.timers().arm(timer, core.now() + 1h);
    core.timers().arm_after(soon, 1h);
    core.push(dropped);
    loop.reset();
  }
  std::sort(gone.begin(), gone.end());
  CHECK(gone == list{1, 2, 3, 3});
}

TEST_CASE("a pool's loop begins small, and runs more runnables and timers than it begins with") {
  if constexpr (sizeof(void*) == 8) CHECK(sizeof(loop_core) <= 256);
  event_loop ordinary;
  CHECK(core_of(ordinary).timers().has_wheels());
  async::detail::loop_setting setting;
  setting.current = &loop_core::current;
  setting.destroy = [](loop_core& of) noexcept { delete &of; };
  loop_core& core = *new loop_core(nullptr, setting, async::detail::wait_clock::now());
  CHECK_FALSE(core.timers().has_wheels());
  CHECK(core.trim() == 0);
  struct noting_timer : timer_node {
    noting_timer(list& l, int n) : timer_node(&call), out(l), number(n) {}
    static void call(timer_node& n) {
      auto& self = static_cast<noting_timer&>(n);
      self.out.push_back(self.number);
    }
    list& out;
    int number;
  };
  list ran;
  list expected;
  std::vector<std::unique_ptr<runner>> runners;
  std::vector<std::unique_ptr<noting_timer>> timers;
  const auto before = std::chrono::steady_clock::now();
  for (int i = 0; i < 40; ++i) {
    core.ready().push(*runners.emplace_back(std::make_unique<runner>(core, [&ran, i] { ran.push_back(i); })));
    core.timers().arm_after(*timers.emplace_back(std::make_unique<noting_timer>(ran, 79 - i)), 400ms - i * 1ms);
    expected.push_back(i);
  }
  for (int i = 40; i < 80; ++i) expected.push_back(i);
  auto cycle = core.turn();
  CHECK(cycle.have_work);
  CHECK(cycle.delay >= 361ms - (std::chrono::steady_clock::now() - before));
  CHECK(cycle.delay < 361ms + 100us);
  CHECK(core.timers().has_wheels());
  for (; cycle.have_work; cycle = core.turn()) std::this_thread::sleep_for(cycle.delay);
  CHECK(ran == expected);
  runners.clear();
  core.close();
  core.release();
}

TEST_CASE("a reference outlives the loop and reports that it is gone") {
  loop_ref none;
  letter m([](delivery) { FAIL("delivered"); });
  CHECK_FALSE(none);
  CHECK_FALSE(none.push(m));
  CHECK_FALSE(none.is_same_thread());
  loop_ref ref;
  {
    event_loop loop;
    ref = loop_ref(core_of(loop));
    CHECK(ref.get() == &core_of(loop));
    CHECK(ref.is_same_thread());
    int got = 0;
    letter first([&](delivery) { ++got; });
    CHECK(ref.push(first));
    loop.iterate();
    CHECK(got == 1);
  }
  const loop_ref copy = ref;
  CHECK(ref);
  CHECK_FALSE(copy.push(m));
  CHECK_FALSE(copy.is_same_thread());
  std::thread([copy, &m] { CHECK_FALSE(copy.push(m)); }).join();
}

TEST_CASE("a loop that ends destroys its hook and the function of its embedder, also when a reference is left") {
  const auto captured = std::make_shared<int>();
  loop_ref ref;
  {
    event_loop loop([captured] {});
    loop.on_unhandled([captured](std::exception_ptr) {});
    ref = loop_ref(core_of(loop));
    CHECK(captured.use_count() == 3);
  }
  CHECK(ref);
  CHECK(captured.use_count() == 1);
}

TEST_CASE("a loop does not end before the cancellation that another thread owes it has come") {
  auto loop = std::make_unique<event_loop>();
  loop_core& core = core_of(*loop);
  letter owed([&](delivery how) {
    CHECK(how == delivery::dropped);
    core.owe_cancel(-1);
  });
  core.owe_cancel(+1);
  bool taken = false;
  std::thread other([&] {
    std::this_thread::sleep_for(5ms);
    taken = core.push(owed);
  });
  const loop_ref keeps_core(core);
  loop.reset();
  other.join();
  CHECK(taken);
}

TEST_CASE("a loop without owner gets one when it is adopted or run") {
  event_loop loop;
  loop_core& core = core_of(loop);
  core.disown();
  CHECK_FALSE(core.is_same_thread());
  int ran = 0;
  auto h = loop.immediate([&] { ++ran; });  // through the inbox
  std::thread([&] {
    core.adopt();
    CHECK(core.is_same_thread());
    core.turn();
  }).join();
  CHECK(ran == 1);
}

TEST_CASE("an extension is made once for each loop, and closed before the loop drops its work") {
  struct part {
    list log;
    loop_core* core = nullptr;
    timer_node timer{[](timer_node&) { FAIL("fired"); }};
    letter last{[this](delivery how) { log.push_back(how == delivery::dropped ? 2 : -2); }};
  };
  struct head {
    part* first = nullptr;
    void close() noexcept {
      first->log.push_back(1);
      first->core->timers().disarm(first->timer);
      first->core->push(first->last);
    }
  };
  part here;
  part there;
  {
    event_loop loop;
    event_loop second;
    here.core = &core_of(loop);
    there.core = &core_of(second);
    head& made = here.core->extension<head>();
    made.first = &here;
    here.core->timers().arm(here.timer, here.core->now());
    CHECK(&here.core->extension<head>() == &made);
    CHECK(there.core->extension<head>().first == nullptr);
    there.core->extension<head>().first = &there;
    CHECK(here.core->extension<head>().first == &here);
  }
  CHECK(here.log == list{1, 2});
  CHECK(there.log == list{1, 2});
}

TEST_CASE("arm_after of the loop's timers counts from the loop's next look at the clock, also across a sleep") {
  manual_clock clock;
  event_loop loop(clock);
  loop_core& core = core_of(loop);
  struct stopper : timer_node {
    explicit stopper(event_loop& l) : timer_node(&call), loop(l) {}
    static void call(timer_node& n) { static_cast<stopper&>(n).loop.stop(); }
    event_loop& loop;
  } timer(loop);
  const auto begin = clock.now();
  core.timers().arm_after(timer, 5s);
  loop.run();
  CHECK(clock.now() - begin >= 5s);
  CHECK(clock.now() - begin < 5s + 100us);
  CHECK(core.turn_time() == clock.now());
  loop.immediate([&] { core.timers().arm_after(timer, 5s); });
  const auto result = loop.iterate();
  CHECK(result.delay >= 5s);
  CHECK(result.delay < 5s + 100us);
  loop.run();
  CHECK(clock.now() - begin >= 10s);
}
