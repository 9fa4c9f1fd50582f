// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "async/event_loop.hpp"
#include "steps/steps.hpp"
#include "support/flows.hpp"
#include "support/held_workers.hpp"
#include "support/journey.hpp"
#include "support/meeting.hpp"

// Flows that are ready spread over all workers: their steps meet, each blocking its worker until the others are there.

using async::event_loop;
using async::threadpool;
using steps::IAsyncSteps;
using testing::held_workers;
using testing::is_ready_in_time;
using testing::meeting;
using testing::wait_a_moment;
using namespace std::chrono_literals;

namespace {

/// Waits for all futures; false if one is not ready in time.
template <class Futures>
bool all_end(Futures& futures) {
  for (auto& future : futures) {
    if (!is_ready_in_time(future)) return false;
    future.get();
  }
  return true;
}

/// Adds a wait and then a meeting.
void wait_and_meet(IAsyncSteps& asi, meeting& place) {
  wait_a_moment(asi);
  asi.add([&place](IAsyncSteps&) { place.come(); });
}

/// Tokens of flows that wait, to be ended all at once.
class waiters {
 public:
  /// Posts flows that wait for a token and then come to the meeting.
  waiters(threadpool& pool, std::size_t count, meeting& place) {
    std::promise<void> all_wait;
    for (std::size_t i = 0; i < count; ++i) {
      ends.push_back(steps::post(pool, [this, count, &place, &all_wait](IAsyncSteps& asi) {
        asi.add([this, count, &all_wait](IAsyncSteps& step) {
          const std::lock_guard lock(mutex_);
          tokens_->push_back(step.completion<>());
          if (tokens_->size() == count) all_wait.set_value();
        });
        asi.add([&place](IAsyncSteps&) { place.come(); });
      }));
    }
    all_wait.get_future().get();
    const std::lock_guard lock(mutex_);
  }
  /// The flows may have ended, and this object may have gone, before it returns.
  void end_all() {
    const auto tokens = tokens_;
    for (const auto& token : *tokens) token.success();
  }

  std::vector<std::future<void>> ends;

 private:
  std::mutex mutex_;
  const std::shared_ptr<std::vector<steps::completion<>>> tokens_ =
      std::make_shared<std::vector<steps::completion<>>>();
};

}  // namespace

TEST_CASE("flows that have waited for a timer run on all workers at once") {
  for (const std::size_t workers : {2U, 4U}) {
    for (const bool from_task : {false, true}) {
      CAPTURE(workers);
      CAPTURE(from_task);
      constexpr std::size_t count = 200;
      meeting place(workers);
      threadpool pool(workers);
      std::vector<std::future<void>> ends;
      const auto post_all = [&] {
        for (std::size_t i = 0; i < count; ++i) {
          ends.push_back(steps::post(pool, [&](IAsyncSteps& asi) { wait_and_meet(asi, place); }));
        }
      };
      from_task ? pool.post(post_all).get() : post_all();
      REQUIRE(all_end(ends));
      CHECK(place.met() == count / workers);
    }
  }
}

TEST_CASE("NitroSteps and AsyncSteps that have waited for a timer run on all workers at once") {
  constexpr std::size_t count = 20;
  meeting place(2);
  threadpool pool(2);
  std::vector<std::unique_ptr<IAsyncSteps>> flows;
  std::vector<std::future<void>> ends;
  for (std::size_t i = 0; i < count; ++i) {
    flows.push_back(std::make_unique<steps::AsyncSteps>(pool));
    flows.push_back(std::make_unique<testing::roomy_nitro>(pool));
  }
  for (int round = 1; round <= 3; ++round) {  // also where they have run before
    for (auto& flow : flows) {
      flow->add([&place](IAsyncSteps& asi) { wait_and_meet(asi, place); });
      ends.push_back(flow->promise());
    }
    REQUIRE(all_end(ends));
    ends.clear();
    CHECK(place.met() == static_cast<std::size_t>(round) * count);
  }
}

