// SPDX-License-Identifier: BSL-1.0
//
// execute(pool, body) and execute(loop, body): flows without a future, whose errors go to the hooks.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "async/async.hpp"
#include "async/select.hpp"
#include "steps/steps.hpp"

using steps::ErrorCode;
using steps::IAsyncSteps;
using namespace std::chrono_literals;

namespace {

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& thrown) {
    return thrown.what();
  }
}

/// A pool whose hook notes the exceptions.
class noting {
 public:
  explicit noting(std::size_t threads) : pool(options(threads)) {}

  void wait_for(std::size_t count) {
    while (texts().size() < count) std::this_thread::yield();
  }
  std::vector<std::string> texts() {
    const std::lock_guard here(lock_);
    return texts_;
  }

 private:
  async::threadpool_options options(std::size_t threads) {
    async::threadpool_options o;
    o.threads = threads;
    o.on_unhandled = [this](const std::exception_ptr& error) {
      const std::lock_guard here(lock_);
      texts_.push_back(text_of(error));
    };
    return o;
  }
  std::mutex lock_;
  std::vector<std::string> texts_;

 public:
  async::threadpool pool;  // last: its threads use the others
};

/// Throws as it is moved into the flow.
struct immovable {
  immovable() = default;
  immovable(const immovable&) = default;
  immovable(immovable&& other) : moves(other.moves + 1) {
    if (moves == 2) throw std::runtime_error("cannot be moved");
  }
  int moves = 0;
};

}  // namespace

TEST_CASE("execute: an error of the flow goes to the pool's hook, with its exception") {
  noting here(2);
  std::atomic<int> ended{0};
  for (int i = 0; i < 100; ++i) {
    steps::execute(here.pool, [i, &ended](IAsyncSteps& asi) {
      asi.add([](IAsyncSteps& step) { step.select(async::after(1ms)); });
      asi.add([i, &ended](IAsyncSteps&) {
        if (i % 2 == 0) throw std::runtime_error("of a step");
        ++ended;
      });
    });
  }
  here.wait_for(50);
  while (ended != 50) std::this_thread::yield();
  here.pool.wait_idle();
  const auto all = here.texts();
  CHECK(all == std::vector<std::string>(50, "of a step"));
}

TEST_CASE("execute: an error that a handler has recovered from is none") {
  noting here(1);
  std::atomic<bool> has_ended{false};
  steps::execute(here.pool, async::priority::high, [&has_ended](IAsyncSteps& asi) {
    asi.add([](IAsyncSteps& step) { step.error("Code"); }, [](IAsyncSteps& step, ErrorCode) { step.success(); });
    asi.add([&has_ended](IAsyncSteps&) { has_ended = true; });
  });
  while (!has_ended) std::this_thread::yield();
  here.pool.stop();
  CHECK(here.texts().empty());
}

TEST_CASE("execute: the hook of the flow's state comes first") {
  noting here(1);
  std::atomic<bool> has_told{false};
  steps::execute(here.pool, [&has_told](IAsyncSteps& asi) {
    asi.state().set_unhandled_error([&has_told](ErrorCode code) { has_told = code == std::string("Code"); });
    asi.error("Code");
  });
  while (!has_told) std::this_thread::yield();
  steps::execute(here.pool, async::priority::low, [](IAsyncSteps& asi) { asi.error("Other"); });
  here.wait_for(1);
  CHECK(here.texts() == std::vector<std::string>{"Other"});
}

TEST_CASE("execute: a body that cannot be moved into the flow is an error") {
  noting here(1);
  steps::execute(here.pool, [load = immovable()](IAsyncSteps&) {});
  here.wait_for(1);
  CHECK(here.texts() == std::vector<std::string>{"cannot be moved"});
}

TEST_CASE("execute: on a loop, such a body is an error of a callback, whose hook may throw") {
  async::event_loop loop;
  loop.on_unhandled([](const std::exception_ptr& error) { std::rethrow_exception(error); });
  steps::execute(loop, [load = immovable()](IAsyncSteps&) {});
  CHECK_THROWS_WITH(loop.iterate(), "cannot be moved");
  steps::execute(loop, [](IAsyncSteps& asi) { asi.error("Code"); });
  CHECK_THROWS_WITH(loop.iterate(), "Code");
  bool has_run = false;
  steps::execute(loop, [&has_run](IAsyncSteps&) { has_run = true; });
  loop.iterate();
  CHECK(has_run);
}

TEST_CASE("execute: a pool that stops cancels flows, destroys those that have not started, and reports nothing") {
  noting here(1);
  const auto token = std::make_shared<int>(0);
  std::atomic<bool> waits{false}, is_cancelled{false};
  steps::execute(here.pool, [&, token](IAsyncSteps& asi) {
    asi.setCancel([&is_cancelled](IAsyncSteps&) { is_cancelled = true; });
    asi.waitExternal();
    waits = true;
  });
  while (!waits) std::this_thread::yield();
  here.pool.configurepool(0);
  steps::execute(here.pool, [token](IAsyncSteps&) {});
  CHECK(here.pool.stop(async::discard) == 2);
  CHECK(is_cancelled);
  CHECK(token.use_count() == 1);
  CHECK(here.texts().empty());
  CHECK_THROWS_AS(steps::execute(here.pool, [](IAsyncSteps&) {}), async::stopped);
}

TEST_CASE("execute: on a loop, an error goes to the loop's hook; its destructor cancels the flow") {
  std::vector<std::string> texts;
  bool is_cancelled = false;
  {
    async::event_loop loop;
    loop.on_unhandled([&texts](const std::exception_ptr& error) noexcept { texts.push_back(text_of(error)); });
    steps::execute(loop, [](IAsyncSteps& asi) { asi.error("Code", "and why"); });
    steps::execute(loop, [&is_cancelled](IAsyncSteps& asi) {
      asi.setCancel([&is_cancelled](IAsyncSteps&) { is_cancelled = true; });
      asi.waitExternal();
    });
    CHECK(texts.empty());
    while (texts.empty()) loop.iterate();
    loop.iterate();
  }
  CHECK(texts == std::vector<std::string>{"Code"});
  CHECK(is_cancelled);
}
