// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <iterator>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "async/event_loop.hpp"
#include "steps/steps.hpp"
#include "support/held_workers.hpp"
#include "support/journey.hpp"
#include "support/live_count.hpp"
#include "support/meeting.hpp"
#include "support/scale.hpp"

// Pools that are resized, paused and stopped while their workers are inside calls and flows move: each flow ends once.

using async::event_loop;
using async::threadpool;
using steps::IAsyncSteps;
using testing::any_flow;
using testing::held_workers;
using testing::is_ready_in_time;
using testing::meeting;
using testing::wait_a_moment;
using namespace std::chrono_literals;

namespace {

struct held_object : testing::live_count<held_object> {};

/// Counts what becomes of flows.
struct outcomes {
  std::atomic<std::size_t> begun{0}, ended{0}, cancelled{0};

  /// A flow that counts its begin, and its end or cancel, around body(asi).
  template <class Body>
  auto counting(Body body) {
    return [this, body, h = held_object()](IAsyncSteps& asi) {
      ++begun;
      asi.setCancel([this, inner = held_object()] { ++cancelled; });
      asi.add(body);
      asi.add([this](IAsyncSteps&) { ++ended; });
    };
  }
};

/// True when the future has a value; false when its flow was cancelled.
bool has_value(std::future<void>& future) {
  try {
    future.get();
    return true;
  } catch (const std::future_error& error) {
    CHECK(error.code() == std::future_errc::broken_promise);
    return false;
  }
}

}  // namespace

TEST_CASE("workers that a growth adds serve what waits while all others are inside a call") {
  for (const held_workers::inside where :
       {held_workers::inside::task, held_workers::inside::first_step, held_workers::inside::later_step}) {
    CAPTURE(static_cast<int>(where));
    std::array<std::promise<void>, 2> called;
    std::vector<steps::completion<>> tokens;
    std::mutex guard;
    std::promise<void> all_wait;
    threadpool pool(2);
    std::vector<std::unique_ptr<any_flow>> flows;
    for (const testing::made_by how : testing::all_flows) {
      flows.push_back(std::make_unique<any_flow>(pool, how, [&](IAsyncSteps& asi) {
        asi.add([&](IAsyncSteps& step) {
          const std::lock_guard lock(guard);
          tokens.push_back(step.completion<>());
          if (tokens.size() == std::size(testing::all_flows)) all_wait.set_value();
        });
        wait_a_moment(asi);
        asi.await(pool, [] {});
      }));
    }
    all_wait.get_future().get();
    held_workers held(pool, where, 2);
    pool.configurepool(3);
    for (const auto& token : tokens) CHECK(token.success());
    for (std::size_t i = 0; i < 2; ++i) {
      pool.loop(i).deferred(1ms, [&called, i] { called[i].set_value(); });
    }
    for (auto& each : called) {
      auto is_called = each.get_future();
      REQUIRE(held.see(is_called));
    }
    for (auto& flow : flows) {
      REQUIRE(held.see(flow->end));
      CHECK_NOTHROW(flow->end.get());
    }
  }
}

TEST_CASE("the last worker goes on with everything when the others have ended inside a call") {
  for (const held_workers::inside where :
       {held_workers::inside::task, held_workers::inside::first_step, held_workers::inside::later_step}) {
    CAPTURE(static_cast<int>(where));
    outcomes all;
    threadpool pool(4);
    std::vector<std::future<void>> ends;
    for (int i = 0; i < 100; ++i) {
      ends.push_back(steps::post(pool, all.counting([](IAsyncSteps& asi) {
        for (int k = 0; k < 5; ++k) wait_a_moment(asi);
      })));
    }
    {
      held_workers held(pool, where, 4);
      pool.configurepool(1);
    }
    for (auto& end : ends) {
      REQUIRE(is_ready_in_time(end));
      CHECK(has_value(end));
    }
    pool.configurepool(2);  // and they share again
    meeting place(2);
    ends.clear();
    for (int i = 0; i < 20; ++i) {
      ends.push_back(steps::post(pool, all.counting([&place](IAsyncSteps& asi) {
        wait_a_moment(asi);
        asi.add([&place](IAsyncSteps&) { place.come(); });
      })));
    }
    for (auto& end : ends) {
      REQUIRE(is_ready_in_time(end));
      CHECK(has_value(end));
    }
    CHECK(place.met() == 10);
    CHECK(all.ended == 120);
    CHECK(all.cancelled == 0);
  }
  CHECK(held_object::live() == 0);
}

