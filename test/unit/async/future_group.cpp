// SPDX-License-Identifier: BSL-1.0
//
// future_group: any number of futures that end together.
#include "async/future_group.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "async/async.hpp"
#include "steps/interop/coroutine.hpp"
#include "steps/steps.hpp"
#include "support/live_count.hpp"
#include "support/occupied.hpp"
#include "support/scale.hpp"

using steps::ErrorCode;
using steps::IAsyncSteps;
using namespace std::chrono_literals;

namespace {

/// What a when_empty() throws; "" if nothing.
std::string text_of(const async::shared_future<void>& end) {
  try {
    end.get();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

/// A flow that waits until it is cancelled. `waiting` counts those that have begun, `ended` cancel handlers.
struct sleepers {
  std::atomic<int> waiting{0};
  std::atomic<int> ended{0};

  template <class Place>
  async::future<void> start(Place& place) {
    return steps::post(place, [this](IAsyncSteps& asi) {
      asi.setCancel([this](IAsyncSteps&) { ++ended; });
      asi.waitExternal();
      ++waiting;
      waiting.notify_all();
    });
  }
  void wait_for(int count) {
    for (int seen = waiting; seen != count; seen = waiting) waiting.wait(seen);
  }
};

}  // namespace

TEST_CASE("future_group: is empty with the last of its members, of whatever type") {
  async::promise<int> number;
  async::promise<std::unique_ptr<int>> owner;
  async::promise<void> nothing;
  async::future_group group;
  CHECK(group.size() == 0);
  CHECK(group.when_empty().is_ready());

  group.add(number.get_future());
  group.add(owner.get_future());
  group.add(nothing.get_future());
  const async::shared_future<void> end = group.when_empty();
  nothing.set_value();
  number.set_value(1);
  CHECK(group.size() == 1);
  CHECK_FALSE(end.is_ready());
  owner.set_value(std::make_unique<int>(2));
  CHECK(end.is_ready());
  CHECK(group.size() == 0);
  end.get();
}

TEST_CASE("future_group: a future that is ready is no member") {
  async::future_group group;
  group.add(async::make_ready_future(1));
  CHECK(group.size() == 0);
  group.when_empty().get();
  group.add(async::make_exceptional_future<int>(std::make_exception_ptr(std::runtime_error("early"))));
  CHECK(group.size() == 0);
  CHECK_FALSE(group.is_cancelling());
  CHECK(text_of(group.when_empty()) == "early");
}

TEST_CASE("future_group: refuses a future without a state") {
  async::future_group group;
  CHECK_THROWS_AS(group.add(async::future<int>()), std::future_error);
  CHECK(group.when_empty().is_ready());
}

TEST_CASE("future_group: a shared future is a member whose value and exception its holders keep") {
  async::threadpool pool(2);
  async::future_group group;
  const auto value = std::make_shared<int>(7);
  async::promise<std::shared_ptr<int>> promise;
  async::promise<int> failing;
  const async::shared_future<std::shared_ptr<int>> shared = promise.get_future().share();
  const async::shared_future<int> failed = failing.get_future().share();
  group.add(shared);
  group.add(shared);
  group.add(failed);
  CHECK(group.size() == 3);
  promise.set_value(value);
  CHECK(group.size() == 1);
  CHECK(shared.get() == value);
  failing.set_exception(std::make_exception_ptr(std::runtime_error("of one")));
  CHECK(text_of(group.when_empty()) == "of one");
  CHECK_THROWS_WITH(failed.get(), "of one");
  CHECK_THROWS_AS(group.add(async::shared_future<int>()), std::future_error);
  CHECK(group.size() == 0);
}

TEST_CASE("future_group: cancel() of the group reaches a shared future, for all its holders") {
  async::threadpool pool(1);
  async::future_group group;
  const testing::occupied worker(pool, 1);
  const async::shared_future<int> one = pool.post([] { return 1; }), other = pool.post([] { return 2; });
  group.add(one.then([](const async::shared_future<int>&) {}));  // a member that one.cancel() does not fail
  group.add(other);
  CHECK(one.cancel());
  CHECK(group.size() == 1);
  CHECK(group.cancel() == 1);
  CHECK_THROWS_AS(other.get(), async::dropped_call);
  CHECK(text_of(group.when_empty()) == "");
}

TEST_CASE("future_group: the first exception cancels the others") {
  async::threadpool pool(1);
  async::threadpool paused(0);
  sleepers flows;
  async::promise<int> failing;
  async::future_group group;
  bool is_made = false;
  group.add(flows.start(pool));
  group.add(paused.post([&is_made] { is_made = true; }));
  group.add(failing.get_future());
  flows.wait_for(1);
  const async::shared_future<void> end = group.when_empty();
  CHECK_FALSE(group.is_cancelling());
  failing.set_exception(std::make_exception_ptr(std::runtime_error("first")));
  CHECK(text_of(end) == "first");
  CHECK(flows.ended == 1);
  CHECK_FALSE(group.is_cancelling());
  paused.configurepool(1);
  paused.wait_idle();
  CHECK_FALSE(is_made);
  CHECK(text_of(group.when_empty()) == "first");  // until there are other members
  group.add(async::make_ready_future());
  CHECK(text_of(group.when_empty()) == "");
}

TEST_CASE("future_group: with keep_others an exception cancels no other member, and the first one is told") {
  async::threadpool pool(2);
  async::future_group group(async::future_group::on_error::keep_others);
  sleepers flows;
  group.add(flows.start(pool));
  flows.wait_for(1);
  async::promise<int> first, second, third;
  group.add(first.get_future());
  group.add(second.get_future());
  group.add(third.get_future());
  first.set_exception(std::make_exception_ptr(std::runtime_error("first")));
  second.set_exception(std::make_exception_ptr(std::runtime_error("second")));
  CHECK(!group.is_cancelling());
  CHECK(group.size() == 2);
  CHECK(flows.ended == 0);
  async::promise<int> later;
  group.add(later.get_future());
  later.set_value(1);
  third.set_value(2);
  CHECK(group.size() == 1);
  CHECK(group.cancel() == 1);  // which is asked for
  CHECK(group.is_cancelling());
  CHECK(text_of(group.when_empty()) == "first");
  CHECK(flows.ended == 1);

  CHECK(text_of(group.when_empty()) == "first");
  async::promise<int> new_one;
  group.add(new_one.get_future());  // told: forgotten with the next member
  new_one.set_exception(std::make_exception_ptr(std::runtime_error("new")));
  CHECK(text_of(group.when_empty()) == "new");
}

TEST_CASE("future_group: keeps an exception until a when_empty() tells it, and goes on cancelling") {
  async::threadpool paused(0);
  async::future_group group;
  const auto fail = [](const char* text) {
    return async::make_exceptional_future<void>(std::make_exception_ptr(std::runtime_error(text)));
  };
  group.add(fail("first"));
  async::promise<void> last;
  group.add(last.get_future());
  CHECK_FALSE(group.is_cancelling());
  group.add(paused.post([] {}));
  CHECK(group.size() == 2);
  group.add(fail("second"));
  CHECK(group.is_cancelling());
  CHECK(group.size() == 1);
  const async::shared_future<void> end = group.when_empty();
  last.set_value();
  CHECK(text_of(end) == "first");
  group.add(async::make_ready_future());
  CHECK(text_of(group.when_empty()) == "");
}

TEST_CASE("future_group: forgets an exception with the next member after it was told, and keeps that member's") {
  async::future_group group;
  const auto fail = [&group](const char* text) {
    async::promise<void> member;
    group.add(member.get_future());
    member.set_exception(std::make_exception_ptr(std::runtime_error(text)));
  };
  fail("first");
  CHECK(text_of(group.when_empty()) == "first");
  fail("second");
  group.add(async::make_ready_future());
  CHECK(text_of(group.when_empty()) == "second");
  group.add(async::make_ready_future());
  CHECK(text_of(group.when_empty()) == "");
}

TEST_CASE("future_group: all when_empty() of the same members tell the exception") {
  async::promise<void> member;
  async::future_group group;
  group.add(member.get_future());
  const async::shared_future<void> one = group.when_empty();
  const async::shared_future<void> two = group.when_empty();
  member.set_exception(std::make_exception_ptr(std::runtime_error("both")));
  CHECK(text_of(one) == "both");
  CHECK(text_of(two) == "both");
}

TEST_CASE("future_group: cancel() reaches members of all kinds, and those that are added meanwhile") {
  async::threadpool pool(2);
  async::threadpool paused(0);
  sleepers flows;
  async::promise<void> slow;
  async::future_group group;
  group.add(slow.get_future());
  group.add(flows.start(pool));
  group.add(flows.start(pool.loop(0)));
  group.add(paused.post([] {}));
  flows.wait_for(2);
  CHECK(group.cancel() == 4);
  CHECK(group.is_cancelling());
  group.add(paused.post([] {}));  // is dropped at once
  group.add(flows.start(pool));
  const async::shared_future<void> end = group.when_empty();
  CHECK(end.wait_for(0s) == std::future_status::timeout);
  while (group.size() != 1) std::this_thread::yield();
  CHECK(flows.ended == flows.waiting);
  slow.set_value();
  CHECK(text_of(end) == "");  // no broken promises
  CHECK_FALSE(group.is_cancelling());
  CHECK(group.cancel() == 0);
  CHECK_FALSE(group.is_cancelling());

  group.add(pool.post([] {}));
  CHECK(text_of(group.when_empty()) == "");
}

TEST_CASE("future_group: exceptions of members that end because of a cancel are dropped") {
  async::promise<void> one, two;
  async::future_group group;
  group.add(one.get_future());
  group.add(two.get_future());
  group.cancel();
  one.set_exception(std::make_exception_ptr(std::runtime_error("late")));
  const async::shared_future<void> end = group.when_empty();
  two.set_value();
  CHECK(text_of(end) == "");
}

TEST_CASE("future_group: a member that the pool drops is an error, unless the group is cancelled") {
  async::future_group group;
  {
    async::threadpool paused(0);
    group.add(paused.post([] {}));
    paused.stop(async::discard);
  }
  CHECK_THROWS_AS(group.when_empty().get(), async::dropped_call);
}

TEST_CASE("future_group: members add members, from all threads") {
  const std::size_t flows = testing::rounds(2'000);
  async::threadpool pool(4);
  std::atomic<std::size_t> ended{0};
  {
    async::future_group group;
    for (std::size_t i = 0; i != flows; ++i) {
      group.add(steps::post(pool, [&](IAsyncSteps& asi) {
        group.add(pool.post([&] {
          group.add(steps::post(pool, [&](IAsyncSteps&) { ++ended; }));
          ++ended;
        }));
        asi.add([&](IAsyncSteps&) { ++ended; });
      }));
    }
    group.when_empty().get();
    CHECK(ended == 3 * flows);
    CHECK(group.size() == 0);
  }
}

TEST_CASE("future_group: captures and continuations use the group") {
  async::threadpool paused(0);
  async::future_group group;
  struct user {
    explicit user(async::future_group& g) : group(&g) {}
    user(user&& other) noexcept : group(std::exchange(other.group, nullptr)) {}
    ~user() {
      if (group != nullptr) group->add(async::make_ready_future());
      if (group != nullptr) group->cancel();
    }
    async::future_group* group;
  };
  for (int i = 0; i < 3; ++i) group.add(paused.post([mine = user(group)] {}));
  std::size_t seen = 7;
  auto then = group.when_empty().then([&](const async::shared_future<void>&) {
    seen = group.size();
    group.add(async::make_ready_future());
  });
  CHECK(group.cancel() == 3);
  then.get();
  CHECK(seen == 0);
}

TEST_CASE("future_group: the destructor cancels, and waits") {
  async::threadpool pool(2);
  sleepers flows;
  std::string text;  // which the members use
  {
    async::future_group group;
    for (int i = 0; i < 100; ++i) group.add(flows.start(pool));
    std::promise<void> begun;
    group.add(pool.post([&] {
      begun.set_value();
      while (!group.is_cancelling()) std::this_thread::yield();
      text = "the call has ended";
    }));
    begun.get_future().wait();
    flows.wait_for(100);
  }
  CHECK(flows.ended == 100);
  CHECK(text == "the call has ended");
}

TEST_CASE("future_group: nothing of a member is left when the group is empty") {
  struct value : testing::live_count<value> {};
  async::threadpool pool(2);
  for (std::size_t round = testing::rounds(400); round != 0; --round) {
    {
      async::future_group group;
      for (int i = 0; i < 4; ++i) {
        group.add(pool.post([captured = value()] { return value(captured); }));
        group.add(steps::post<value>(pool, [captured = value()](IAsyncSteps& asi) { asi.success(captured); }));
        group.add(pool.post([captured = value()] { throw 1; }));
      }
      if (round % 2 == 0) CHECK_THROWS_AS(group.when_empty().get(), int);
    }
    CHECK(value::live() == 0);
  }
}

TEST_CASE("future_group: the destructor in a task of a pool with one worker") {
  async::threadpool pool(1);
  std::atomic<int> ended{0};
  sleepers flows;
  pool.post([&] {
        async::future_group group;
        group.add(steps::post(pool, [&](IAsyncSteps& asi) {
          asi.setCancel([&](IAsyncSteps&) { ++ended; });
          asi.waitExternal();
        }));
        for (int i = 0; i < 10; ++i) group.add(pool.post([&] { ++ended; }));
        group.when_empty().wait_for(1ms);
      })
      .get();
  CHECK(flows.waiting == 0);
  pool.wait_idle();
  CHECK(ended <= 11);
}

TEST_CASE("future_group: a destructor in a callback of a loop does not wait") {
  async::event_loop loop;
  sleepers flows;
  auto group = std::make_unique<async::future_group>();
  group->add(flows.start(loop));
  while (flows.waiting == 0) loop.iterate();
  loop.post([&] { group.reset(); });
  while (group != nullptr) loop.iterate();
  while (flows.ended == 0) loop.iterate();
  CHECK(flows.ended == 1);
}

TEST_CASE("future_group: the destructor waits where a callback is cancelled between turns") {
  async::threadpool pool(1);
  async::event_loop loop;
  std::atomic<bool> has_begun{false}, has_ended{false};
  auto group = std::make_unique<async::future_group>();
  group->add(pool.post([&] {
    has_begun = true;
    std::this_thread::sleep_for(20ms);
    has_ended = true;
  }));
  while (!has_begun) std::this_thread::yield();
  CHECK(loop.deferred(1h, [owned = std::move(group)] {}).cancel());
  CHECK(has_ended);
}

TEST_CASE("future_group: the destructor waits for continuations of when_empty()") {
  async::threadpool pool(2);
  for (std::size_t round = testing::rounds(400); round != 0; --round) {
    std::atomic<bool> is_told{false};
    bool has_ended = false;
    {
      async::future_group group;
      group.add(pool.post([&is_told] { is_told.wait(false); }));
      static_cast<void>(group.when_empty().then([&](const async::shared_future<void>&) {
        for (int i = 0; i < 10; ++i) std::this_thread::yield();
        has_ended = true;
      }));
      is_told = true;
      is_told.notify_all();
      if (round % 2 == 0) group.when_empty().wait();
    }
    CHECK(has_ended);
  }
}

TEST_CASE("future_group: a continuation of when_empty() destroys the group") {
  async::threadpool pool(2);
  for (std::size_t round = testing::rounds(400); round != 0; --round) {
    std::promise<void> ended;
    const auto wait_for_group = [&]() -> steps::interop::task<> {
      async::future_group group;
      for (int i = 0; i < 3; ++i) group.add(pool.post([] {}));
      co_await group.when_empty();
    };
    auto group = std::make_unique<async::future_group>();
    group->add(steps::interop::start(wait_for_group()));
    async::future_group& members = *group;
    members.when_empty().then([&](const async::shared_future<void>&) {
      group.reset();
      ended.set_value();
    });
    ended.get_future().wait();
    CHECK(group == nullptr);
  }
}

TEST_CASE("future_group: a continuation of when_empty() ends another group, and destroys its own") {
  auto group = std::make_unique<async::future_group>();
  async::future_group other;
  async::promise<void> member, of_other;
  group->add(member.get_future());
  other.add(of_other.get_future());
  other.when_empty().then([](const async::shared_future<void>&) {});
  group->when_empty().then([&](const async::shared_future<void>&) {
    of_other.set_value();
    group.reset();
  });
  member.set_value();
  CHECK(group == nullptr);
}

TEST_CASE("future_group: a continuation of when_empty() destroys the group inside its cancel() and add()") {
  async::threadpool pool(1);
  const testing::occupied all(pool, 1);
  for (const bool by_cancel : {true, false}) {
    auto group = std::make_unique<async::future_group>();
    async::future_group& members = *group;
    members.add(pool.post([] {}));  // has not begun
    members.when_empty().then([&group](const async::shared_future<void>&) { group.reset(); });
    if (by_cancel) {
      CHECK(members.cancel() == 1);
    } else {
      members.add(async::make_exceptional_future<void>(std::make_exception_ptr(std::runtime_error("refused"))));
    }
    CHECK(group == nullptr);
  }
}

TEST_CASE("future_group: a continuation of when_empty() uses the future that add() is taking") {
  async::threadpool pool(1);
  const testing::occupied all(pool, 1);
  for (const bool destroys : {false, true}) {
    async::future_group group;
    group.add(pool.post([] {}));  // has not begun
    auto member = std::make_unique<async::future<int>>(
        async::make_exceptional_future<int>(std::make_exception_ptr(std::runtime_error("refused"))));
    group.when_empty().then([&](const async::shared_future<void>&) {
      CHECK_FALSE(member->valid());
      destroys ? member.reset() : static_cast<void>(*member = async::make_ready_future(7));
    });
    group.add(std::move(*member));
    CHECK(destroys == (member == nullptr));
    if (!destroys) {
      REQUIRE(member->valid());
      CHECK(member->get() == 7);
    }
  }
}

TEST_CASE("future_group: flows and coroutines await it") {
  async::threadpool pool(2);
  for (const bool fails : {false, true}) {
    async::promise<void> member;
    async::future_group group;
    group.add(member.get_future());
    std::string seen;
    async::future<void> flow = steps::post(pool, [&](IAsyncSteps& asi) {
      asi.add([&](IAsyncSteps& step) { step.await(group.when_empty()); },
              [&](IAsyncSteps& step, ErrorCode code) {
                seen = std::string(code);
                step.success();
              });
    });
    async::future<std::string> coroutine = steps::interop::start([&]() -> steps::interop::task<std::string> {
      try {
        co_await group.when_empty();
      } catch (const std::exception& error) {
        co_return error.what();
      }
      co_return "";
    }());
    CHECK_FALSE(coroutine.is_ready());
    if (fails) {
      member.set_exception(std::make_exception_ptr(std::runtime_error("failed")));
    } else {
      member.set_value();
    }
    flow.get();
    CHECK(seen == (fails ? "failed" : ""));
    CHECK(coroutine.get() == seen);
  }
}

TEST_CASE("future_group: add(), cancel() and when_empty() of many threads leave no member behind") {
  struct captured : testing::live_count<captured> {};
  async::threadpool pool(4);
  for (std::size_t round = testing::rounds(200); round != 0; --round) {
    std::atomic<int> made{0};
    {
      async::future_group group;
      const auto in_turn = [](auto act) {
        return std::thread([act] {
          for (int i = 0; i != 100; ++i) act(i);
        });
      };
      std::thread threads[] = {in_turn([&](int) { group.add(pool.post([&made, mine = captured()] { ++made; })); }),
                               in_turn([&](int) {
                                 group.add(steps::post(pool, [&made, mine = captured()](IAsyncSteps& asi) {
                                   asi.onEnd([&made] { ++made; });
                                   asi.waitExternal();
                                 }));
                               }),
                               in_turn([&](int i) {
                                 if (i % 10 == 9) group.cancel();
                                 if (i % 10 == 4) group.when_empty().wait_for(1us);
                               })};
      for (std::thread& t : threads) t.join();
      if (round % 2 == 0) group.cancel();
      if (round % 2 == 0) group.when_empty().get();
    }
    CHECK(captured::live() == 0);
    CHECK(made <= 200);
  }
}