TEST_CASE("branches of one parallel() that have waited run on all workers at once") {
  for (const std::size_t workers : {2U, 4U}) {
    for (const bool nested : {false, true}) {
      CAPTURE(workers);
      CAPTURE(nested);
      meeting place(workers);
      threadpool pool(workers);
      auto end = steps::post(pool, [&](IAsyncSteps& asi) {
        wait_a_moment(asi);
        auto& outer = asi.parallel();
        for (int i = 0; i < 8; ++i) {
          outer.add([&](IAsyncSteps& branch) {
            if (!nested) return wait_and_meet(branch, place);
            wait_a_moment(branch);
            auto& inner = branch.parallel();
            for (int k = 0; k < 8; ++k) inner.add([&](IAsyncSteps& leaf) { wait_and_meet(leaf, place); });
          });
        }
      });
      REQUIRE(is_ready_in_time(end));
      CHECK_NOTHROW(end.get());
      CHECK(place.met() == (nested ? 64U : 8U) / workers);
    }
  }
}

TEST_CASE("flows that one call wakes run on all workers at once") {
  enum class from { outside, task, step, callback, timer };
  for (const std::size_t workers : {2U, 4U}) {
    for (const from where : {from::outside, from::task, from::step, from::callback, from::timer}) {
      CAPTURE(workers);
      CAPTURE(static_cast<int>(where));
      meeting place(workers);
      threadpool pool(workers);
      waiters flows(pool, 64, place);
      switch (where) {
        case from::outside:
          flows.end_all();
          break;
        case from::task:
          pool.execute([&] { flows.end_all(); });
          break;
        case from::step:
          static_cast<void>(steps::post(pool, [&](IAsyncSteps& asi) {
            wait_a_moment(asi);
            asi.add([&](IAsyncSteps&) { flows.end_all(); });
          }));
          break;
        case from::callback:
          pool.loop(0).post([&] { flows.end_all(); });
          break;
        case from::timer:
          pool.loop(workers - 1).deferred(1ms, [&] { flows.end_all(); });
          break;
      }
      REQUIRE(all_end(flows.ends));
      CHECK(place.met() == 64 / workers);
    }
  }
}

TEST_CASE("all flows that one call wakes go on on the one worker that is free") {
  for (const held_workers::inside where : held_workers::everything) {
    CAPTURE(static_cast<int>(where));
    meeting nobody(1);
    threadpool pool(4);
    waiters flows(pool, 64, nobody);
    held_workers held(pool, where, 3);
    flows.end_all();
    for (auto& end : flows.ends) {
      REQUIRE(held.see(end));
      CHECK_NOTHROW(end.get());
    }
    CHECK(nobody.met() == 64);
  }
}

TEST_CASE("flows that a call wakes run on another worker while the call goes on") {
  using runner = std::function<void(threadpool&, std::function<void()>)>;
  const runner runners[] = {
      [](threadpool& pool, std::function<void()> call) { pool.execute(std::move(call)); },
      [](threadpool& pool, std::function<void()> call) {
        static_cast<void>(steps::post(pool, [call](IAsyncSteps& asi) {
          wait_a_moment(asi);
          asi.add([call](IAsyncSteps&) { call(); });
        }));
      },
      [](threadpool& pool, std::function<void()> call) { pool.loop(1).post(std::move(call)); },
      [](threadpool& pool, std::function<void()> call) { pool.loop(0).deferred(1ms, std::move(call)); },
  };
  for (const runner& run : runners) {
    CAPTURE(&run - runners);
    for (const std::size_t count : {1U, 2U, 64U}) {
      CAPTURE(count);
      meeting nobody(1);
      threadpool pool(2);
      waiters flows(pool, count, nobody);
      std::promise<bool> in_time;
      run(pool, [&] {
        flows.end_all();
        in_time.set_value(all_end(flows.ends));  // blocks this worker
      });
      REQUIRE(in_time.get_future().get());
      CHECK(nobody.met() == count);
    }
    CAPTURE("a flow that it starts, and a callback that it posts");
    threadpool pool(2);
    std::promise<bool> in_time;
    run(pool, [&] {
      auto end = steps::post(pool, [](IAsyncSteps& asi) { wait_a_moment(asi); });
      event_loop& loop = pool.loop(event_loop::current() == &pool.loop(0) ? 1 : 0);
      std::promise<void> posted;
      auto is_posted = posted.get_future();
      loop.post([&posted] { posted.set_value(); });
      in_time.set_value(is_ready_in_time(end) && is_ready_in_time(is_posted));
      is_posted.wait();
    });
    REQUIRE(in_time.get_future().get());
  }
}

