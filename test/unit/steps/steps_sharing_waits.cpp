// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <optional>
#include <thread>

#include "async/event_loop.hpp"
#include "steps/steps.hpp"
#include "support/flows.hpp"
#include "support/held_workers.hpp"
#include "support/journey.hpp"
#include "support/live_count.hpp"

// Flows and loops of a pool whose worker is inside a call that goes on until they have ended: another worker serves
// them.

using async::event_loop;
using async::threadpool;
using steps::IAsyncSteps;
using testing::any_flow;
using testing::held_workers;
using testing::journey;
using testing::made_by;
using testing::wait_for;
using namespace std::chrono_literals;
using inside = held_workers::inside;

namespace {

/// Starts a flow, keeps all workers but one, that of the flow among them, ends the flow's wait, and sees it end. False
/// when the flow's timer was too early for that.
bool goes_on(std::size_t workers, inside where, made_by how, wait_for what, std::chrono::milliseconds time) {
  threadpool pool(workers);
  journey trip(pool, what, time);
  any_flow flow(pool, how, [&trip](IAsyncSteps& asi) { trip.travel(asi); });
  held_workers held(pool, where, workers - 1, trip.thread());
  if (trip.has_gone_on()) return false;
  trip.end_wait();
  REQUIRE(held.see(flow.end));
  flow.end.get();
  return true;
}

void all_go_on(inside where) {
  for (const std::size_t workers : {2U, 4U}) {
    for (const made_by how : testing::all_flows) {
      for (const wait_for what : testing::all_waits) {
        CAPTURE(workers);
        CAPTURE(static_cast<int>(how));
        CAPTURE(static_cast<int>(what));
        for (auto time = 10ms; !goes_on(workers, where, how, what, time);) time *= 2;
      }
    }
  }
}

/// The thread that runs the loop's callbacks at the moment.
std::thread::id thread_of(event_loop& loop) {
  std::promise<std::thread::id> id;
  loop.post([&id] { id.set_value(std::this_thread::get_id()); });
  return id.get_future().get();
}

struct held_object : testing::live_count<held_object> {};

}  // namespace

TEST_CASE("a flow's wait ends on another worker while its own is inside a task") { all_go_on(inside::task); }
TEST_CASE("a flow's wait ends on another worker while its own is inside a flow's first step") {
  all_go_on(inside::first_step);
}
TEST_CASE("a flow's wait ends on another worker while its own is inside a flow's later step") {
  all_go_on(inside::later_step);
}
TEST_CASE("a flow's wait ends on another worker while its own is inside a callback of a loop") {
  all_go_on(inside::callback);
}

TEST_CASE("flows are cancelled, timed out and destroyed from outside while their workers are inside a call") {
  for (const inside where : held_workers::everything) {
    for (const made_by how : {made_by::async_steps, made_by::nitro_steps, made_by::branch, made_by::inner_branch}) {
      for (const bool destroys : {false, true}) {
        CAPTURE(static_cast<int>(where));
        CAPTURE(static_cast<int>(how));
        CAPTURE(destroys);
        std::atomic<int> handlers{0};
        std::promise<std::thread::id> thread;
        threadpool pool(2);
        any_flow flow(pool, how, [&](IAsyncSteps& asi) {
          asi.setCancel([&handlers] { ++handlers; });
          asi.add([&](IAsyncSteps& step) {
            step.setCancel([&handlers, h = held_object()] { ++handlers; });
            thread.set_value(std::this_thread::get_id());
          });
        });
        std::future<void> call;  // after `held`, which lets it end
        held_workers held(pool, where, 1, thread.get_future().get());
        call = std::async(std::launch::async, [&] { destroys ? flow.owner.reset() : flow.owner->cancel(); });
        REQUIRE(held.see(call));
        REQUIRE(held.see(flow.end));
        CHECK_THROWS_AS(flow.end.get(), std::future_error);
        CHECK(handlers == 2);
      }
    }
  }
  CHECK(held_object::live() == 0);
}