TEST_CASE("a paused pool goes on with no flow and no callback; what became due meanwhile runs afterwards") {
  outcomes all;
  std::atomic<std::size_t> ran{0}, callbacks{0};
  std::vector<steps::completion<>> tokens;
  std::mutex guard;
  threadpool pool(3);
  std::vector<std::future<void>> ends;
  std::atomic<std::size_t> waiting{0};
  for (std::size_t i = 0; i < 60; ++i) {
    ends.push_back(steps::post(pool, all.counting([&, i](IAsyncSteps& asi) {
      asi.add([&](IAsyncSteps& step) {
        const std::lock_guard lock(guard);
        tokens.push_back(step.completion<>());
        ++waiting;
      });
      if (i % 2 == 0) wait_a_moment(asi);
      asi.add([&ran](IAsyncSteps&) { ++ran; });
    })));
  }
  while (waiting != 60) std::this_thread::yield();
  const std::array<event_loop*, 3> loops{&pool.loop(0), &pool.loop(1), &pool.loop(2)};
  for (std::size_t round = 0; round < 3; ++round) {
    const held_workers all_turns_over(pool, held_workers::inside::task, 0);
    pool.configurepool(0);
    pool.wait_idle();
    for (std::size_t i = 0; i < 20; ++i) CHECK(tokens[round * 20 + i].success());
    for (event_loop* loop : loops) {
      loop->post([&callbacks] { ++callbacks; });
      loop->deferred(1ms, [&callbacks] { ++callbacks; });
    }
    std::this_thread::sleep_for(5ms);
    CHECK(ran == round * 20);
    CHECK(callbacks == round * 6);
    pool.configurepool(1 + round);
    while (ran != (round + 1) * 20 || callbacks != (round + 1) * 6) std::this_thread::yield();
  }
  for (auto& end : ends) {
    REQUIRE(is_ready_in_time(end));
    CHECK(has_value(end));
  }
  CHECK(all.ended == 60);
}

TEST_CASE("each flow ends once when its pool is resized all the time and stopped at the end") {
  const std::size_t pools = testing::rounds(20);
  constexpr std::size_t count = 120;
  for (const bool stops_in_steps : {false, true}) {
    CAPTURE(stops_in_steps);
    for (std::size_t round = 0; round < pools; ++round) {
      outcomes all;
      std::vector<std::future<void>> ends;
      std::minstd_rand random(static_cast<unsigned>(testing::seed() + round));
      std::future<void> stop;
      {
        threadpool pool(2);
        for (std::size_t i = 0; i < count; ++i) {
          const unsigned kind = static_cast<unsigned>(random() % 6);
          ends.push_back(steps::post(pool, all.counting([&pool, kind](IAsyncSteps& asi) {
            wait_a_moment(asi);
            if (kind == 0) asi.add([](IAsyncSteps& step) { step.waitExternal(); });
            if (kind == 1) asi.add([](IAsyncSteps& step) { step.setTimeout(1h); });
            if (kind == 2) asi.loop([](IAsyncSteps& step) { wait_a_moment(step); });
            if (kind == 3) {
              auto& branches = asi.parallel();
              for (int k = 0; k < 3; ++k) branches.add([](IAsyncSteps& branch) { wait_a_moment(branch); });
            }
            if (kind == 4) asi.await(pool, [] { std::this_thread::sleep_for(100us); });
            asi.relinquish();
          })));
          if (i % 20 == 0) pool.configurepool(random() % 5);
        }
        pool.configurepool(2);
        for (std::size_t n = random() % 4; n != 0; --n) {
          pool.configurepool(random() % 4);
          std::this_thread::yield();
        }
        if (stops_in_steps) {
          pool.configurepool(2);
          held_workers held(pool, held_workers::inside::first_step, 1);
          stop = std::async(std::launch::async, [&pool] { pool.stop(); });
          std::this_thread::yield();
          held.release();
          REQUIRE(is_ready_in_time(stop));
        }
      }
      std::size_t values = 0, broken = 0;
      for (auto& end : ends) {
        REQUIRE(end.wait_for(0s) == std::future_status::ready);
        try {
          ++(has_value(end) ? values : broken);
        } catch (const steps::Error&) {  // await() on a pool that has stopped
          ++broken;
        }
      }
      CHECK(values + broken == count);
      CHECK(values == all.ended);
      CHECK(broken == all.cancelled);
      CHECK(all.begun == count);
      CHECK(held_object::live() == 0);
    }
  }
}