TEST_CASE("flows that a call wakes run on the other worker although that has a flow that never waits") {
  for (const std::size_t count : {1U, 3U, 64U}) {
    CAPTURE(count);
    meeting nobody(1);
    threadpool pool(2);
    waiters flows(pool, count, nobody);
    std::atomic<bool> is_over{false};
    std::promise<void> turns;
    auto endless = steps::post(pool, [&](IAsyncSteps& asi) {
      asi.add([&turns](IAsyncSteps&) { turns.set_value(); });
      asi.loop([&is_over](IAsyncSteps& round) {
        if (is_over) round.breakLoop();
        round.relinquish();
      });
    });
    turns.get_future().get();
    std::promise<bool> in_time;
    pool.execute([&] {
      flows.end_all();
      in_time.set_value(all_end(flows.ends));  // blocks this worker
    });
    CHECK(in_time.get_future().get());
    is_over = true;
    endless.get();
    CHECK(nobody.met() == count);
  }
}

TEST_CASE("a flow that hands a mutex over and one that cancels another go on beside it") {
  threadpool pool(2);
  for (int round = 0; round < 20; ++round) {
    steps::Mutex mutex;
    meeting place(2);
    std::vector<std::future<void>> ends;
    for (int i = 0; i < 2; ++i) {
      ends.push_back(steps::post(pool, [&](IAsyncSteps& asi) {
        asi.sync(mutex, [](IAsyncSteps& inside) { wait_a_moment(inside); });
        asi.add([&place](IAsyncSteps&) { place.come(); });  // the first one blocks while the second is let in
      }));
    }
    REQUIRE(all_end(ends));
    CHECK(place.met() == 1);

    std::promise<void> waits;
    steps::AsyncSteps victim{pool};
    victim.add([&](IAsyncSteps& asi) {
      asi.setCancel([&place] { place.come(); });
      waits.set_value();
    });
    auto broken = victim.promise();
    waits.get_future().get();
    auto end = steps::post(pool, [&](IAsyncSteps& asi) {
      wait_a_moment(asi);
      asi.add([&](IAsyncSteps&) {
        victim.cancel();
        place.come();
      });
    });
    REQUIRE(is_ready_in_time(end));
    REQUIRE(is_ready_in_time(broken));
    CHECK(place.met() == 2);
  }
}

TEST_CASE("more timers than fire at a time come due together, and each fires once") {
  constexpr std::size_t count = 1'000;
  threadpool pool(3);
  std::vector<std::atomic<int>> fired(count);
  std::vector<std::future<void>> flows;
  const auto due = std::chrono::steady_clock::now() + 50ms;  // for all: each flow has a loop, and so an alarm
  for (std::size_t i = 0; i < count; ++i) {
    flows.push_back(steps::post(pool, [&, i](IAsyncSteps& asi) {
      asi.add(
          [&](IAsyncSteps& waiting) {
            waiting.setTimeout(due - std::chrono::steady_clock::now());
            waiting.waitExternal();
          },
          [&, i](IAsyncSteps& over, steps::ErrorCode) {
            ++fired[i];
            over.success();
          });
    }));
  }
  REQUIRE(all_end(flows));
  CHECK(std::chrono::steady_clock::now() >= due);
  CHECK(std::all_of(fired.begin(), fired.end(), [](const auto& times) { return times == 1; }));
}