TEST_CASE("a flow's timeout, and its retries, come while its worker is inside a call") {
  for (const inside where : held_workers::everything) {
    CAPTURE(static_cast<int>(where));
    for (auto time = 10ms;; time *= 2) {
      std::atomic<int> attempts{0};
      std::promise<std::thread::id> thread;
      threadpool pool(2);
      steps::AsyncSteps flow{pool};
      flow.loop([&](IAsyncSteps& asi) {
        asi.add(
            [&](IAsyncSteps& step) {
              step.setTimeout(attempts == 0 ? time : 1ms);
              step.add([&](IAsyncSteps& inner) {
                if (attempts == 0) thread.set_value(std::this_thread::get_id());
                inner.waitExternal();
              });
            },
            [&](IAsyncSteps& step, steps::ErrorCode) { ++attempts == 5 ? step.breakLoop() : step.success(); });
      });
      auto end = flow.promise();
      held_workers held(pool, where, 1, thread.get_future().get());
      if (attempts != 0) continue;
      REQUIRE(held.see(end));
      CHECK_NOTHROW(end.get());
      CHECK(attempts == 5);
      break;
    }
  }
}

TEST_CASE("callbacks of each loop(i), and flows bound to it, run on while any workers but one are inside a call") {
  for (const std::size_t workers : {2U, 4U}) {
    for (const inside where : {inside::task, inside::first_step, inside::later_step}) {
      for (std::size_t kept = 0; kept < workers; ++kept) {
        CAPTURE(workers);
        CAPTURE(static_cast<int>(where));
        CAPTURE(kept);
        threadpool pool(workers);
        held_workers held(pool, where, workers - 1, thread_of(pool.loop(kept)));
        for (std::size_t i = 0; i < workers; ++i) {
          CAPTURE(i);
          event_loop& loop = pool.loop(i);
          std::promise<void> posted, called, fired;
          auto is_posted = posted.get_future(), is_called = called.get_future(), has_fired = fired.get_future();
          steps::AsyncSteps bound{loop};
          steps::completion<> token;
          std::promise<void> waits;
          bound.add([](IAsyncSteps& asi) { testing::wait_a_moment(asi); });
          bound.add([&](IAsyncSteps& asi) {
            token = asi.completion<>();
            waits.set_value();
          });
          bound.add([&](IAsyncSteps& asi) {
            if (!loop.is_same_thread() || event_loop::current() != &loop) asi.error("Elsewhere");
          });
          auto end = bound.promise();
          auto begun = waits.get_future();
          loop.post([&posted] { posted.set_value(); });
          loop.immediate([&called] { called.set_value(); });
          loop.deferred(1ms, [&fired] { fired.set_value(); });
          auto cancelled = loop.deferred(1h, [h = held_object()] {});
          cancelled.cancel();
          const bool called_back = held.see(is_posted) && held.see(is_called) && held.see(has_fired);
          const bool has_ended = held.see(begun) && token.success() && held.see(end);
          const auto until = std::chrono::steady_clock::now() + testing::patience;
          while (held_object::live() != 0 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
          CHECK(held_object::live() == 0);
          if (!called_back || !has_ended) held.release();
          REQUIRE(called_back);
          REQUIRE(has_ended);
          CHECK_NOTHROW(end.get());
        }
      }
    }
  }
}

TEST_CASE("a timer of loop(i) that was set before its worker went into a call fires in time") {
  for (const inside where : {inside::task, inside::first_step, inside::later_step}) {
    for (std::size_t i = 0; i < 2; ++i) {
      CAPTURE(static_cast<int>(where));
      CAPTURE(i);
      for (auto time = 10ms;; time *= 2) {
        threadpool pool(2);
        std::atomic<bool> has_fired{false};
        std::promise<void> fired;
        auto is_fired = fired.get_future();
        pool.loop(i).deferred(time, [&] {
          has_fired = true;
          fired.set_value();
        });
        held_workers held(pool, where, 1, thread_of(pool.loop(i)));
        if (has_fired) continue;
        REQUIRE(held.see(is_fired));
        break;
      }
    }
  }
}
